/* options.h - the option table, for the library's own use. */
#ifndef WV_OPTIONS_H
#define WV_OPTIONS_H
#include "wvgd.h"

/* Every field within its range? */
wvgd_status wv_options_check(const wvgd_options *options, wvgd_error *error);
#endif
