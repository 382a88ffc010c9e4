/* memory.h - several arrays in one block. */
#ifndef WV_MEMORY_H
#define WV_MEMORY_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    double **where; /* gets the array, or NULL if it has no doubles */
    size_t count;   /* doubles in it; SIZE_MAX: more than there can be (wv_times) */
} wv_slot;

/* How the memory of a block begins. */
typedef enum {
    WV_ZEROED,   /* all zero */
    WV_AS_IT_IS, /* memory that is never touched costs nothing */
} wv_fill;

/* One block for all n slots, each at the beginning of a cache line: vectors that lie across two take twice as long to
 * load. To be freed as a whole; NULL without memory, and then the slots are not touched. */
double *wv_memory_carve(const wv_slot *slots, size_t n, wv_fill fill);
#endif
