/* page.h - the HTML page: a frame that was bundled when wvgd was built and is part of the program,
 * and the data of a run put into it. */
#ifndef WV_PAGE_H
#define WV_PAGE_H
#include "failure.h"
#include <jansson.h>
#include <stdbool.h>

/* Was the frame there when wvgd was built? */
bool has_page(void);

/* Writes the page whole or not at all. EX_UNAVAILABLE without the frame, with what to do about it. */
int write_page(const char *path, const json_t *data, failure *f);
#endif
