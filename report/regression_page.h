/* regression_page.h - the part of the page that regressions share: rows, replicated responses, effects. */
#ifndef WV_REGRESSION_PAGE_H
#define WV_REGRESSION_PAGE_H
#include "report.h"

/* The object of the page, or page_without. */
json_t *describe_regression_page(const run_view *v);

/* {"missing": why} */
json_t *page_without(const char *why);
#endif
