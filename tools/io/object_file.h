/* object_file.h - is a file a shared object, whole? The dynamic loader crashes on one that has been cut short. */
#ifndef WV_OBJECT_FILE_H
#define WV_OBJECT_FILE_H
#include "failure.h"

/* 0, or an exit code with *f filled. */
int check_object(const char *path, failure *f);
#endif
