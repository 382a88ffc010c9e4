/* failure.h - why a command cannot go on: an exit code of sysexits.h and one line for the user, or several. */
#ifndef WV_FAILURE_H
#define WV_FAILURE_H

typedef struct {
    int code;        /* EX_USAGE 64, EX_DATAERR 65, EX_NOINPUT 66, EX_SOFTWARE 70, EX_CANTCREAT 73,
                      * EX_IOERR 74, EX_TEMPFAIL 75 */
    char text[2048]; /* names the thing, the value and the rule */
} failure;

/* *all says what *one says, too, in a line of its own; "..." where there is no room. all->code 0: it says nothing yet.
 */
void add_failure(failure *all, const failure *one);

/* Fills *f and returns code. */
__attribute__((format(printf, 3, 4))) int fail(failure *f, int code, const char *format, ...);
#endif
