/* explore.h - where to start: modes of the log density, found by ascents from scattered points. */
#ifndef WV_EXPLORE_H
#define WV_EXPLORE_H
#include "archive.h"
#include "staged/ascent.h"
#include "staged/starts.h"
#include "wvgd.h"

enum { WV_ENDS = 16 };      /* ends of ascents remembered that were no modes */
enum { WV_UNCOVERED = 64 }; /* starts remembered that a mixture does not cover */

/* What exploration is doing: paths climb; one that has ended is judged by a few draws; its Gaussian is fitted; images
 * of modes are looked at. */
typedef enum { WV_CLIMB, WV_JUDGE, WV_ALONE, WV_IMAGED, WV_EXPLORED } wv_exploring;

/* Where an ascent ended that led to a known mode when its Gaussian was fitted. */
typedef struct {
    double log_p;
    int mode;
    unsigned fits;
} wv_end;

/* Where the only mode seems to be bent, the search waits for what the solver says of a bend, and then goes on. */
typedef enum { WV_NO_WAIT, WV_WAITING, WV_WAITED } wv_bend_wait;

typedef struct {
    size_t D, size;  /* dimensions; doubles in a root */
    size_t padded;   /* doubles in a row in the frame: whole vectors */
    size_t stations; /* Gaussians that a path leaves behind */
    wv_exploring phase;
    size_t starts;                      /* ascents begun */
    size_t wide;                        /* those at the scale of prior or user that have come to a top */
    size_t climbed;                     /* evaluations of paths */
    size_t again_starts, again_climbed; /* of these, before the search went on with a mixture; 0: it has not */
    wv_bend_wait waits;                 /* for a bend */
    size_t judged;                      /* the path whose end is being looked at */
    size_t idle;        /* fits of ascents without end, one after the other, that have led to nothing new */
    size_t refused;     /* Gaussians narrower than doubles can tell */
    size_t slabs;       /* paths into known modes that may have come by a slab; */
    size_t slab_starts; /* starts when the last of them was looked at */
    size_t ends;
    wv_end end[WV_ENDS];
    size_t uncovered;                 /* starts that the final draws do not cover: */
    double uncovered_p[WV_UNCOVERED]; /* log p~ in the coordinates of the draws, */
    double uncovered_w[WV_UNCOVERED]; /* and log p~/(m Z) there */
    size_t paths;                     /* in one wave */
    wv_path *path;                    /* [paths] */
    double *frame;                    /* [size] root of the metric of the ascents under way */
    double *end_x;                    /* [ends][D] */
    double *path_x, *path_p;          /* [paths][D] point and direction of each ascent */
    double *path_g, *path_q;          /* [paths][padded] gradient and direction in the frame, */
    double *path_grad;                /* [paths][D] gradient in the model's coordinates, */
    double *path_wall;                /* [paths][D] and 1 or -1 where a wall is above or below */
    double *path_s, *path_y;          /* [paths][WV_KEPT][padded] and its curvature pairs */
    double *station_x, *station_root; /* [paths][stations][D], [paths][stations][size] Gaussians left behind */
    double *frame_turned;             /* [D][D] frame', if */
    bool turned;                      /* it has been worked out */
    double *memory;
} wv_explore;

/* Paths of a wave for this min_batch: as many, but not more than memory is worth. */
size_t wv_explore_paths(size_t D, size_t min_batch);

/* paths 0: it is not used. */
bool wv_explore_new(wv_explore *e, size_t D, bool dense, size_t paths);
void wv_explore_free(wv_explore *e);
bool wv_explore_archive(wv_explore *e, wv_archive *a, bool running);
void wv_explore_copy_counts(wv_explore *to, const wv_explore *from); /* of an exploration that has ended */

/* What a fit has explored so far. */
const wv_explore *wv_explore_of(const wvgd_fit *f);

/* Starts that must have led to a mode of weight, and those that have led to mode m. Where most starts at the scale of
 * prior or user lead elsewhere, there are many tops, and a heavier one may be unseen: more of these are needed, and
 * only these count. Else all starts do: with units that the user does not know, that scale may see a few modes only. */
size_t wv_explore_needed(const wvgd_fit *f);
size_t wv_explore_found(const wvgd_fit *f, size_t m);

/* How many modes of weight have not been found so often. */
size_t wv_explore_unsure(const wvgd_fit *f);

/* Have there been too few starts at the scale of prior or user for a density with many tops? */
bool wv_explore_doubtful(const wvgd_fit *f);

/* Gaussians that a path leaves behind. */
size_t wv_explore_stations(const wvgd_fit *f);

void wv_explore_begin(wvgd_fit *f);
/* Whether the search waits for a bend; and goes on, with or without one. */
bool wv_explore_waits(const wvgd_fit *f);
void wv_explore_go_on(wvgd_fit *f);

/* Do ascents go on to their tops, whatever is foretold? The first ones do that are made with the final draws where
 * modes may hide behind others. */
bool wv_explore_climbs(const wvgd_fit *f);

/* Whether more starts are worth their price now that a mixture foretells the density at them; and these starts. */
bool wv_explore_again_wanted(wvgd_fit *f);
void wv_explore_again(wvgd_fit *f);
/* Whether its batch needs gradients: where the Gaussians of ends, or images of modes, are only compared it does not. */
bool wv_explore_wants_gradient(const wvgd_fit *f);
wvgd_status wv_explore_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_explore_tell(wvgd_fit *f, wvgd_error *error);

/* Whether enough has been seen: wv_modes_order then puts the modes that matter first. */
bool wv_explore_done(const wvgd_fit *f);

/* Joint solver: particles, components and the metric begin at the modes found so far. */
void wv_explore_place(wvgd_fit *f);
#endif
