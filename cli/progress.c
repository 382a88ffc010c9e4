/* progress.c - the progress bar and its plain form. The time left is that to the last iteration allowed (or to
 * --max-seconds): most runs converge before. */
#include "progress.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const double bar_every = 0.1, line_every = 5; /* seconds */

double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

progress_display begin_progress(bool quiet, double max_seconds)
{
    double now = clock_now();
    return (progress_display){quiet, isatty(STDERR_FILENO), now, now, max_seconds, false};
}

/* "1:02:03" or "2:03". */
static void put_time(char *text, size_t size, double seconds)
{
    unsigned long s = (unsigned long)fmin(fmax(seconds, 0), 1e9);
    if (s >= 3600)
        snprintf(text, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%lu:%02lu", s / 60, s % 60);
}

/* Share of the iterations done, and seconds left at most. */
static double share_done(const wvgd_progress *p)
{
    return !strcmp(p->stage, "close") || !strcmp(p->stage, "bound") || !strcmp(p->stage, "done")
               ? 1
               : (double)p->iteration / (double)p->max_iter;
}

static double seconds_left(const progress_display *d, const wvgd_progress *p)
{
    double share = share_done(p), left = share > 0 ? p->seconds * (1 - share) / share : INFINITY;
    return d->max_seconds > 0 ? fmin(left, d->max_seconds - p->seconds) : left;
}

static void describe(const progress_display *d, const wvgd_progress *p, char *text, size_t size)
{
    char estimate[80] = "", elapsed[32], left[48] = "";
    double seconds = seconds_left(d, p);
    put_time(elapsed, sizeof elapsed, p->seconds);
    if (isfinite(seconds) && share_done(p) < 1) {
        char time[32];
        put_time(time, sizeof time, seconds);
        snprintf(left, sizeof left, ", at most %s left", time);
    }
    if (isfinite(p->pelbo))
        snprintf(estimate, sizeof estimate, "  PELBO %.7g +- %.2g  ESS %.0f", p->pelbo, p->pelbo_se, p->ess);
    snprintf(text, size, "%-7s iteration %zu, %zu points%s  %s%s", p->stage, p->iteration, p->evaluations, estimate,
             elapsed, left);
}

static void put_bar(progress_display *d, const wvgd_progress *p, const char *text)
{
    enum { WIDTH = 20 };
    struct winsize size;
    int room = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col,
        full = (int)(WIDTH * share_done(p));
    char bar[WIDTH + 4] = "";
    if (room > 100) {
        memset(bar, '.', sizeof bar - 1);
        bar[0] = '[';
        memset(bar + 1, '#', (size_t)full);
        memcpy(bar + WIDTH + 1, "] ", 3);
    }
    fprintf(stderr, "\r\033[K%s%.*s", bar, room - 1 - (int)strlen(bar), text);
    fflush(stderr);
    d->shown = true;
}

void show_progress(progress_display *d, const wvgd_progress *p)
{
    double now = clock_now();
    char text[300];
    if (d->quiet || now - d->last < (d->terminal ? bar_every : line_every))
        return;
    d->last = now;
    describe(d, p, text, sizeof text);
    if (d->terminal)
        put_bar(d, p, text);
    else
        fprintf(stderr, "%s\n", text);
}

void show_rank(progress_display *d, int rank, double seconds)
{
    double now = clock_now();
    if (d->quiet || now - d->last < (d->terminal ? bar_every : line_every))
        return;
    d->last = now;
    fprintf(stderr, "%swaiting for rank %d, %.0f s%s", d->terminal ? "\r\033[K" : "", rank, seconds,
            d->terminal ? "" : "\n");
    fflush(stderr);
    d->shown = d->terminal;
}

void hide_progress(progress_display *d)
{
    if (d->shown)
        fputs("\r\033[K", stderr);
    d->shown = false;
}
