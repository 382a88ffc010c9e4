/* scratch.h - memory that stages use in turn, that of the fit and that of one worker. */
#ifndef WV_SCRATCH_H
#define WV_SCRATCH_H
#include "staged/modes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WV_BLOCK = 256, /* points whose densities under all proposals are held at once */
    WV_FREE = 4096  /* draws that are not evaluated, in one batch; at most WV_CHUNK */
};

/* Which scratch arrays hold what they are meant to hold from one batch to the next. It is never saved: a new or
 * restored fit knows nothing (WV_KNOWN_NOTHING), and whoever overwrites an array forgets it here. */
typedef struct {
    size_t squares;      /* closing.c: stored draws whose squares are in mix_q; wv_draws_measure, which
                          * writes there, forgets them */
    size_t lattice_dims; /* halfspaces.c: dimensions of the points in lattice */
    double mass_points;  /* cells.c: points that the masses in mix_mass come from; 0: unknown */
    size_t surveyed;     /* cell_component.c: the mode whose Gaussian cannot be improved by steps, or WV_MODES */
} wv_known;
#define WV_KNOWN_NOTHING ((wv_known){.surveyed = WV_MODES})

typedef struct {
    double *memory;              /* the block behind what follows, */
    uint32_t *index;             /* and behind its indices */
    size_t *start;               /* [N + 1] first point of each cell in `order` */
    double *tail_mu, *tail_root; /* the wide Student-t of the closing proposal */
    double *scale;               /* weights.c: [3N + 3][D + 1] inverse scales of diagonal proposals and the
                                  * constants in their log densities, */
    double *alpha;               /* [3N + 3] shares of all, */
    double *piece_u;             /* [WV_PIECES][N] and sums over the points of a piece */
    double *rounded;             /* nearest.c: particles as whole numbers */
    double *group;               /* shared_proposals.c: [2N][D + cell_family->size] proposals of groups of particles, */
    uint32_t *member;            /* [N] and particles in the order of groups */
    double *sd_view, *spread_view; /* results in the shape that users see */
    uint32_t *order;               /* [n_max or close_max] points sorted by cell, or by weight */
    double *close_spare;           /* [close_max] */
    double *pooled;                /* [n] weights that stand for the posterior */
    double *soft_grad;             /* soft cells: [n][D] gradient of the log mixture */
    double *cell_spare;            /* [N] */
    double *step_kl;               /* [N] */
    double *try_z, *sum_z;         /* [3][N][D], [N][D] candidate particles */
    double *starts;                /* kmeans.c: [starts][N][D] others */

    double *mix_q, *mix_log, *mix_u; /* [K + 1][pool], [pool], [pool]: densities of components and mixture,
                                      * weights that stand for it */
    double *mix_grad;                /* [blocks][D][WV_COLUMNS] gradients of log p~ less those of the log mixture */
    double *mix_y; /* [K][blocks][D][WV_COLUMNS] points in the coordinates of each component, if there is room */
    double *mix_inverse, *mix_det, *mix_made; /* [K + 1][D][D], [K + 1], [K + 1][2]: inverse roots, log determinants
                                               * of roots; closing.c: draws as Gaussians and Student-t's */
    double *mix_mu, *mix_root;                /* the next mixture */
    double *control;                          /* closing.c: control variates */
    double *facet, *free_inverse;             /* halfspaces.c: walls of the cells; the mixture's inverse roots; */
    double *lattice;                          /* points for cells that few directions tell, in columns */
    double *mix_mass;                         /* [N] masses of the mixture in the cells */
    double *stein;                            /* moments.c */
} wv_shared;

typedef struct {
    double *memory;   /* the block behind what follows */
    double *block;    /* [WV_BLOCK][N + D + 2] densities or costs of a block (joint: [WV_BLOCK][3N + D + 3]) */
    double *narrow;   /* nearest.c: particles and points in single precision */
    double *gathered; /* weights.c: [2][WV_BLOCK][D] points of a block */
    double *gx, *gg;  /* [n][D] points and gradients of one cell */
    double *glp, *glu, *glv, *gu, *ga, *gr; /* [n] log p, log u, log v, normalised u, normalised tempered
                                             * weights, residuals of one cell */
    double *y, *gy, *uy;                    /* [n][D] whitened points, gradients, weighted points */
    double *square[11];                     /* [D][D] (D <= WV_DENSE), else unused */
    double *vector[10];                     /* [D] */
    double *T, *F, *Fc, *Fm;                /* residual regression: [WV_BLOCK][p], [p][p], [p], [p] */
    double *syev;
    double *undo;        /* [D + root size] a component before its step */
    double *large;       /* low-rank components without D x D matrices */
    uint32_t *free_cell; /* [WV_FREE] */
    double *free_cost;   /* [2][WV_FREE] */
    double *free_y;      /* halfspaces.c: [WV_BLOCK][K][D] points in the coordinates of the mixture's components, */
    double *free_log;    /* [K] log densities of one of them, */
    double *wall;        /* [N][D + 1] and the walls of one cell; kmeans.c: sums over cells */
    double *psi;         /* [n_max or close_max] */
    double *moving;      /* [n] posterior weights of the points, for moves */
    double *columns;     /* draws.c: a block of points */
    double *mix_e;       /* [3 made_room] */
    double *cell_mean, *cell_root; /* cell_component.c: moments of the posterior in a cell, */
    double *correction;            /* and the quadratic that corrects the mixture there */
    bool correction_cross;
} wv_desk;

/* False without memory. */
bool wv_shared_new(wvgd_fit *f);
bool wv_desk_new(wvgd_fit *f);
void wv_shared_free(wv_shared *s);
void wv_desk_free(wv_desk *d);
#endif
