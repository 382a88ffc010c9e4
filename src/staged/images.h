/* images.h - images of a mode where coordinates may be exchanged: labels of groups, lines of a spectrum. */
#ifndef WV_IMAGES_H
#define WV_IMAGES_H
#include "archive.h"
#include "wvgd.h"

enum {
    WV_IMAGES_MOST = 24, /* images of a mode that are looked at */
    WV_IMAGE_STARTS = 8  /* images that are no modes themselves, from where ascents start */
};

/* What is known of likeness: nothing, the gradient at the origin, all. */
typedef enum { WV_LIKE_UNKNOWN, WV_LIKE_ORIGIN, WV_LIKE_KNOWN } wv_likeness;

typedef struct {
    size_t D;
    bool used;
    wv_likeness known;
    size_t mode;    /* whose images are being looked at */
    size_t starts;  /* images left as starts, */
    size_t taken;   /* of which ascents have begun */
    double *origin; /* [D] gradient at the origin */
    double *like;   /* [D] the first coordinate that this one is like; -1: only its sign may change */
    double *start;  /* [WV_IMAGE_STARTS][D] */
    double *memory;
} wv_images;

bool wv_images_new(wv_images *s, size_t D, bool used);
void wv_images_free(wv_images *s);
bool wv_images_archive(wv_images *s, wv_archive *a, bool running);
void wv_images_forget(wv_images *s); /* all but images that are modes */

/* Is there anything to ask the model for? */
bool wv_images_begin(wvgd_fit *f);
/* Whether the slopes of like coordinates are to be compared. */
bool wv_images_wants_gradient(const wvgd_fit *f);
void wv_images_ask(wvgd_fit *f);

/* Takes the answers: images with the density of their mode are modes. */
void wv_images_tell(wvgd_fit *f);

/* x becomes an image that is not a mode itself; false: there is none left. */
bool wv_images_start(wvgd_fit *f, double *x);
#endif
