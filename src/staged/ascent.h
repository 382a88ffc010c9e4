/* ascent.h - one ascent of a wave: its frame, curvature pairs, line search, and the Gaussians that it leaves behind. */
#ifndef WV_ASCENT_H
#define WV_ASCENT_H
#include "archive.h"
#include "gaussian.h"
#include "wvgd.h"

enum {
    WV_PATHS = 8,   /* ascents in one wave, unless min_batch asks for more */
    WV_PAIRS = 30,  /* curvature pairs that an ascent looks back on, */
    WV_KEPT = 64,   /* and that are kept, for the Gaussians that it leaves behind */
    WV_STATIONS = 8 /* Gaussians that an ascent leaves behind */
};

/* An ascent under way. */
typedef struct {
    int active, fresh;          /* flags; fresh: its start has not been evaluated */
    int at_top, judged, spike;  /* flags: it has ended at a top; its end has been looked at; a narrow
                                 * peak there has been tried */
    int wide;                   /* flag: its start has the scale of prior or user */
    int past;                   /* flag: it has gone past what may be a slab */
    int slab;                   /* 1 + the station of a slab that is to be fitted after its top; -1: that was done */
    int narrowed;               /* flag: a Gaussian narrower than the one at its top has been fitted */
    int again;                  /* flag: it has forgotten curvature that had collapsed */
    int hit;                    /* the known mode in which it ended, or -1 */
    unsigned stations, made;    /* bits: Gaussians left behind; those whose roots have been worked out */
    size_t left[WV_STATIONS];   /* curvature pairs at each, */
    double left_p[WV_STATIONS]; /* and the log density */
    size_t start, tries;        /* which start, after how many without density, */
    double closer;              /* and how much closer for these, in powers of start_closer */
    size_t evaluations, accepted, pairs, stalls, looks;
    size_t seen;            /* 1: the density is known where it wants a gradient now, */
    double seen_p;          /* and its logarithm */
    size_t outside;         /* looks of the line search without density */
    size_t feeling, walls;  /* the number of the coordinate along which a wall is felt for, 0: of none; walls felt */
    double log_p, slope;    /* at the last accepted point */
    double slab_elbo;       /* of the slab, by a few draws */
    double top_elbo;        /* of the Gaussian at the top, likewise */
    double above;           /* by how much the density at its start exceeds what the modes predict */
    double sy[WV_KEPT];     /* products of its curvature pairs */
    double step, low, high; /* of the line search */
} wv_path;

bool wv_ascent_archive(wv_path *path, wv_archive *a, size_t D);

/* All ascents that follow run in this frame, a root of wv_modes_root_size(f) doubles. */
void wv_ascent_frame(wvgd_fit *f, const double *root);

/* The point that path k asks for next. */
void wv_ascent_trial(const wvgd_fit *f, size_t k, double *x);

/* Path k begins at x, its start, with this density and gradient. Where that is not known yet, NULL, the path ends if
 * the known modes predict the density, or else wants it. */
void wv_ascent_begin(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g);

/* Takes the answer at the trial point of path k; g NULL as above. */
void wv_ascent_advance(wvgd_fit *f, size_t k, double log_p, const double *x, const double *g);
void wv_ascent_end(wvgd_fit *f, size_t k, bool at_top);

/* Path k leaves the Gaussian of its curvature here behind as its last; station i is a view of one. If it has ended at a
 * top, of those that it left on the way only wide ones stay that may have the mass of the last: a slab around a spike.
 */
void wv_ascent_leave_last(wvgd_fit *f, size_t k);
wv_gaussian wv_ascent_station(const wvgd_fit *f, size_t k, size_t i);

/* Path k has ended in a mode with that density at its top and that log volume: of the Gaussians that it left on the way
 * only such wide ones stay. Whether there are any. */
bool wv_ascent_leave_slabs(wvgd_fit *f, size_t k, double top, double volume);
#endif
