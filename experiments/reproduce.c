/* reproduce.c - the table of experiments, their files, and threads that share their jobs. */
#include "reproduce.h"
#include "ascending.h"
#include "gnuplot.h"
#include "progress.h"
#include "run_directory.h"
#include "signals.h"
#include "text.h"
#include "wvgd.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const experiment *const experiments[] = {
    &mixture_experiment, &logistic_experiment, &gp_experiment, &bnn_experiment, &theory_experiment,
};

const experiment *describe_experiment(size_t i)
{
    return i < sizeof experiments / sizeof *experiments ? experiments[i] : NULL;
}

double now_seconds(void)
{
    return clock_now();
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
int begin_result(const reproduction *r, const char *file, whole_file *w, failure *f)
{
    char *path = run_path(r->out, file);
    int code = path ? begin_file(w, path, f) : fail(f, EX_SOFTWARE, "no memory for %s", file);
    free(path);
    return code;
}

int begin_markdown(const reproduction *r, const char *file, const char *title, whole_file *w, failure *f)
{
    int code = begin_result(r, file, w, f);
    if (!code)
        fprintf(w->stream, "# %s\n\nMade by `%s` (wvgd %s, seed %" PRIu64 "%s).\n\n", title, r->command, WVGD_VERSION,
                r->seed, r->quick ? "; a quick run, on less: the numbers are for testing only" : "");
    return code;
}

int print_result(const reproduction *r, const char *file, failure *f)
{
    char *path = run_path(r->out, file), *text = NULL;
    size_t size = 0;
    int code = path ? read_text(path, &text, &size, f) : fail(f, EX_SOFTWARE, "no memory for %s", file);
    if (!code) {
        fwrite(text, 1, size, stdout);
        putchar('\n');
    }
    free(text);
    free(path);
    return code;
}

int draw_result(const reproduction *r, const char *name, unsigned width, unsigned height, const char *script,
                failure *f)
{
    if (has_gnuplot())
        return draw_figure(r->out, name, width, height, script, f);
    fprintf(stderr, "wvgd: warning: %s is not drawn: gnuplot is not installed (Debian package gnuplot-nox)\n", name);
    return 0;
}

sample_summary summarise_sample(size_t n, const double *x)
{
    sample_summary s = {n, 0, 0, NAN, NAN, NAN, NAN};
    double *sorted = malloc((n + 1) * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        s.mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        s.sd += (x[i] - s.mean) * (x[i] - s.mean);
    s.mean = n ? s.mean : NAN;
    s.sd = n > 1 ? sqrt(s.sd / (double)(n - 1)) : NAN;
    s.se = s.sd / sqrt((double)n);
    if (sorted && isfinite(s.mean)) {
        memcpy(sorted, x, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, ascending);
        s.least = sorted[0];
        s.most = sorted[n - 1];
        s.median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    }
    free(sorted);
    return s;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */
typedef struct {
    const reproduction *r;
    const char *what;
    size_t n, next, done;
    experiment_job *job;
    void *self;
    pthread_mutex_t lock;
    size_t failed; /* number of the first job that did, or n */
    failure why;
    double begun, shown;
    bool bar;
} job_list;

/* A line that is written over in a terminal, one every ten seconds elsewhere. The lock is held. */
static void show_jobs(job_list *l)
{
    bool terminal = isatty(STDERR_FILENO);
    double now = clock_now();
    if (l->r->quiet || now - l->shown < (terminal ? 0.2 : 10))
        return;
    l->shown = now;
    l->bar = terminal;
    fprintf(stderr, "%s%s, %s: %zu of %zu, %.0f s%s", terminal ? "\r\033[K" : "", l->r->name, l->what, l->done, l->n,
            now - l->begun, terminal ? "" : "\n");
    fflush(stderr);
}

static void *take_jobs(void *self)
{
    job_list *l = self;
    failure why;
    pthread_mutex_lock(&l->lock);
    while (l->next < l->n && l->failed == l->n && !was_interrupted()) {
        size_t i = l->next++;
        pthread_mutex_unlock(&l->lock);
        int code = l->job(l->self, i, &why);
        pthread_mutex_lock(&l->lock);
        if (code && i < l->failed) {
            l->failed = i;
            l->why = why;
        }
        l->done++;
        show_jobs(l);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int run_jobs(const reproduction *r, const char *what, size_t n, experiment_job *job, void *self, failure *f)
{
    enum { MOST = 64 };
    pthread_t thread[MOST];
    size_t started = 0, wanted = r->threads < MOST ? r->threads : MOST;
    double now = clock_now();
    job_list l = {.r = r, .what = what, .n = n, .job = job, .self = self, .failed = n, .begun = now, .shown = now};
    pthread_mutex_init(&l.lock, NULL);
    for (; started + 1 < wanted && started + 1 < n; started++)
        if (pthread_create(&thread[started], NULL, take_jobs, &l))
            break;
    take_jobs(&l);
    while (started)
        pthread_join(thread[--started], NULL);
    pthread_mutex_destroy(&l.lock);
    if (l.bar)
        fputs("\r\033[K", stderr);
    if (l.failed < n) {
        *f = l.why;
        return f->code;
    }
    return was_interrupted()
               ? fail(f, EXIT_INTERRUPTED, "interrupted in %s: the files of finished experiments are complete", r->name)
               : 0;
}
