/* edited_state.c - saved states, changed and sealed again. */
#include "edited_state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = sizeof(double), HEADER = 6 * WORD, OPTIONS = 4 * WORD }; /* where the hash of the options stands */

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

void edited_state_seal(unsigned char *state, size_t size)
{
    uint64_t lane[4] = {14695981039346656037u, 1, 2, 3}, word[4], sum;
    size_t end = size - sizeof sum, whole = end - end % sizeof word;
    for (size_t at = 0; at < whole; at += sizeof word) {
        memcpy(word, state + at, sizeof word);
        for (size_t i = 0; i < 4; i++) {
            lane[i] = (lane[i] ^ word[i]) * 1099511628211u;
            lane[i] ^= lane[i] >> 29;
        }
    }
    sum = hash(hash(14695981039346656037u, lane, sizeof lane), state + whole, end - whole);
    memcpy(state + end, &sum, sizeof sum);
}

static unsigned char *save(const wvgd_fit *fit, size_t *size)
{
    *size = wvgd_save_size(fit);
    unsigned char *state = malloc(*size);
    if (state && wvgd_save(fit, state, *size, NULL) != WVGD_OK) {
        free(state);
        state = NULL;
    }
    return state;
}

size_t edited_state_put(wvgd_fit *fit, size_t n, const double *mark, size_t offset, size_t m, const double *to)
{
    size_t size, found = 0, most = n > offset + m ? n : offset + m;
    unsigned char *state = save(fit, &size);
    for (size_t at = HEADER; state && at + (most + 1) * WORD <= size; at++)
        if (!memcmp(state + at, mark, n * WORD)) {
            memcpy(state + at + offset * WORD, to, m * WORD);
            found++;
        }
    if (state) {
        edited_state_seal(state, size);
        found = wvgd_restore(fit, state, size, NULL) == WVGD_OK ? found : 0;
    }
    free(state);
    return found;
}

size_t edited_state_replace(wvgd_fit *fit, size_t n, const double *from, const double *to)
{
    return edited_state_put(fit, n, from, 0, n, to);
}

size_t edited_state_count(const wvgd_fit *fit, size_t n, const double *value, double off)
{
    size_t size, found = 0;
    unsigned char *state = save(fit, &size);
    for (size_t at = HEADER; state && at + (n + 1) * WORD <= size; at++) {
        size_t same = 0;
        for (double here; same < n; same++) {
            memcpy(&here, state + at + same * WORD, WORD);
            if (!(fabs(here - value[same]) <= off))
                break;
        }
        found += same == n;
    }
    free(state);
    return found;
}

uint64_t edited_state_stage(const wvgd_fit *fit)
{
    size_t size;
    uint64_t stage = UINT64_MAX;
    unsigned char *state = save(fit, &size);
    if (state)
        memcpy(&stage, state + HEADER, sizeof stage);
    free(state);
    return stage;
}

wvgd_status edited_state_move(wvgd_fit *to, const wvgd_fit *from, wvgd_error *error)
{
    size_t size, own;
    unsigned char *state = save(from, &size), *other = save(to, &own);
    wvgd_status status = WVGD_E_MEMORY;
    if (state && other) {
        memcpy(state + OPTIONS, other + OPTIONS, WORD);
        edited_state_seal(state, size);
        status = wvgd_restore(to, state, size, error);
    }
    free(state);
    free(other);
    return status;
}
