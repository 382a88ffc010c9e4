/* row_shares.h - rows of a file that several processes have read, each a share of its bytes, and what these agree on.
 * All processes call the same functions in the same order. NULL shares: there is one process, which has all rows, and
 * nothing is sent. Shares lie in the order of the file: what is first in the lowest rank is first in the file. */
#ifndef WV_ROW_SHARES_H
#define WV_ROW_SHARES_H
#include "failure.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    unsigned rank, count;
    /* Every process gives bytes, and gets those of all, one after the other in *all, to be freed, and their sizes
     * [count]. 0, or -1: a process is lost, or there is no memory. */
    int (*gather)(void *self, const void *mine, size_t size, char **all, size_t *sizes);
    void *self;
    bool lost; /* they have failed to: others may wait for this process */
} row_shares;

/* Sums over all processes, in rank order: counts [n] or numbers [n] become those of all rows. */
int share_counts(row_shares *s, size_t n, size_t *count, failure *f);
int share_sums(row_shares *s, size_t n, double *sum, failure *f);

/* Is it so in all processes? */
int share_all(row_shares *s, bool *flag, failure *f);

/* f->code 0, or not: the failure of the lowest rank that has one becomes that of all. Returns its code. */
int share_failure(row_shares *s, failure *f);

/* Texts of all processes, each with its NUL, one after the other in *all, of *size bytes, to be freed. begin[count]:
 * where those of each begin; NULL: not wanted. */
int share_texts(row_shares *s, const char *mine, size_t bytes, char **all, size_t *size, size_t *begin, failure *f);

/* Numbers of all processes, one after the other in *all, *total of them, to be freed. */
int share_numbers(row_shares *s, size_t n, const double *mine, double **all, size_t *total, failure *f);

/* The first and the last number in the order of the file; has: there is one here. If nobody has, *x stays. */
int share_first(row_shares *s, bool has, double *x, failure *f);
int share_last(row_shares *s, bool has, double *x, failure *f);

/* The bytes of a file that hold the header and, of the rows, those of this share: text[size] and a NUL, to be freed.
 * *head: bytes of the header; *line: where in the file the first row stands. Rows begin where a line begins outside
 * quotes. 0, or an exit code with *f filled, the same in all processes. */
int read_share(row_shares *s, const char *path, char **text, size_t *size, size_t *head, size_t *line, failure *f);
#endif
