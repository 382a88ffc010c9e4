/* images.c - images of a mode where coordinates may be exchanged.
 *
 * A posterior with labels (groups of a mixture, lines of a spectrum) is the same when two labels are exchanged:
 * p(P z) = p(z), P a permutation of coordinates, perhaps with changes of sign. At a point that no such P moves, P
 * leaves the gradient alone as well. Where all coordinates are equal, like coordinates therefore have equal slopes; at
 * the origin, those of which only the sign may change (the log odds of two groups) have none. So two evaluations tell
 * which coordinates may be like each other:
 *     z = 0, then z = t for coordinates with a slope at 0, and 0 for the others.
 * The k-th coordinates of classes of like ones belong to label k. One evaluation tells whether the image of a mode
 * under an exchange of two labels has the mode's density. Then it is a mode, with the same mass and the same Gaussian
 * in other coordinates; else an ascent may start there. */
#include "staged/images.h"
#include "fit.h"
#include "gaussian.h"
#include "memory.h"
#include "policy.h"
#include "staged/modes.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool wv_images_new(wv_images *s, size_t D, bool used)
{
    *s = (wv_images){.D = D, .used = used};
    const wv_slot slots[] = {{&s->origin, used ? D : 0},
                             {&s->like, used ? D : 0},
                             {&s->start, used ? wv_times(WV_IMAGE_STARTS, D) : 0}};
    s->memory = wv_memory_carve(slots, sizeof slots / sizeof *slots, WV_ZEROED);
    return s->memory != NULL;
}

void wv_images_free(wv_images *s)
{
    free(s->memory);
}

void wv_images_forget(wv_images *s)
{
    s->known = WV_LIKE_UNKNOWN;
    s->mode = s->starts = s->taken = 0;
    memset(s->memory, 0, (size_t)(s->start + WV_IMAGE_STARTS * s->D - s->memory) * sizeof *s->memory);
}

bool wv_images_archive(wv_images *s, wv_archive *a, bool running)
{
    struct {
        size_t known, mode, starts, taken;
    } v = {s->known, s->mode, s->starts, s->taken};
    wv_archive_values(a, &v, sizeof v);
    if (v.known > WV_LIKE_KNOWN || v.mode >= WV_MODES || v.starts > WV_IMAGE_STARTS || v.taken > v.starts)
        return wv_archive_refuse(a);
    if (wv_archive_reading(a)) {
        s->known = (wv_likeness)v.known;
        s->mode = v.mode;
        s->starts = v.starts;
        s->taken = v.taken;
    }
    size_t D = running && s->used ? s->D : 0;
    wv_archive_array(a, s->origin, D);
    wv_archive_array(a, s->like, D);
    wv_archive_array(a, s->start, WV_IMAGE_STARTS * D);
    return true;
}

/* ---- like coordinates -------------------------------------------------------------------------------------------- */
static bool equal(double a, double b)
{
    return fabs(a - b) <= wv_policy.image_equal * fmax(fabs(a), fabs(b));
}

/* Is g[i] no slope, beside the others? */
static bool without_slope(size_t D, const double *g, size_t i)
{
    return fabs(g[i]) <= wv_policy.image_equal * fabs(g[cblas_idamax((int)D, g, 1)]);
}

/* Takes the gradient g at the second point. */
static void compare(wv_images *s, const double *g)
{
    for (size_t i = 0; i < s->D; i++) {
        bool odd = without_slope(s->D, s->origin, i) && without_slope(s->D, g, i);
        s->like[i] = odd ? -1 : (double)i;
        for (size_t k = 0; k < i && !odd; k++)
            if (s->like[k] == (double)k && equal(s->origin[i], s->origin[k]) && equal(g[i], g[k])) {
                s->like[i] = (double)k;
                break;
            }
    }
}

/* Coordinates like i. */
static size_t class_size(const wv_images *s, size_t i)
{
    size_t n = 0;
    for (size_t k = 0; k < s->D; k++)
        n += s->like[k] == (double)i;
    return n;
}

/* ---- exchanges --------------------------------------------------------------------------------------------------- */
/* An exchange of labels a and b. */
typedef struct {
    size_t labels; /* how many there are */
    size_t only;   /* the one class whose coordinates are exchanged; D: all */
    size_t a, b;
    bool strided; /* coordinates of a class with several of each label: by turns, not in blocks */
    bool flipped; /* coordinates of which only the sign may change change it */
} exchange;

/* The label of coordinate number e of a class of n. */
static size_t label_of(const exchange *x, size_t n, size_t e)
{
    return x->strided ? e % x->labels : e / (n / x->labels);
}

/* The number e' of the coordinate of a class of n that takes the place of number e. */
static size_t partner(const exchange *x, size_t n, size_t e)
{
    size_t label = label_of(x, n, e), other = label == x->a ? x->b : label == x->b ? x->a : label, each = n / x->labels;
    return x->strided ? e - label + other : e - label * each + other * each;
}

/* from[i]: the coordinate that coordinate i is taken from. */
static void permutation(const wv_images *s, const exchange *x, size_t *from)
{
    for (size_t c = 0; c < s->D; c++)
        from[c] = c;
    for (size_t c = 0; c < s->D; c++) {
        size_t n = class_size(s, c), e = 0;
        if (n < 2 || n % x->labels || (x->only < s->D && x->only != c))
            continue;
        for (size_t i = 0; i < s->D; i++) {
            if (s->like[i] != (double)c)
                continue;
            size_t wanted = partner(x, n, e++), k = 0;
            for (size_t seen = 0; k < s->D; k++)
                if (s->like[k] == (double)c && seen++ == wanted)
                    break;
            from[i] = k;
        }
    }
}

/* Signs of the coordinates of an image. */
static double sign_of(const wv_images *s, const exchange *x, size_t i)
{
    return x->flipped && s->like[i] < 0 ? -1 : 1;
}

static void image_of(const wvgd_fit *f, const exchange *x, size_t m, const size_t *from, double *z)
{
    for (size_t i = 0; i < f->D; i++)
        z[i] = sign_of(&f->images, x, i) * f->modes.x[m * f->D + from[i]];
}

/* What classes there are. */
typedef struct {
    size_t classes, labels; /* labels: of the smallest class */
    bool odd, several;      /* coordinates of which the sign may change; classes with several coordinates of a label */
} symmetry;

static symmetry symmetry_of(const wv_images *s)
{
    symmetry y = {0, 0, false, false};
    for (size_t i = 0; i < s->D; i++) {
        size_t n = class_size(s, i);
        y.odd = y.odd || s->like[i] < 0;
        y.classes += n > 1;
        y.labels = n > 1 && (!y.labels || n < y.labels) ? n : y.labels;
    }
    for (size_t i = 0; i < s->D; i++)
        y.several = y.several || (y.labels && class_size(s, i) > y.labels);
    return y;
}

/* The next exchange after *x in a fixed order; false: there is none. */
static bool next_pair(exchange *x)
{
    if (++x->b < x->labels)
        return true;
    x->b = ++x->a + 1;
    return x->b < x->labels;
}

static bool next_exchange(const wv_images *s, const symmetry *y, exchange *x)
{
    if (next_pair(x))
        return true;
    x->a = 0;
    x->b = 1;
    if (x->only == s->D && y->odd && !x->flipped) {
        x->flipped = true;
        return true;
    }
    if (x->only == s->D && y->several && !x->strided) {
        x->flipped = false;
        x->strided = true;
        return true;
    }
    if (y->classes < 2 && !y->several)
        return false;
    for (size_t c = x->only == s->D ? 0 : x->only + 1; c < s->D; c++)
        if (class_size(s, c) > 1) {
            *x = (exchange){.labels = class_size(s, c), .only = c, .b = 1};
            return true;
        }
    return false;
}

/* ---- images ------------------------------------------------------------------------------------------------------ */
/* Is z the top of a mode that is known? */
static bool is_known(wvgd_fit *f, const double *z)
{
    size_t m = 0;
    double distance = INFINITY;
    wv_modes_predict(f, z, &m, &distance);
    return distance < wv_policy.judge_same_distance * (double)f->D + wv_policy.judge_same_spare;
}

/* Images of mode m that are not known: up to WV_IMAGES_MOST of them, rows of z unless it is NULL. Returns how many. */
static size_t images(wvgd_fit *f, size_t m, exchange *which, double *z)
{
    size_t D = f->D, n = 0, mark = wv_arena_mark(f->arena), *from = wv_arena_take_sizes(f->arena, D);
    double *image = wv_arena_take(f->arena, D);
    symmetry y = symmetry_of(&f->images);
    exchange x = {.labels = y.labels, .only = D, .b = 1};
    for (bool more = y.classes > 0; more && n < WV_IMAGES_MOST; more = next_exchange(&f->images, &y, &x)) {
        permutation(&f->images, &x, from);
        image_of(f, &x, m, from, image);
        if (is_known(f, image))
            continue;
        which[n] = x;
        memcpy(z + n++ * D, image, D * sizeof *z);
    }
    wv_arena_release(f->arena, mark);
    return n;
}

/* The Gaussian of mode m under an exchange is one more mode. */
static void add_image(wvgd_fit *f, size_t m, const exchange *x, const double *z)
{
    size_t D = f->D, mark = wv_arena_mark(f->arena), *from = wv_arena_take_sizes(f->arena, D);
    double *C = wv_arena_take(f->arena, D * D), *turned = wv_arena_take(f->arena, D * D),
           *root = wv_arena_take(f->arena, D * D), *one = wv_arena_take(f->arena, D);
    wv_gaussian g = wv_modes_gaussian(f, m);
    permutation(&f->images, x, from);
    wv_gaussian_cov(&g, C, f->arena);
    for (size_t i = 0; i < D; i++) {
        one[i] = 1;
        for (size_t k = 0; k < D; k++)
            turned[i * D + k] = sign_of(&f->images, x, i) * sign_of(&f->images, x, k) * C[from[i] * D + from[k]];
    }
    g.family->set_sd(D, 0, root, one);
    if (g.family->absorb(D, 0, root, turned, f->arena)) {
        g.mu = z;
        g.root = root;
        wv_modes_add_image(f, m, &g);
    }
    wv_arena_release(f->arena, mark);
}

/* Modes that matter, and whose images have not been looked at. */
static bool next_mode(wvgd_fit *f)
{
    size_t mark = wv_arena_mark(f->arena), m = 0;
    double *z = wv_arena_take(f->arena, WV_IMAGES_MOST * f->D);
    exchange which[WV_IMAGES_MOST];
    for (; m < f->modes.n; m++) {
        if (!f->modes.mode[m].relevant || f->modes.mode[m].imaged)
            continue;
        if (images(f, m, which, z))
            break;
        wv_modes_set_imaged(f, m);
    }
    wv_arena_release(f->arena, mark);
    f->images.mode = m < f->modes.n ? m : 0;
    return m < f->modes.n;
}

bool wv_images_begin(wvgd_fit *f)
{
    return f->images.used && (f->images.known != WV_LIKE_KNOWN || next_mode(f));
}

bool wv_images_wants_gradient(const wvgd_fit *f)
{
    return f->images.known != WV_LIKE_KNOWN;
}

void wv_images_ask(wvgd_fit *f)
{
    size_t D = f->D;
    exchange which[WV_IMAGES_MOST];
    f->b.n = 1;
    if (f->images.known == WV_LIKE_KNOWN) {
        memcpy(f->b.x, f->modes.x + f->images.mode * D, D * sizeof(double));
        f->b.n += images(f, f->images.mode, which, f->b.x + D);
        return;
    }
    for (size_t i = 0; i < D; i++)
        f->b.x[i] = f->images.known == WV_LIKE_UNKNOWN || without_slope(D, f->images.origin, i)
                        ? 0
                        : wv_policy.image_probe * f->opt.init_scale;
}

/* The densities of a mode's top and of its images. */
static void tell_images(wvgd_fit *f)
{
    size_t m = f->images.mode, D = f->D, mark = wv_arena_mark(f->arena);
    double *z = wv_arena_take(f->arena, WV_IMAGES_MOST * D), top = f->b.log_p[0];
    exchange which[WV_IMAGES_MOST];
    size_t n = images(f, m, which, z);
    wv_modes_set_imaged(f, m);
    for (size_t i = 0; i < n && top > -INFINITY; i++) {
        double log_p = f->b.log_p[1 + i];
        if (is_known(f, z + i * D))
            continue;
        if (fabs(log_p - top) < wv_policy.image_equal * (1 + fabs(top)))
            add_image(f, m, &which[i], z + i * D);
        else if (log_p > top - wv_policy.judge_far_below * (double)(D + 1) && f->images.starts < WV_IMAGE_STARTS)
            memcpy(f->images.start + f->images.starts++ * D, z + i * D, D * sizeof *z);
    }
    wv_modes_rescale(f);
    wv_arena_release(f->arena, mark);
}

void wv_images_tell(wvgd_fit *f)
{
    const double *g = f->b.grad;
    if (f->images.known == WV_LIKE_KNOWN) {
        tell_images(f);
        return;
    }
    bool first = f->images.known == WV_LIKE_UNKNOWN, level = f->b.log_p[0] == -INFINITY;
    if (first && !level)
        memcpy(f->images.origin, g, f->D * sizeof *g);
    if (!first && !level)
        compare(&f->images, g);
    for (size_t i = 0; i < f->D && level; i++) /* nothing to compare */
        f->images.like[i] = (double)i;
    f->images.known = first && !level ? WV_LIKE_ORIGIN : WV_LIKE_KNOWN;
}

bool wv_images_start(wvgd_fit *f, double *x)
{
    if (f->images.taken == f->images.starts)
        return false;
    memcpy(x, f->images.start + f->images.taken++ * f->D, f->D * sizeof *x);
    return true;
}
