/* fit_request.h - a command line as a request to libwvgd-tools. */
#ifndef WV_FIT_REQUEST_H
#define WV_FIT_REQUEST_H
#include "arguments.h"
#include "wvgd_tools.h"

/* A new run: the file of --config, then the command line, which wins. *q is to be freed in either case. */
int request_fit(const arguments *a, wvgd_request **q, failure *f);

/* A new run of SVGD. */
int request_svgd(const arguments *a, wvgd_request **q, failure *f);

/* What is to change when a run goes on. */
int request_changes(const arguments *a, wvgd_request **q, failure *f);

/* What is to change for other cells of a run. */
int request_cells(const arguments *a, wvgd_request **q, failure *f);

/* Which model may be loaded, and nothing else. */
int request_trust(const arguments *a, wvgd_request **q, failure *f);
#endif
