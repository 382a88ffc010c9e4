/* partition.h - cells, masses, truncated components and the bound, from the weighted draws of a staged fit. */
#ifndef WV_PARTITION_H
#define WV_PARTITION_H
#include "fit.h"

/* Solves the transport problem on the stored draws, fits a truncated component to every cell, and goes on to the stage that draws for the bound. */
void wv_partition_begin(wvgd_fit *f);

/* Masses of the components in their cells and weights, after the components have changed; then the stage that draws for the bound. */
void wv_partition_weigh(wvgd_fit *f);

wvgd_status wv_partition_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_partition_tell(wvgd_fit *f, wvgd_error *error);
#endif
