/* reproduce.h - the frame of `wvgd reproduce NAME`: a table of experiments, and what they share.
 *
 * To add an experiment NAME:
 *   1. write experiments/NAME.c with
 *          const experiment NAME_experiment = {"NAME", "one line of help", run};
 *      where run(const reproduction *r, failure *f) computes everything in this process (wvgd.h, models.h, svgd.h)
 *      and writes its files into r->out, the directory of this experiment, which is there: results.csv (a row a run)
 *      and results.md (tables, the paper's numbers beside ours) at least, and figures;
 *   2. declare it below, under "experiments", and add it to the table at the top of reproduce.c, which
 *      `wvgd reproduce all` goes through.
 * CMake picks up new files of experiments by itself. Input files go to experiments/data/ with their origin in
 * experiments/data/PROVENANCE.md; find_shared("experiments/FILE", f) and, for those of data/,
 * find_shared("data/FILE.csv", f) (cli/shared_file.h) find them in the build tree and when installed.
 *
 * Rules: all randomness comes from r->seed; with r->quick the same code runs on less (a few seconds an experiment,
 * for the tests); results do not depend on r->threads. Independent fits are shared by threads with run_jobs: give
 * each fit a model of its own or a thread safe one, and no threads of its own. Files are written with begin_result
 * or begin_markdown, then finish_file (tools/io/write.h): whole or not at all.
 * Figures: draw_result; without gnuplot it warns and the rest goes on. Anything that people should see goes to the
 * Markdown file, which is printed on stdout as well (print_result). */
#ifndef WV_REPRODUCE_H
#define WV_REPRODUCE_H
#include "failure.h"
#include "write.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *out;     /* directory for the files of this experiment */
    const char *command; /* the command line that made them */
    const char *name;    /* of the experiment */
    uint64_t seed;
    bool quick, quiet;
    unsigned threads;
    const char *targets;   /* mixture: --targets FILE.json, or NULL */
    size_t random_targets; /* mixture: --random-targets K, or 0 */
} reproduction;

typedef struct {
    const char *name, *line;
    int (*run)(const reproduction *r, failure *f); /* 0, or an exit code with *f filled */
} experiment;

/* ---- experiments ------------------------------------------------------------------------------------------------- */
extern const experiment mixture_experiment, logistic_experiment, gp_experiment, bnn_experiment, theory_experiment;

/* Row i of the table of experiments, in the order of `all`; NULL past the end. */
const experiment *describe_experiment(size_t i);

/* ---- files ------------------------------------------------------------------------------------------------------- */
/* Opens r->out/file: write to w->stream, then finish_file or abandon_file. */
int begin_result(const reproduction *r, const char *file, whole_file *w, failure *f);

/* The same for Markdown, beginning with the title and with how the file was made: command, version, seed. */
int begin_markdown(const reproduction *r, const char *file, const char *title, whole_file *w, failure *f);

/* Copies r->out/file to stdout. */
int print_result(const reproduction *r, const char *file, failure *f);

/* draw_figure (report/gnuplot.h) into r->out. Without gnuplot: a warning on stderr, and 0. */
int draw_result(const reproduction *r, const char *name, unsigned width, unsigned height, const char *script,
                failure *f);

/* Of n numbers; se is that of the mean. */
typedef struct {
    size_t n;
    double mean, sd, se, least, most, median;
} sample_summary;
sample_summary summarise_sample(size_t n, const double *x); /* n 0, or a value that is no number: NAN */

/* ---- many fits --------------------------------------------------------------------------------------------------- */
/* Job i of a list; self is shared by all of them. 0, or an exit code with *f filled, which ends the experiment. */
typedef int experiment_job(void *self, size_t i, failure *f);

/* Runs jobs 0..n-1, in this order, on r->threads threads, with progress on stderr ("mixture, wvgd: 12 of 75"). 0;
 * the code of the first job (by number) that failed; or 130: somebody has asked the program to stop. */
int run_jobs(const reproduction *r, const char *what, size_t n, experiment_job *job, void *self, failure *f);

/* Seconds of a clock that only goes forward, for the seconds column of results.csv. With several threads it also
 * counts the time that others have taken. */
double now_seconds(void);
#endif
