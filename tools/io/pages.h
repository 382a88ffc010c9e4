/* pages.h - memory that is given back while it is still allocated. */
#ifndef WV_PAGES_H
#define WV_PAGES_H
#include <stddef.h>

/* Gives back the whole pages in memory[bytes], which nobody reads again: they become 0. It is to be freed as ever. */
void give_back(void *memory, size_t bytes);
#endif
