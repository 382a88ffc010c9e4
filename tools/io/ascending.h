/* ascending.h - numbers in ascending order: qsort(x, n, sizeof *x, ascending). */
#ifndef WV_ASCENDING_H
#define WV_ASCENDING_H

static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
#endif
