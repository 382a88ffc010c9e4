/* tally.c - what tasks count, whichever worker runs them. Sums of whole numbers do not depend on their order. */
#include "tally.h"

void wv_tally_archive(wv_tally *t, wv_archive *a)
{
    wv_tally c = *t;
    wv_archive_values(a, &c, sizeof c);
    if (wv_archive_reading(a))
        *t = c;
}

void wv_tally_copy(wv_tally *t, const wv_tally *from)
{
    *t = *from;
}

void wv_tally_count_starved(wv_tally *t)
{
    t->starved++;
}

size_t *wv_tally_lend_limits(wv_tally *t)
{
    return &t->limits;
}

void wv_tally_begin_phase(wv_tally *t)
{
    t->starved = 0;
}

void wv_tally_add(wv_tally *t, const wv_tally *before, const wv_tally *after)
{
    t->starved += after->starved - before->starved;
    t->limits += after->limits - before->limits;
}
