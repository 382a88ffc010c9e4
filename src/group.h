/* group.h - groups of neighbouring particles. */
#ifndef WV_GROUP_H
#define WV_GROUP_H
#include "fit.h"

/* Groups at most. */
size_t wv_group_most(size_t N);

/* Splits the particles into groups: f->member in the order of groups, f->group_start, and the Gaussian of each group with its share of the draws. */
void wv_group_split(wvgd_fit *f);
#endif
