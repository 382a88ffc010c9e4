/* edited_state.h - fits that have been put into states which they would hardly come to, by way of their saved states.
 */
#ifndef EDITED_STATE_H
#define EDITED_STATE_H
#include "wvgd.h"

/* The checksum at the end of a saved state of so many bytes becomes right. */
void edited_state_seal(unsigned char *state, size_t size);

/* Saves the fit, puts `to` wherever the state has the n doubles `from` in a row, and restores it. Returns how many
 * times; 0 also where the state is refused. */
size_t edited_state_replace(wvgd_fit *fit, size_t n, const double *from, const double *to);

/* The same for the m doubles that stand `offset` doubles behind the first of n that are `mark`. */
size_t edited_state_put(wvgd_fit *fit, size_t n, const double *mark, size_t offset, size_t m, const double *to);

/* In how many places of the saved state n doubles in a row are these, each within `off`. */
size_t edited_state_count(const wvgd_fit *fit, size_t n, const double *value, double off);

/* The number of the stage that the fit is in: two stages may have one name. */
uint64_t edited_state_stage(const wvgd_fit *fit);

/* Restores the state of a fit into another with other options, which must be for as many particles and dimensions. */
wvgd_status edited_state_move(wvgd_fit *to, const wvgd_fit *from, wvgd_error *error);
#endif
