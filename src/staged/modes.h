/* modes.h - the modes that ascents have found. */
#ifndef WV_MODES_H
#define WV_MODES_H
#include "archive.h"
#include "gaussian.h"
#include "wvgd.h"

enum { WV_MODES = 40 }; /* modes kept */

typedef struct {
    double elbo, sd;   /* of its Gaussian: log mass, and sd of log p~ - log q */
    size_t hits, wide; /* ascents that ended in it; those of them that began at the scale of prior or user */
    size_t orbit;      /* images of each other have the same */
    int relevant;      /* flag: not too light to matter */
    int imaged;        /* flag: its images have been looked at */
    int slab;          /* flag: ascents pass through it to tops inside */
    int part;          /* flag: a map to bent coordinates makes it a part of the first */
} wv_mode;

typedef struct {
    size_t D, size; /* dimensions; doubles in a root */
    size_t room;    /* modes at most */
    size_t n, relevant, hit_once;
    size_t orbits;    /* numbers given to orbits */
    size_t distinct;  /* those that matter, but for images of each other */
    size_t wide_hits; /* of those that matter */
    wv_mode mode[WV_MODES];
    double scatter;   /* of starts around the modes, in units of the frame */
    double *x, *root; /* [n][D], [n][size] their Gaussians */
    double *frame;    /* [size] root of the metric of the next ascents */
    double *centre;   /* [D] of the starts around them */
    double *memory;
} wv_modes;

/* Without modes; with room 0 it never has any. False without memory. */
bool wv_modes_new(wv_modes *m, size_t D, bool dense, bool used);
void wv_modes_free(wv_modes *m);
void wv_modes_copy(wv_modes *to, const wv_modes *from); /* of the same room */
bool wv_modes_archive(wv_modes *m, wv_archive *a);

/* The modes that a fit has found so far. */
const wv_modes *wv_modes_of(const wvgd_fit *f);

/* Doubles that a mode's root takes, and how many modes are kept. */
size_t wv_modes_root_size(const wvgd_fit *f);
size_t wv_modes_most(const wvgd_fit *f);

/* The shape of their Gaussians, and that of mode m. */
const wv_family *wv_modes_family(const wvgd_fit *f);
wv_gaussian wv_modes_gaussian(const wvgd_fit *f, size_t m);

/* Log density at x that the modes predict together; the mode that says most of it, and the squared
 * Mahalanobis distance to it. */
double wv_modes_predict(wvgd_fit *f, const double *x, size_t *mode, double *distance);

/* Can a double tell the draws of g apart? */
bool wv_modes_resolved(wvgd_fit *f, const wv_gaussian *g);

/* Is the Gaussian of mode m so bad that other modes may hide in it? Of any of several modes? */
bool wv_modes_bad(const wvgd_fit *f, size_t m);
bool wv_modes_hide(const wvgd_fit *f);

/* Squared Mahalanobis distance within which the bulk of a mode lies. */
double wv_modes_bulk(const wvgd_fit *f);

/* The mode in whose bulk x lies with the density that is predicted, or -1. One that does not matter is none: it
 * may be a plateau on the way to another. */
int wv_modes_known(wvgd_fit *f, const double *x, double log_p);

/* The same for a start, which may lie anywhere: far out, where densities differ by hundreds of nats, one that is
 * what the modes say it is tells that nothing else is near. *above: by how much it exceeds what they say. */
int wv_modes_foretell(wvgd_fit *f, const double *x, double log_p, double *above);

/* The mode of the largest mass, and the log density at its top, by its Gaussian. */
size_t wv_modes_heaviest(const wvgd_fit *f);
double wv_modes_top(const wvgd_fit *f);
double wv_modes_top_of(const wvgd_fit *f, size_t m); /* of mode m */

/* Is a density so low that a mode there would have to be wider beyond reason, in every direction, than the heaviest
 * that is known? */
bool wv_modes_far_below(const wvgd_fit *f, double log_p);

/* Is the density at x lower by far than even the tails of the modes have it (an exponential of an exponential, say)?
 * An ascent over such a wall takes long and leads to what lies behind it. */
bool wv_modes_walled(wvgd_fit *f, const double *x, double log_p);

/* Whether one of such an ELBO, with what its Gaussian leaves out (to second order, within reason), is too light to
 * matter; and which modes are not, and how many of these have been hit once. */
bool wv_modes_too_light(const wvgd_fit *f, double elbo, double sd);
void wv_modes_judge(wvgd_fit *f);

/* Scales [D] of the frame along each coordinate with the others fixed. */
void wv_modes_scales(const wvgd_fit *f, double *scale);

/* Without modes the frame is round and has the user's scale. */
void wv_modes_begin(wvgd_fit *f);

/* An ascent has ended in mode m; wide: from a start at the scale of prior or user. */
void wv_modes_hit(wvgd_fit *f, size_t m, bool wide);

/* Frame and scatter of later starts: twice the sd of the modes in the frame, twice its unit at least. */
void wv_modes_rescale(wvgd_fit *f);

/* Mode m becomes, or one more is, the Gaussian g; if there is no room, instead of the lightest. */
void wv_modes_set(wvgd_fit *f, size_t m, const wv_gaussian *g, double elbo, double sd);
void wv_modes_add(wvgd_fit *f, const wv_gaussian *g, double elbo, double sd, bool wide);

/* The Gaussian g is an image of mode m; what hits one hits all. */
void wv_modes_add_image(wvgd_fit *f, size_t m, const wv_gaussian *g);
void wv_modes_set_imaged(wvgd_fit *f, size_t m);

/* Puts those that matter first, in the order in which they were found. */
void wv_modes_order(wvgd_fit *f);

/* Modes a and b are found by the same ascents. */
void wv_modes_join(wvgd_fit *f, size_t a, size_t b);

/* All modes that matter are one where a map explains them, and no longer. */
void wv_modes_unite(wvgd_fit *f);
void wv_modes_separate(wvgd_fit *f);

/* Mode m is a slab: an ascent that comes there goes on. */
void wv_modes_set_slab(wvgd_fit *f, size_t m);

/* KL(g || Gaussian of mode m), given the squared distance of their means; up to WV_DENSE dimensions. */
double wv_modes_divergence(wvgd_fit *f, const wv_gaussian *g, size_t m, double distance);

/* Which of the first `among` modes is most of the posterior where g is; up to WV_DENSE dimensions. A slab and a spike
 * have the same mean. */
size_t wv_modes_nearest_to(wvgd_fit *f, size_t among, const wv_gaussian *g);

/* Which of the first `among` modes is most of the posterior at x; 0 where there is none. */
size_t wv_modes_nearest(wvgd_fit *f, size_t among, const double *x);

/* The mode of each of n points, of those that matter: the one nearest to the component of the mixture (joint
 * solver: the mode) that is densest there. */
void wv_modes_assign(wvgd_fit *f, size_t n, const double *x, size_t *mode);
#endif
