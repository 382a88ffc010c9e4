/* tail_probe.c - importance sampling cannot see a tail in which its proposal has no draws: its weights look fine.
 * Hamiltonian walks can: they begin at draws that the weights vouch for and follow the density, in the metric of the
 * component that they begin in, out of what the mixture covers. Where p~ is then many times what m says, the mixture
 * is missing something, and that is where it grows next. */
#include "staged/tail_probe.h"
#include "gaussian.h"
#include "rng.h"
#include "dense.h"
#include "staged/mixture_fit.h"
#include "staged/modes.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Half of the walks begin at draws that the weights vouch for and follow the posterior. The others set out from the
 * middle of a component along its longest axis, where no other component continues it, and follow a flatter density,
 * the posterior's power `flat`, which goes further out. */

/* momentum; and how far along, in sds, it is asked whether others are there */
static const double flat = 0.3, push = 2.2, reach = 3;

static double power(size_t c)
{
    return c < WV_WALKS / 2 ? 1 : flat;
}

static wv_gaussian metric(const wvgd_fit *f, size_t c)
{
    return wv_mixture_component(f, f->s.crawl.component[c]);
}

/* p += step/2 L' g */
static void kick(wvgd_fit *f, size_t c, double step)
{
    size_t D = f->D;
    wv_gaussian q = metric(f, c);
    memcpy(f->vector[0], f->crawl_g + c * D, D * sizeof(double));
    q.family->pull(D, 0, q.root, 1, f->vector[0], f->work);
    cblas_daxpy((int)D, step * power(c), f->vector[0], 1, f->crawl_p + c * D, 1);
}

/* x += step L p */
static void drift(wvgd_fit *f, size_t c)
{
    size_t D = f->D;
    wv_gaussian q = metric(f, c);
    memcpy(f->vector[0], f->crawl_p + c * D, D * sizeof(double));
    q.family->colour(D, 0, q.root, 1, f->vector[0], f->work);
    cblas_daxpy((int)D, f->s.crawl.step[c], f->vector[0], 1, f->crawl_x + c * D, 1);
}

static void begin(wvgd_fit *f, size_t c)
{
    size_t D = f->D, from = (WV_WALKS + c) * D, to = c * D;
    memcpy(f->crawl_x + to, f->crawl_x + from, D * sizeof(double));
    memcpy(f->crawl_g + to, f->crawl_g + from, D * sizeof(double));
    memcpy(f->crawl_p + to, f->crawl_p + from, D * sizeof(double));
    kick(f, c, f->s.crawl.step[c] / 2);
    drift(f, c);
}

/* Walk c begins at stored draw i with the momentum in f->crawl_p. */
static void set_out(wvgd_fit *f, size_t c, size_t i, size_t component)
{
    size_t D = f->D;
    double u, *p = f->crawl_p + (WV_WALKS + c) * D;
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->s.batch, 0};
    memcpy(f->crawl_x + (WV_WALKS + c) * D, f->close.x + i * D, D * sizeof *p);
    memcpy(f->crawl_g + (WV_WALKS + c) * D, f->close.grad + i * D, D * sizeof *p);
    wv_rng_uniform(&stream, 2 * c + 3, 1, &u);
    f->s.crawl.component[c] = component;
    f->s.crawl.step[c] = (0.3 + 0.3 * u) / pow((double)D, 0.25);
    f->s.crawl.energy[c] = power(c) * f->close.log_p[i] - cblas_ddot((int)D, p, 1, p, 1) / 2;
    f->s.crawl.alive[c] = f->close.log_p[i] > -INFINITY;
    begin(f, c);
}

/* Walks from a systematic sample of the stored draws, by their weights. */
static void sample(wvgd_fit *f, size_t walks)
{
    size_t at = 0, n = f->s.closed;
    double total = cblas_dasum((int)n, f->close_v, 1), sum = f->close_v[0] / total, u;
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->s.batch, 0};
    wv_rng_uniform(&stream, 0, 1, &u);
    for (size_t c = 0; c < walks; c++) {
        while (sum < ((double)c + u) / (double)walks && at + 1 < n)
            sum += f->close_v[++at] / total;
        wv_rng_normal(&stream, 2 * c + 2, f->D, f->crawl_p + (WV_WALKS + c) * f->D);
        set_out(f, c, at, wv_mixture_owner(f, f->close.x + at * f->D));
    }
}

/* Longest axis of component k, seen in the metric of the whole mixture (root): a unit vector in the component's
 * own coordinates, v = argmax |root^-1 L v|. */
static bool axis(wvgd_fit *f, size_t k, const double *root, double *v)
{
    size_t D = f->D;
    double *A = f->square[0], *G = f->square[1];
    wv_gaussian q = wv_mixture_component(f, k);
    memcpy(A, q.root, D * D * sizeof *A);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)D, (int)D, 1.0, root, (int)D, A,
                (int)D);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)D, (int)D, (int)D, 1.0, A, (int)D, A, (int)D, 0.0, G,
                (int)D);
    return wv_dense_longest(D, G, v, A);
}

/* Stored draw that is nearest to the middle of component k. */
static size_t nearest(wvgd_fit *f, size_t k)
{
    size_t best = 0, n = f->s.closed, D = f->D;
    double least = INFINITY;
    wv_gaussian q = wv_mixture_component(f, k);
    for (size_t first = 0; first < n; first += WV_BLOCK) {
        size_t here = n - first < WV_BLOCK ? n - first : WV_BLOCK;
        wv_gaussian_whiten(&q, here, f->close.x + first * D, f->y, f->work);
        for (size_t i = 0; i < here; i++) {
            double r = cblas_dnrm2((int)D, f->y + i * D, 1);
            if (r < least && f->close.log_p[first + i] > -INFINITY) {
                least = r;
                best = first + i;
            }
        }
    }
    return best;
}

/* How little the other components have at `reach` sds of component k along v: log of its share of the mixture there. */
static double lonely(wvgd_fit *f, size_t k, const double *v)
{
    double *x = f->vector[2], log_q, log_m;
    wv_gaussian q = wv_mixture_component(f, k);
    memcpy(x, v, f->D * sizeof *x);
    cblas_dscal((int)f->D, reach, x, 1);
    q.family->colour(f->D, 0, q.root, 1, x, f->work);
    cblas_daxpy((int)f->D, 1.0, q.mu, 1, x, 1);
    wv_gaussian_log_density(&q, 1, x, &log_q, f->y, f->work);
    wv_mixture_log_density(f, 1, x, &log_m);
    return log(f->mix.w[k]) + log_q - log_m;
}

/* Walks outwards from the ends of the mixture: how lonely each end is goes to f->mix_e, and behind it of which mode
 * each component is. Lengths of axes are seen in the metric of the components of the same mode: in that of all of
 * them what lies along the way from one mode to another would look short. */
static void extend(wvgd_fit *f, size_t first)
{
    size_t K = f->s.mix.K, D = f->D, modes = f->s.modes > 1 ? f->s.modes : 1;
    double *end = f->mix_e, *mode = end + 2 * K, *v = f->vector[3], *root = f->tail_root;
    for (size_t k = 0; k < K; k++) {
        mode[k] = modes > 1 ? (double)wv_modes_nearest(f, modes, f->mix.mu + k * D) : 0;
        end[2 * k] = end[2 * k + 1] = -INFINITY;
    }
    for (size_t m = 0; m < modes; m++) {
        bool measured = false;
        for (size_t k = 0; k < K; k++) {
            if (mode[k] != (double)m)
                continue;
            measured = measured || wv_mixture_moments_of(f, mode, (double)m, f->tail_mu, root);
            if (!measured || !axis(f, k, root, v))
                continue;
            end[2 * k] = lonely(f, k, v);
            cblas_dscal((int)D, -1, v, 1);
            end[2 * k + 1] = lonely(f, k, v);
        }
    }
    size_t known = K, from = 0; /* the component whose axis is in v, and the draw in its middle */
    for (size_t c = first; c < WV_WALKS; c++) {
        size_t e = 0;
        for (size_t i = 1; i < 2 * K; i++)
            e = end[i] > end[e] ? i : e;
        f->s.crawl.alive[c] = 0;
        if (!(end[e] > -INFINITY))
            continue;
        end[e] = -INFINITY;
        if (known != e / 2) {
            known = wv_mixture_moments_of(f, mode, mode[e / 2], f->tail_mu, root) && axis(f, e / 2, root, v) ? e / 2
                                                                                                             : K;
            from = known < K ? nearest(f, known) : 0;
        }
        if (known == K)
            continue;
        double *p = f->crawl_p + (WV_WALKS + c) * D;
        memset(p, 0, D * sizeof *p);
        cblas_daxpy((int)D, e % 2 ? -push : push, v, 1, p, 1);
        set_out(f, c, from, known);
    }
}

bool wv_tail_probe_begin(wvgd_fit *f)
{
    bool alive = false;
    double *const rows[] = {f->crawl_x, f->crawl_g, f->crawl_p};
    f->s.crawl = (wv_tail_probing){0};
    /* walks that do not set out have rows too, and these are saved */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        memset(rows[i], 0, 2 * WV_WALKS * f->D * sizeof(double));
    sample(f, WV_WALKS / 2);
    extend(f, WV_WALKS / 2);
    for (size_t c = 0; c < WV_WALKS; c++)
        alive |= f->s.crawl.alive[c] != 0;
    return alive;
}

void wv_tail_probe_ask(wvgd_fit *f)
{
    size_t n = 0;
    for (size_t c = 0; c < WV_WALKS; c++)
        if (f->s.crawl.alive[c])
            memcpy(f->b.x + n++ * f->D, f->crawl_x + c * f->D, f->D * sizeof(double));
    f->b.n = n;
}

bool wv_tail_probe_tell(wvgd_fit *f)
{
    size_t D = f->D, n = 0, alive = 0;
    f->s.crawl.steps++;
    for (size_t c = 0; c < WV_WALKS; c++) {
        if (!f->s.crawl.alive[c])
            continue;
        memcpy(f->crawl_g + c * D, f->b.grad + n * D, D * sizeof(double));
        kick(f, c, f->s.crawl.step[c] / 2);
        if (power(c) * f->b.log_p[n] - cblas_ddot((int)D, f->crawl_p + c * D, 1, f->crawl_p + c * D, 1) / 2 >
            f->s.crawl.energy[c] - 2) {
            memcpy(f->crawl_seen + f->s.crawl.seen * D, f->b.x + n * D, D * sizeof(double));
            f->crawl_log_p[f->s.crawl.seen++] = f->b.log_p[n];
            kick(f, c, f->s.crawl.step[c] / 2);
            drift(f, c);
        } else { /* the steps are too long here: once more, with shorter ones */
            f->s.crawl.step[c] *= 0.4;
            begin(f, c);
        }
        for (size_t i = 0; i < D; i++)
            if (!(fabs(f->crawl_x[c * D + i]) < 1e120))
                f->s.crawl.alive[c] = 0;
        alive += f->s.crawl.alive[c] ? 1 : 0;
        n++;
    }
    return !alive || f->s.crawl.steps == WV_WALK;
}
