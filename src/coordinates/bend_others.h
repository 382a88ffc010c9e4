/* bend_others.h - fits what a bend says of the others, the coordinates that are no arguments: their rows, layers and
 * basis, and the directions of the arguments (docs/internals/bend.md). */
#ifndef WV_BEND_OTHERS_H
#define WV_BEND_OTHERS_H
#include "coordinates/bend_seen.h"

/* The pool is seen through the map of the others afterwards; its weights are those of s. */
void wv_bend_others_fit(const wv_bend_pool *p, const wv_bend_seen *s, wv_bend *b, bool anew, wv_arena *arena);

/* Arguments without which the others are fitted as well are none any more, the first ones first; rows are cleared. */
void wv_bend_others_drop(const wv_bend_pool *p, wv_bend_seen *s, wv_bend *b, wv_arena *arena);
#endif
