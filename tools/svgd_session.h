/* svgd_session.h - the part of a session that runs SVGD. */
#ifndef WV_SVGD_SESSION_H
#define WV_SVGD_SESSION_H
#include "failure.h"
#include "option_line.h"
#include "wvgd_tools.h"

typedef struct svgd_part svgd_part;

/* Row i of the options of wvgd svgd. */
bool svgd_option(size_t i, option_line *line);

/* Opens what a request for SVGD asks for; runs it to its end; writes its files to the directory of the session. */
int begin_svgd(wvgd_session *s, const wvgd_request *request, failure *f);
int run_svgd(wvgd_session *s, failure *f);
int write_svgd_files(const wvgd_session *s, failure *f);
void free_svgd(svgd_part *r); /* accepts NULL */
#endif
