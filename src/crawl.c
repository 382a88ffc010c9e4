/* crawl.c - importance sampling cannot see a tail in which its proposal has no draws: its weights look fine. Hamiltonian walks can: they begin at draws that the
 * weights vouch for and follow the density, in the metric of the component that they begin in, out of what the mixture covers. Where p~ is then many times what m says, the
 * mixture is missing something, and that is where it grows next. */
#include "crawl.h"
#include "mix.h"
#include "weight.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Half of the walks follow the posterior, half a flatter density, its power `flat`, which goes further out. */
static const double flat = 0.3;

static double power(size_t c)
{
    return c < WV_WALKS / 2 ? 1 : flat;
}

static wv_gauss metric(const wvgd_fit *f, size_t c)
{
    return wv_mix_component(f, f->s.crawl.component[c]);
}

/* Component with the largest share of the mixture's density at x. */
static size_t owner(wvgd_fit *f, const double *x)
{
    size_t best = 0;
    double most = -INFINITY, log_q;
    for (size_t k = 0; k < f->s.mix.K; k++) {
        wv_gauss q = wv_mix_component(f, k);
        wv_component_log_density(&q, 1, x, &log_q, f->y, f->work);
        if (log_q + log(f->mix.w[k]) > most) {
            most = log_q + log(f->mix.w[k]);
            best = k;
        }
    }
    return best;
}

/* p += step/2 L' g */
static void kick(wvgd_fit *f, size_t c, double step)
{
    size_t D = f->D;
    wv_gauss q = metric(f, c);
    memcpy(f->vector[0], f->crawl_g + c * D, D * sizeof(double));
    q.family->pull(D, 0, q.root, 1, f->vector[0], f->work);
    cblas_daxpy((int)D, step * power(c), f->vector[0], 1, f->crawl_p + c * D, 1);
}

/* x += step L p */
static void drift(wvgd_fit *f, size_t c)
{
    size_t D = f->D;
    wv_gauss q = metric(f, c);
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

/* Walk c begins at stored draw i. */
static void set_out(wvgd_fit *f, size_t c, size_t i)
{
    size_t D = f->D;
    double u;
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->s.batch, 0};
    double *x = f->crawl_x + (WV_WALKS + c) * D, *g = f->crawl_g + (WV_WALKS + c) * D, *p = f->crawl_p + (WV_WALKS + c) * D;
    memcpy(x, f->close.x + i * D, D * sizeof *x);
    memcpy(g, f->close.grad + i * D, D * sizeof *g);
    wv_rng_normal(&stream, 2 * c + 2, D, p);
    wv_rng_uniform(&stream, 2 * c + 3, 1, &u);
    f->s.crawl.component[c] = owner(f, x);
    f->s.crawl.step[c] = (0.3 + 0.3 * u) / pow((double)D, 0.25);
    f->s.crawl.energy[c] = power(c) * f->close.log_p[i] - cblas_ddot((int)D, p, 1, p, 1) / 2;
    f->s.crawl.alive[c] = f->close_v[i] > 0;
    begin(f, c);
}

/* Walks first .. first + walks begin at a systematic sample of the stored draws with weights w. */
static void sample(wvgd_fit *f, size_t first, size_t walks, const double *w)
{
    size_t at = 0, n = f->s.closed;
    double total = cblas_dasum((int)n, w, 1), sum = w[0] / total, u;
    wv_stream stream = {f->opt.seed, WV_RNG_CRAWL, f->s.batch, 0};
    wv_rng_uniform(&stream, first ? 1 : 0, 1, &u);
    for (size_t c = 0; c < walks; c++) {
        while (sum < ((double)c + u) / (double)walks && at + 1 < n)
            sum += w[++at] / total;
        set_out(f, first + c, at);
    }
}

/* Each walk begins at a draw of the density that it follows. */
void wv_crawl_begin(wvgd_fit *f)
{
    size_t n = f->s.closed;
    double top = -INFINITY;
    f->s.crawl.seen = f->s.crawl.steps = 0;
    for (size_t i = 0; i < n; i++)
        top = fmax(top, f->close.log_p[i]);
    for (size_t i = 0; i < n; i++)
        f->close_spare[i] = f->close_v[i] > 0 ? f->close_v[i] * exp(fmin((1 - flat) * (top - f->close.log_p[i]), 100)) : 0;
    sample(f, 0, WV_WALKS / 2, f->close_v);
    sample(f, WV_WALKS / 2, WV_WALKS - WV_WALKS / 2, f->close_spare);
}

void wv_crawl_ask(wvgd_fit *f)
{
    size_t n = 0;
    for (size_t c = 0; c < WV_WALKS; c++)
        if (f->s.crawl.alive[c])
            memcpy(f->b.x + n++ * f->D, f->crawl_x + c * f->D, f->D * sizeof(double));
    f->b.n = n;
}

bool wv_crawl_tell(wvgd_fit *f)
{
    size_t D = f->D, n = 0, alive = 0;
    f->s.crawl.steps++;
    for (size_t c = 0; c < WV_WALKS; c++) {
        if (!f->s.crawl.alive[c])
            continue;
        memcpy(f->crawl_g + c * D, f->b.grad + n * D, D * sizeof(double));
        kick(f, c, f->s.crawl.step[c] / 2);
        if (power(c) * f->b.log_p[n] - cblas_ddot((int)D, f->crawl_p + c * D, 1, f->crawl_p + c * D, 1) / 2 > f->s.crawl.energy[c] - 2) {
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
