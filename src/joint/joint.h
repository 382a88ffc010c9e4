/* joint.h - the paper's solver: particles and components move together. */
#ifndef WV_JOINT_H
#define WV_JOINT_H
#include "archive.h"
#include "wvgd.h"

/* How far the iterations have come, and what lasts from one to the next. */
typedef struct {
    /* ---- saved as it is ---- */
    double rho;           /* step of the components, as a share of the full natural step */
    size_t phase_start;   /* first trace row that still describes this phase (later moves and returns restart it) */
    size_t averaged;      /* iterations in the settling or averaging phase */
    size_t marked;        /* trace row at which the particles were last marked, */
    double walked;        /* and the sum of their squared steps since */
    size_t moves;         /* particles moved to better cells */
    size_t requantised;   /* times better particles were found on pooled points */
    double best, best_se; /* PELBO of the best state so far */
    double distortion1, distortion2; /* means of the distortion and its square since the cells have been at rest */
    size_t trials;                   /* of closing draws before the present one */

    /* ---- saved with its arrays ---- */
    double *z_mark; /* [N][D] particles some iterations ago */
    double *adam;   /* reparam: [N][2][D + root size] */

    /* ---- from one ask to its tell: where the means and roots of proposals are ---- */
    double *group;               /* [2N][D + cell_family->size] those of groups of particles */
    double *tail_mu, *tail_root; /* [D], [metric_family->size] the wide Student-t of the closing proposal */

    size_t N, D, adam_size;
    double *memory;
} wv_joint;

/* Doubles of the arrays above. */
typedef struct {
    size_t adam, group, tail_root;
} wv_joint_sizes;

bool wv_joint_new(wv_joint *j, size_t N, size_t D, wv_joint_sizes size);
void wv_joint_free(wv_joint *j);
bool wv_joint_archive(wv_joint *j, wv_archive *a, size_t rows);

/* Enters the first stage. */
void wv_joint_begin(wvgd_fit *f);

/* A batch of the present stage; its answers are taken, and the next stage begins when this one is complete. */
wvgd_status wv_joint_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_joint_tell(wvgd_fit *f, wvgd_error *error);

/* Ends the iterations for the given reason: from here on only closing draws. */
void wv_joint_hurry(wvgd_fit *f, wvgd_stop stop, bool given_up);

/* Component j has run away from its cell so often that it is no longer fitted. */
bool wv_joint_gave_up(const wvgd_fit *f, size_t j);
#endif
