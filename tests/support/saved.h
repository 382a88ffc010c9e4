/* saved.h - states of fits, and the stages that fits are in. Include after cmocka.h. */
#ifndef SAVED_H
#define SAVED_H

#include "wvgd.h"
#include <stdlib.h>

typedef struct {
    size_t size;
    unsigned char *bytes;
} saved;

/* free() the bytes. */
static inline saved save(const wvgd_fit *fit)
{
    saved s = {wvgd_save_size(fit), NULL};
    s.bytes = malloc(s.size);
    assert_non_null(s.bytes);
    assert_int_equal(wvgd_save(fit, s.bytes, s.size, NULL), WVGD_OK);
    return s;
}

static inline const char *stage_of(const wvgd_fit *fit)
{
    wvgd_progress p;
    wvgd_get_progress(fit, &p);
    return p.stage;
}

#endif
