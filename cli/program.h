/* program.h - the program, for what it begins in: cli/start.c, or mpi/start.c. */
#ifndef WV_PROGRAM_H
#define WV_PROGRAM_H
#include <stdbool.h>

extern const char *program_name; /* of the process, in what it says if a model ends it */

void prepare_program(void); /* once, first */

/* Runs the command; returns the exit code. */
int run_program(int argc, char **argv);

/* While it is on, a process that ends has been ended by a model: it says so, and ends with code 70. */
void guard_exit(bool on);
#endif
