/* state.c - save and restore: a header, how far the fit has come, every part's own section, and a checksum. Draws are
 * keyed by batch, so nothing of a generator needs keeping, and a batch that was asked for but not told is simply asked
 * for again. */
#include "archive.h"
#include "describe.h"
#include "fit.h"
#include "posterior.h"
#include <string.h>

typedef struct {
    char magic[8];
    uint64_t version, N, D, options, size;
} header;

static const char magic[8] = "wvgdfit";
enum { VERSION = 43 };

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
    return !strcmp(name, "max-iter") || !strcmp(name, "max-evaluations") || !strcmp(name, "max-seconds") ||
           !strcmp(name, "threads");
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

/* ---- sections ---------------------------------------------------------------------------------------------------- */
/* How far the fit has come. */
typedef struct {
    size_t stage, stop, pending;
    wv_counts count;
} course;

static bool staged_stage(size_t stage)
{
    return stage >= WV_FIT && stage <= WV_BOUND;
}

/* Whether the fit can be in this stage. */
static bool possible(const wvgd_fit *f, const course *c)
{
    if (c->stage > WV_DONE || c->stop > WVGD_FINISHED || c->pending > WVGD_FINISHED)
        return false;
    switch (c->stage) {
    case WV_EXPLORE: return f->exploring;
    case WV_SEEK: return f->exploring && f->staged;
    case WV_DONE: return true;
    case WV_PILOT: return f->pilot.wanted && !f->staged;
    case WV_BEND: return f->bend.D > 0;
    case WV_REFINE: return f->staged && f->refine.room > 0;
    default: return staged_stage(c->stage) == f->staged;
    }
}

/* What there is of the closing draws in a stage, and what its next batch relies on. */
static wv_closing_rule rule_of(const wvgd_fit *f, size_t stage)
{
    size_t room = f->size.close_max, batch = WV_CHUNK + 4 * f->size.closing_proposals;
    bool joint = stage == WV_JOINT_TRIAL || stage == WV_JOINT_FINAL || (stage == WV_DONE && !f->staged),
         cells = joint || stage == WV_REFINE || stage == WV_BOUND || stage == WV_DONE;
    wv_closing_rule rule = {.draws = {.cells = cells, .most = room},
                            .weights = cells && (f->staged || stage == WV_DONE),
                            .some = stage == WV_DONE,
                            .blocks = joint,
                            .planned_most = staged_stage(stage) ? WV_CHUNK : room};
    if (stage == WV_TRIAL || (!cells && !staged_stage(stage)))
        rule.draws.most = 0; /* a trial begins anew */
    else if (stage == WV_CLOSING)
        rule.draws.most = room > batch ? room - batch : 0; /* there is room for another piece */
    return rule;
}

static bool archive_parts(wvgd_fit *f, wv_archive *a, const course *c)
{
    bool exploring = c->stage == WV_EXPLORE || c->stage == WV_SEEK, staged = staged_stage(c->stage);
    wv_closing_rule closing = rule_of(f, c->stage);
    wv_draws_rule recent = {.left_out = !exploring && !staged, .most = f->recent.shape.room},
                  gathered = {.left_out = closing.draws.cells, .most = f->gathered.shape.room};
    if (!wv_differences_archive(&f->differences, a))
        return false;
    wv_outcome_archive(&f->outcome, a);
    wv_tally_archive(&f->tally, a);
    wv_mixture_fit_archive(&f->fitting, a);
    wv_pilot_archive(&f->pilot, a);
    wv_posterior_archive(&f->posterior, a, f->D);
    wv_cell_refine_archive(&f->refine, a, c->stage == WV_REFINE);
    size_t rows = 0;
    return wv_trace_archive(&f->trace, a, c->count.iteration, &rows) && wv_partition_archive(&f->cells, a) &&
           wv_joint_archive(&f->joint, a, rows) && wv_modes_archive(&f->modes, a) &&
           wv_explore_archive(&f->explore, a, exploring) && wv_images_archive(&f->images, a, exploring) &&
           wv_growth_archive(&f->growth, a) && wv_bend_archive(&f->bend, a) && wv_bend_pool_archive(&f->pool, a) &&
           wv_bent_archive(&f->bent, a) && wv_mixture_archive(&f->mix, a, staged) &&
           wv_mixture_archive(&f->mix_best, a, 0) && wv_mixture_archive(&f->mix_tried, a, 0) &&
           wv_draws_archive(&f->recent, a, recent) && wv_draws_archive(&f->gathered, a, gathered) &&
           wv_tail_probe_archive(&f->probe, a, c->stage == WV_PROBE) &&
           wv_chains_archive(&f->chains, a, c->stage == WV_PROBE || c->stage == WV_CERTIFY || c->stage == WV_FINISH) &&
           wv_certificate_archive(&f->certificate, a, c->stage == WV_CERTIFY) &&
           wv_finisher_archive(&f->finish, a, c->stage == WV_FINISH) && wv_closing_archive(&f->closing, a, closing);
}

static bool archive_all(wvgd_fit *f, wv_archive *a)
{
    course c;
    memset(&c, 0, sizeof c); /* padding is saved, too */
    c.stage = f->stage;
    c.stop = f->stop;
    c.pending = f->pending; /* a stop that nobody has seen yet is none of the state */
    c.count = f->count;
    wv_archive_values(a, &c, sizeof c);
    if (!possible(f, &c))
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        f->stage = (wv_stage)c.stage;
        f->stop = (wvgd_stop)c.stop;
        f->pending = (wvgd_stop)c.pending;
        f->count = c.count;
    }
    return archive_parts(f, a, &c);
}

/* ---- save and restore -------------------------------------------------------------------------------------------- */
static size_t size_of(wvgd_fit *f)
{
    wv_archive a = {.mode = WV_COUNTING, .size = sizeof(header) + sizeof(uint64_t)};
    archive_all(f, &a);
    return a.size;
}

size_t wvgd_save_size(const wvgd_fit *fit)
{
    return !fit ? 0 : size_of((wvgd_fit *)(uintptr_t)fit); /* an archive that counts or writes changes nothing */
}

wvgd_status wvgd_save(const wvgd_fit *fit, void *buffer, size_t size, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_save", "fit", fit) || wv_missing(error, "wvgd_save", "buffer", buffer))
        return WVGD_E_ARGUMENT;
    wvgd_fit *f = (wvgd_fit *)(uintptr_t)fit;
    if (size != size_of(f))
        return wv_fail(error, WVGD_E_ARGUMENT, "the buffer has %zu bytes, expected %zu (see wvgd_save_size)", size,
                       size_of(f));
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
    wv_archive a = {.mode = WV_WRITING, .out = to + sizeof h, .size = size - sizeof h - sizeof(uint64_t)};
    archive_all(f, &a);
    uint64_t sum = checksum(buffer, size - sizeof sum);
    memcpy(to + size - sizeof sum, &sum, sizeof sum);
    return WVGD_OK;
}

/* Checks all parts before it reads the first, so that a state which is refused leaves the fit as it was. */
static wvgd_status read_parts(wvgd_fit *f, const unsigned char *from, size_t size, wvgd_error *error)
{
    const wv_archiving twice[] = {WV_CHECKING, WV_READING};
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        wv_archive a = {.mode = twice[i], .in = from, .size = size};
        bool good = archive_all(f, &a);
        if (a.memory)
            return wv_fail(error, WVGD_E_MEMORY, "no memory for the trace of the state");
        if (!good || a.refused || a.size)
            return wv_fail(error, WVGD_E_STATE, "the state is damaged: its counts contradict each other");
    }
    return WVGD_OK;
}

wvgd_status wvgd_restore(wvgd_fit *f, const void *buffer, size_t size, wvgd_error *error)
{
    if (wv_missing(error, "wvgd_restore", "fit", f) || wv_missing(error, "wvgd_restore", "buffer", buffer))
        return WVGD_E_ARGUMENT;
    header h;
    uint64_t sum;
    const unsigned char *from = buffer;
    if (size < sizeof h + sizeof sum)
        return wv_fail(error, WVGD_E_STATE, "the state has only %zu bytes", size);
    memcpy(&h, from, sizeof h);
    memcpy(&sum, from + size - sizeof sum, sizeof sum);
    if (memcmp(h.magic, magic, sizeof magic) || h.version != VERSION || h.size != size)
        return wv_fail(error, WVGD_E_STATE, "the state was not saved by this version of the library, or is cut short");
    if (sum != checksum(buffer, size - sizeof sum))
        return wv_fail(error, WVGD_E_STATE, "the state is damaged: its checksum does not match");
    if (!wv_fit_may_have(f, h.N) || h.D != f->D || h.options != options_hash(f))
        return wv_fail(error, WVGD_E_STATE,
                       "the state belongs to another fit: %zu particles in %zu dimensions, or other options",
                       (size_t)h.N, (size_t)h.D);
    size_t before = f->N;
    wv_fit_expect_cells(f, h.N);
    wvgd_status status = read_parts(f, from + sizeof h, size - sizeof h - sizeof sum, error);
    if (status != WVGD_OK) {
        wv_fit_expect_cells(f, before);
        return status;
    }
    f->asked = false;
    wv_batch_put_back(&f->b); /* one that was asked for may stand among the closing draws */
    f->b.n = 0;
    wv_describe_weights(f);
    return WVGD_OK;
}
