/* experts.h - rows of bent coordinates (coordinates/bend_row.h) at many points at once, as vector code for several
 * instruction sets; which of them runs is decided by the processor. They differ in the last bits only. */
#ifndef WV_EXPERTS_H
#define WV_EXPERTS_H
#include <stddef.h>

enum { WV_EXPERTS_WIDTH = 8 };

/* Two experts: logs of their precisions, constant and slopes [1 + parents], and their locations, constant, slopes and
 * squares [1 + 2 parents]. */
typedef struct {
    size_t parents;
    const double *precision[2], *location[2];
    double log_scale; /* at most, either way */
    double huber;     /* residuals count linearly beyond it */
} wv_experts;

/* Points in columns, `apart` numbers apart: arguments t[parents][], values y[], scores g[], weights w[]. */
typedef struct {
    size_t apart;
    const double *t, *y, *g, *w;
} wv_experts_points;

/* Of the first n points, n a multiple of WV_EXPERTS_WIDTH. */
typedef struct {
    /* The sum of w times the square of the residual exp(s) g + exp(-s) (y - m), or what stands for it beyond `huber`;
     * weights that are not positive count as nothing. */
    double (*cost)(const wv_experts *e, const wv_experts_points *p, size_t n);
    /* The residuals r[n] and their derivatives J[][ld] by precision[0], precision[1], location[0], location[1], times
     * the roots of their weights; 0 where the weight is not positive, or the residual not finite. */
    void (*slopes)(const wv_experts *e, const wv_experts_points *p, size_t n, size_t ld, double *r, double *J);
    /* Scales, their logs and locations, [n] each; and, unless `by` is NULL, derivatives of the log scale by each
     * argument, then those of the location, [2 parents][apart]. Of the points only arguments are looked at. */
    void (*places)(const wv_experts *e, const wv_experts_points *p, size_t n, double *scale, double *s, double *m,
                   double *by);
} wv_experts_passes;

const wv_experts_passes *wv_experts_best(void);

#ifdef __x86_64__
extern const wv_experts_passes wv_experts_avx512, wv_experts_avx2;
#endif
extern const wv_experts_passes wv_experts_any;
#endif
