/* stan_process.h - other programs (R, g++, make) run with an argument vector: no shell sees a file name. */
#ifndef WV_STAN_PROCESS_H
#define WV_STAN_PROCESS_H
#include "failure.h"
#include <stddef.h>

typedef struct {
    int status;   /* exit status; 128 + n: ended by signal n */
    char *output; /* [size] and a NUL: what it has written to stdout and stderr, the last of it if it
                   * was very much; free() it */
    size_t size;
} process_end;

/* The file that PATH has under this name, to be freed; NULL: none, or no memory. */
char *find_program(const char *name);

/* Runs argv[0], a path, in the directory dir, where its temporary files go too (dir NULL: here), and waits for its
 * end. 0, whatever its status; or an exit code with *f filled: it cannot be started, or somebody has asked this
 * process to stop, and then the program and its children are stopped first. */
int run_process(const char *const *argv, const char *dir, process_end *end, failure *f);
#endif
