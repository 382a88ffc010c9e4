/* state.c - save and restore: a header, the scalars, what is in use of the block of saved arrays, the trace, the
 * closing draws so far, and a checksum. Draws are keyed by batch, so nothing of a generator needs keeping, and a
 * batch that was asked for but not told is simply asked for again. */
#include "posterior.h"
#include "fit.h"
#include "staged/modes.h"
#include "draws.h"
#include "trace.h"
#include <string.h>

typedef struct {
    char magic[8];
    uint64_t version, N, D, options, size;
} header;

static const char magic[8] = "wvgdfit";
enum { VERSION = 10 };

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

/* The same for many bytes: eight at a time, in four lanes that do not wait for each other. */
static uint64_t checksum(const unsigned char *data, size_t size)
{
    enum { LANES = 4, WORD = 8 };
    uint64_t lane[LANES] = {14695981039346656037u, 1, 2, 3}, word[LANES];
    size_t whole = size - size % (LANES * WORD);
    for (size_t at = 0; at < whole; at += LANES * WORD) {
        memcpy(word, data + at, sizeof word);
        for (size_t i = 0; i < LANES; i++) {
            lane[i] = (lane[i] ^ word[i]) * 1099511628211u;
            lane[i] ^= lane[i] >> 29; /* so that high bits reach the low ones */
        }
    }
    return hash(hash(14695981039346656037u, lane, sizeof lane), data + whole, size - whole);
}

/* What a fit may go on with other values of: limits, and what its numbers do not depend on. */
static bool may_change(const char *name)
{
    return !strcmp(name, "max-iter") || !strcmp(name, "max-seconds") || !strcmp(name, "threads");
}

/* Of everything else that was asked for. */
static uint64_t options_hash(const wvgd_fit *f)
{
    uint64_t h = 14695981039346656037u;
    char text[64];
    for (size_t i = 0; wvgd_options_describe(i); i++) {
        const char *name = wvgd_options_describe(i)->name;
        if (!may_change(name) && wvgd_options_get(&f->opt, name, text, sizeof text, NULL) == WVGD_OK)
            h = hash(h, text, strlen(text) + 1);
    }
    return f->opt.metric ? hash(h, f->opt.metric, f->D * f->D * sizeof(double)) : h;
}

/* A piece of the state: where it is in memory and how long. */
typedef struct {
    void *data;
    size_t size;
} piece;

enum {
    ARRAYS = 42,
    PIECES = ARRAYS + WV_BATCHES,
    RESULTS = 22, /* the piece that begins with f->around */
    CELLS = 37    /* the one that holds cells */
};

/* Whether the stored draws are those of the result, with cells. */
static bool closing(const wv_scalars *s)
{
    return s->stage == WV_REFINE || s->stage == WV_BOUND || s->stage == WV_TRIAL || s->stage == WV_FINAL ||
           s->stage == WV_DONE;
}

/* Where an array begins in the block of saved ones; one that this fit does not have begins where the next does. */
static size_t begin(const wvgd_fit *f, const double *array, size_t next)
{
    return array ? (size_t)(array - f->saved) : next;
}

/* Pieces for the counts in s; those of the fit itself, or of a state about to be read. Of the saved
 * arrays only what the stage has a use for. */
static void pieces(wvgd_fit *f, wv_scalars *s, piece out[PIECES])
{
    bool draws = f->staged || s->stage == WV_EXPLORE, pool = draws && s->stage <= WV_BOUND && s->batches;
    const wv_draws_batch *last = &s->pooled[pool ? s->batches - 1 : 0];
    size_t n = s->closed, D = f->D, K = s->mix.K, d = sizeof(double), pooled = pool ? last->first + last->n : 0,
           made = pool ? last->proposal + last->proposals : 0;
    /* draws that have a cell, and weights for the posterior */
    size_t cells = closing(s) ? n : 0, weights = f->staged || s->stage == WV_DONE ? cells : 0;
    size_t walks = s->stage == WV_CRAWL ? 2 * WV_WALKS : 0, seen = s->stage == WV_CRAWL ? s->crawl.seen : 0;
    size_t results = begin(f, f->around, 0), crawl = begin(f, f->crawl_x, results), store = begin(f, f->pool.x, crawl),
           mix = begin(f, f->mix.mu, store), paths = begin(f, f->path_x, mix);
    const piece list[ARRAYS] = {
        {s, sizeof *s},
        {f->saved, paths * d},
        {f->saved + paths, s->stage == WV_EXPLORE ? (mix - paths) * d : 0},
        {f->mix.mu, K * D * d},
        {f->mix.root, K * D * D * d},
        {f->mix.w, K * d},
        {f->mix_best.mu, K * D * d},
        {f->mix_best.root, K * D * D * d},
        {f->mix_best.w, K * d},
        {f->mix_tried.mu, s->tried * D * d},
        {f->mix_tried.root, s->tried * D * D * d},
        {f->mix_tried.w, s->tried * d},
        {f->pool.x, pooled * D * d},
        {f->pool.grad, pooled * D * d},
        {f->pool.log_p, pooled * d},
        {f->pool.log_sum, pooled * d},
        {f->pool.mu, made * D * d},
        {f->pool.inverse, made * D * D * d},
        {f->pool.log_det, made * d},
        {f->pool.share, made * d},
        {f->pool.nu, made * d},
        {f->pool.tails, made * d},
        {f->saved + results, (f->saved_size - results) * d},
        {f->crawl_x, walks * D * d},
        {f->crawl_g, walks * D * d},
        {f->crawl_p, walks * D * d},
        {f->crawl_seen, seen * D * d},
        {f->crawl_log_p, seen * d},
        {f->trace, s->trace_rows * sizeof *f->trace},
        {f->trace_beta, s->trace_rows * f->N * d},
        {f->close.x, n * D * d},
        {f->close.log_p, n * d},
        {f->close.log_m, n * d},
        {f->close.log_q, cells * d},
        {f->close.log_mix[0], cells * d},
        {f->close.log_mix[1], f->staged ? 0 : cells * d},
        {f->close.near, cells * d},
        {f->close.cell, cells * sizeof(uint32_t)},
        {f->close.stratum, f->staged ? n * sizeof(uint32_t) : cells * sizeof(uint32_t)},
        {f->close_smooth, weights * d},
        {f->close_cal, weights * d},
        {f->close.grad, f->staged ? n * D * d : 0},
    };
    memcpy(out, list, sizeof list);
    for (size_t b = 0; b < WV_BATCHES; b++) /* of the pool, what each batch adds to its points */
        out[ARRAYS + b] = pool && b < s->batches ? (piece){f->pool.part + b * wv_draws_points(f), pooled * d}
                                                 : (piece){NULL, 0};
}

static size_t total(const piece p[PIECES])
{
    size_t sum = sizeof(header) + sizeof(uint64_t);
    for (size_t i = 0; i < PIECES; i++)
        sum += p[i].size;
    return sum;
}

size_t wvgd_save_size(const wvgd_fit *fit)
{
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit;
    piece p[PIECES];
    pieces(f, &f->s, p);
    return total(p);
}

wvgd_status wvgd_save(const wvgd_fit *fit, void *buffer, size_t size, wvgd_error *error)
{
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit;
    piece p[PIECES];
    pieces(f, &f->s, p);
    if (size != total(p))
        return wv_fail(error, WVGD_E_ARGUMENT, "the buffer has %zu bytes: expected %zu, as wvgd_save_size says", size,
                       total(p));
    header h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, magic, sizeof magic);
    h.version = VERSION;
    h.N = f->N;
    h.D = f->D;
    h.options = options_hash(f);
    h.size = size;
    unsigned char *to = buffer;
    memcpy(to, &h, sizeof h);
    to += sizeof h;
    for (size_t i = 0; i < PIECES; to += p[i++].size)
        if (p[i].size)
            memcpy(to, p[i].data, p[i].size);
    uint64_t sum = checksum(buffer, size - sizeof sum);
    memcpy(to, &sum, sizeof sum);
    return WVGD_OK;
}

/* A state may be forged with a right checksum: whatever is used as an index, a count or a flag is looked at. Other
 * numbers can at worst give wrong results. */
static bool sane_pool(const wvgd_fit *f, const wv_scalars *s)
{
    bool fits = f->exploring && f->dense;
    size_t n = 0, made = 0, points = fits ? wv_draws_points(f) : 0, proposals = fits ? wv_draws_proposals(f) : 0;
    for (size_t c = 0; c < WV_WALKS; c++)
        if ((s->crawl.alive[c] & ~1) || s->crawl.component[c] > WV_MODES + 200)
            return false;
    if (s->crawl.steps > WV_WALK || s->crawl.seen > s->crawl.steps * WV_WALKS || s->batches > WV_BATCHES ||
        s->mix.K > (fits ? wv_draws_components(f) : 0) || s->tried > (fits ? wv_draws_components(f) : 0) ||
        s->effort > WV_EFFORT || s->exploring > WV_ALONE || s->judged >= WV_PATHS)
        return false;
    for (size_t b = 0; b < s->batches; b++) {
        const wv_draws_batch *batch = &s->pooled[b];
        if (batch->first != n || batch->proposal != made || batch->n > points - n ||
            batch->proposals > proposals - made)
            return false;
        n += batch->n;
        made += batch->proposals;
    }
    for (size_t k = 0; k < WV_PATHS; k++)
        if ((s->path[k].settled & ~1) || (s->path[k].judged & ~1) || (s->path[k].spike & ~1) || s->path[k].hit < -1 ||
            s->path[k].hit >= WV_MODES || (s->path[k].stations | s->path[k].made) >> WV_STATIONS)
            return false;
    return true;
}

static bool sane(const wvgd_fit *f, const wv_scalars *s)
{
    bool last = s->stage == WV_TRIAL || s->stage == WV_FINAL || s->stage == WV_DONE;
    bool staged = s->stage >= WV_MIX && s->stage <= WV_BOUND;
    if (s->stage > WV_DONE || s->stop > WVGD_STOPPED || s->pending > WVGD_STOPPED ||
        (s->stage == WV_EXPLORE && !f->exploring) || (s->stage == WV_PILOT && !f->pilot) ||
        (staged && (!f->staged || !s->mix.K)))
        return false;
    if (!sane_pool(f, s) || s->trial > s->closed)
        return false;
    if (s->closed > f->close_max || s->planned > f->close_max || s->block > f->close_max || s->trials > 4 ||
        s->trace_rows > s->iteration || s->phase_start > s->trace_rows || s->marked > s->trace_rows ||
        s->modes > (f->exploring ? wv_modes_most(f) : 0))
        return false;
    if ((staged && s->planned > WV_CHUNK) ||
        (last && !(f->staged && s->stage == WV_DONE) &&
         (!s->planned || s->closed > (s->block + 1) * s->planned || s->closed < s->block * s->planned)))
        return false;
    if (s->stage == WV_DONE && !s->closed)
        return false;
    if (!last && !staged && s->closed > f->n_max)
        return false;
    for (size_t k = 0; k < WV_PATHS; k++)
        if ((s->path[k].active & ~1) || (s->path[k].fresh & ~1) || s->path[k].tries > 40)
            return false;
    for (size_t m = 0; m < WV_MODES; m++)
        if (s->mode[m].relevant & ~1)
            return false;
    for (size_t e = 0; e < WV_ENDS; e++)
        if (s->ends > WV_ENDS || s->end[e].mode < 0 || s->end[e].mode >= WV_MODES)
            return false;
    return true;
}

/* Weights, which decide how many draws a proposal makes, and cells of the closing draws, in a
 * buffer about to be read. */
static bool sane_buffer(const wvgd_fit *f, const piece p[PIECES], const unsigned char *from)
{
    const unsigned char *results = from, *cells = from;
    for (size_t i = 0; i < RESULTS; i++)
        results += p[i].size;
    for (size_t i = 0; i < CELLS; i++)
        cells += p[i].size;
    for (size_t j = 0; j < f->N; j++) {
        double w;
        memcpy(&w, results + ((size_t)(f->weight - f->around) + j) * sizeof w, sizeof w);
        if (!(w >= 0 && w <= 1))
            return false;
    }
    for (size_t i = 0; i < p[CELLS].size / sizeof(uint32_t); i++) {
        uint32_t cell;
        memcpy(&cell, cells + i * sizeof cell, sizeof cell);
        if (cell >= f->N)
            return false;
    }
    const unsigned char *strata = cells + p[CELLS].size;
    for (size_t i = 0; f->staged && i < p[CELLS + 1].size / sizeof(uint32_t); i++) {
        uint32_t stratum;
        memcpy(&stratum, strata + i * sizeof stratum, sizeof stratum);
        if (stratum >= f->made_room + 3 * f->N + 3)
            return false;
    }
    return true;
}

wvgd_status wvgd_restore(wvgd_fit *f, const void *buffer, size_t size, wvgd_error *error)
{
    header h;
    wv_scalars s;
    uint64_t sum;
    piece p[PIECES];
    const unsigned char *from = buffer;
    if (size < sizeof h + sizeof s + sizeof sum)
        return wv_fail(error, WVGD_E_STATE, "the state has %zu bytes: too short to be one", size);
    memcpy(&h, from, sizeof h);
    memcpy(&s, from + sizeof h, sizeof s);
    memcpy(&sum, from + size - sizeof sum, sizeof sum);
    if (memcmp(h.magic, magic, sizeof magic) || h.version != VERSION || h.size != size)
        return wv_fail(error, WVGD_E_STATE, "the state was not saved by this version of the library, or is cut short");
    if (sum != checksum(buffer, size - sizeof sum))
        return wv_fail(error, WVGD_E_STATE, "the state is damaged: its checksum does not match");
    if (h.N != f->N || h.D != f->D || h.options != options_hash(f))
        return wv_fail(error, WVGD_E_STATE,
                       "the state belongs to another fit: %zu particles in %zu dimensions, or other options",
                       (size_t)h.N, (size_t)h.D);
    if (!sane(f, &s))
        return wv_fail(error, WVGD_E_STATE, "the state is damaged: its counts contradict each other");
    pieces(f, &s, p);
    if (total(p) != size)
        return wv_fail(error, WVGD_E_STATE, "the state is damaged: %zu bytes, expected %zu", size, total(p));
    if (!sane_buffer(f, p, from + sizeof h))
        return wv_fail(error, WVGD_E_STATE, "the state is damaged: weights or cells out of range");
    if (!wv_trace_reserve(f, s.trace_rows))
        return wv_fail(error, WVGD_E_MEMORY, "no memory for %zu rows of trace", s.trace_rows);
    pieces(f, &s, p);
    from += sizeof h;
    for (size_t i = 0; i < PIECES; from += p[i++].size)
        if (p[i].size)
            memcpy(p[i].data, from, p[i].size);
    f->s = s;
    f->close.n = s.closed;
    f->asked = false;
    f->b = f->own; /* a batch that was asked for may stand in the store */
    f->known = WV_KNOWN_NOTHING;
    wv_posterior_weights(f);
    return WVGD_OK;
}
