/* cell_component.h - the truncated component of a cell, fitted to the mixture and the stored draws: without the model.
 */
#ifndef WV_CELL_COMPONENT_H
#define WV_CELL_COMPONENT_H
#include "wvgd.h"
#include <stddef.h>

/* Component j, from the best of several beginnings, and the spread of its cell; its log densities at the stored draws
 * of the cell go to the closing draws. Cells may be fitted at the same time: it writes to nothing of another one. */
void wv_cell_component_fit(wvgd_fit *f, size_t j);

/* Back to component j as it was before its last steps, on stored draws. */
void wv_cell_component_recall(wvgd_fit *f, size_t j);

/* Component j becomes that of the mixture where its particle is. */
void wv_cell_component_plain(wvgd_fit *f, size_t j);
#endif
