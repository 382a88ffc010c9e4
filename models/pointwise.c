/* pointwise.c - a model out of a function of one point. */
#include "wvgd_model.h"
#include <math.h>
#include <stdlib.h>

typedef struct {
    size_t dim;
    wvgd_point_density *density;
    void *self;
} pointwise;

static int log_density(void *self, size_t n, const double *z, double *log_p, double *grad)
{
    const pointwise *p = self;
    for (size_t i = 0; i < n; i++)
        log_p[i] = p->density(p->self, z + i * p->dim, grad ? grad + i * p->dim : NULL);
    return 0;
}

int wvgd_model_pointwise(wvgd_model *model, size_t dim, wvgd_point_density *density, void *self, bool has_gradient)
{
    pointwise *p = model && density ? malloc(sizeof *p) : NULL;
    if (!p)
        return -1;
    *p = (pointwise){dim, density, self};
    *model = (wvgd_model){.name = "pointwise",
                          .dim = dim,
                          .log_density = log_density,
                          .self = p,
                          .has_gradient = has_gradient,
                          .close = free};
    return 0;
}
