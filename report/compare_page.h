/* compare_page.h - several runs on one page. */
#ifndef WV_COMPARE_PAGE_H
#define WV_COMPARE_PAGE_H
#include "failure.h"
#include "wvgd_tools.h"
#include <jansson.h>

/* What the page shows of runs in directories. NULL with *f filled: one of them cannot be read any more. */
json_t *describe_comparison(const wvgd_comparison *c, failure *f);
#endif
