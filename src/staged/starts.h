/* starts.h - where ascents start, and how many of them are worth while. */
#ifndef WV_STARTS_H
#define WV_STARTS_H
#include "staged/ascent.h"
#include "wvgd.h"

/* Few dimensions: ascents are short there. */
bool wv_starts_few_dims(const wvgd_fit *f);

/* Starts that were given, and those of the user's scale after them. */
size_t wv_starts_user(const wvgd_fit *f);

/* Those that are enough for as many modes as have been found. */
size_t wv_starts_enough(const wvgd_fit *f);

/* Do many starts lead to tops that do not matter? Then there are many tops, and a heavier one may not have been seen.
 */
bool wv_starts_rugged(const wvgd_fit *f);

/* The number of modes that have not been found, if modes attract starts about equally: W (n-1) / (n-W-2) - W, where n
 * starts at the scale of prior or user have found W; NAN: cannot be said. Whether that is too many beside W, and the
 * starts after which that keeps nobody waiting. */
double wv_starts_unseen(const wvgd_fit *f);
bool wv_starts_unseen_many(const wvgd_fit *f);
double wv_starts_patience(const wvgd_fit *f);

/* Do the modes lie so far away that starts of the user's scale are all at one point, as they see them? Their distance
 * from there, in their sds, else 0. Others may lie as far from there. */
double wv_starts_far_away(wvgd_fit *f);

/* Do starts lie as far from 0 as the only mode, which is many times the user's scale? */
bool wv_starts_travel(wvgd_fit *f);

/* The scale of a start by the user's, times `wide`. After tries without density it is as often wider as closer, by more
 * from start to start: the support may lie anywhere. */
double wv_starts_scale(const wvgd_fit *f, const wv_path *p, double wide);

/* x[D] <- the start of path p: a given one, one of the model's own or of the user's scale, or one around the known
 * modes; closer after starts without density. Notes whether it is wide. */
void wv_starts_draw(wvgd_fit *f, wv_path *p, double *x);
#endif
