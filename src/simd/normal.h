/* normal.h - Box-Muller for many pairs at once, as vector code for several instruction sets; which of them runs is
 * decided by the processor. They differ in the last bits only. */
#ifndef WV_NORMAL_H
#define WV_NORMAL_H
#include <stdbool.h>
#include <stddef.h>

enum { WV_NORMAL_WIDTH = 8 };

/* radius[i] = sqrt(-2 log u[i]), cosine[i] and sine[i] of 2 pi v[i], for i < n, a multiple of
 * WV_NORMAL_WIDTH; u and v in (0, 1): x[i] becomes the product of radius and cosine, y[i] of radius and
 * sine. In place: x holds u, y holds v. */
typedef void wv_normal_function(size_t n, double *x, double *y);

wv_normal_function *wv_normal_best(void);

#ifdef __x86_64__
wv_normal_function wv_normal_avx512, wv_normal_avx2;
#endif
wv_normal_function wv_normal_any;
#endif
