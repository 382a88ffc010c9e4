/* session.h - a model, its fit and, perhaps, its run directory. session.c opens, shows and closes it; session_run.c
 * runs it and writes its files; session_predict.c predicts with it. */
#ifndef WV_SESSION_H
#define WV_SESSION_H
#include "open_model.h"
#include "repeat.h"
#include "run_json.h"
#include "saved_fit.h"
#include "svgd_session.h"
#include "wvgd_tools.h"
#include <jansson.h>

/* A state of the fit, and the record of the run then. */
typedef struct {
    void *state;
    size_t size;
    json_t *asked;
    double at, price; /* when it was kept, and how many seconds that took */
} kept_state;
void drop_kept(kept_state *k);

struct wvgd_session {
    json_t *asked;      /* the record of the run */
    opened_model model; /* what was opened here, */
    saved_fit saved;    /* or what was loaded */
    bool loaded;
    const opened_model *shows; /* one of the two models */
    wvgd_fit *fit;
    svgd_part *svgd; /* runs instead of a fit; NULL: there is a fit */
    wvgd_options options;
    double *start;          /* [N][D] particles of --init FILE.csv, or NULL */
    const char *solver;     /* why it is another one, or NULL */
    char *dir;              /* run directory; NULL: none yet */
    bool overwrite;         /* a run in it may be replaced */
    const char *checkpoint; /* its file in dir */
    int lock;               /* descriptor of the locked directory, or -1 */
    bool made, resumed;     /* the directory is new; its run goes on */
    wvgd_note_callback *note;
    void *note_self;

    /* a run under way */
    bool begun;
    wvgd_progress_callback *callback;
    void *callback_self;
    const char *stage; /* of the batch that is evaluated next */
    double every;      /* seconds between checkpoints */
    double saved_at;   /* when the last one was written */
    size_t saves;      /* checkpoints written on the way */
    kept_state before; /* before one of the last steps, to go on from if a limit strikes */
    failure failed;    /* code 0: nothing has */
    bool early;        /* a limit or the callback has told the fit to end */
    bool over;         /* the run had ended before it was to go on */

    repeated_fits repeated; /* fits with other seeds, beside the first */

    /* a run that has ended */
    shown_draws shown; /* its closing draws */
    bool ended;
    json_t *run;          /* the object of run.json; NULL: it has not ended, or nobody has asked for it */
    size_t warnings;      /* what speaks against the result, then what else there is to know, */
    const char **warning; /* [warnings] of run */
    char *text;           /* the last summary */
    wvgd_prediction *row; /* the last predictions */
    char option[64];      /* the last option */
};

/* Steps of opening a session: the record and the model of a request; particles of --init FILE.csv; where results go. */
int open_requested(wvgd_session *s, const wvgd_request *request, failure *f);
int place_particles(wvgd_session *s, const wvgd_request *request, size_t *particles, failure *f);
int take_directory(wvgd_session *s, const wvgd_request *request, failure *f);

/* Lists what run says against the result. */
int list_warnings(wvgd_session *s, failure *f);

/* Makes `run` of a session that has ended, and lists the warnings, unless that has been done. */
int describe_session(wvgd_session *s, failure *f);

/* Of a run that was loaded: its record; draws of the ensemble, of seed 1, that can be shown at most; the quantities
 * value[n][shown] of points z[n][D], NAN where the model refuses one. */
const json_t *session_record(const wvgd_session *s);
size_t session_ensemble_most(const wvgd_session *s);
void session_show(const wvgd_session *s, size_t n, const double *z, double *value);

/* Adds what there is to know of the model's table to the warnings of a run. */
void add_table_warnings(const wvgd_session *s, json_t *run);

double clock_seconds(void);
#endif
