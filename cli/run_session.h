/* run_session.h - what commands that run a fit have in common. */
#ifndef WV_RUN_SESSION_H
#define WV_RUN_SESSION_H
#include "failure.h"
#include "wvgd_tools.h"

/* Opens a session from a run directory, or from the request alone (from is NULL then). */
typedef wvgd_session *session_opener(const char *from, const wvgd_request *request, wvgd_error *error);

/* Opens a session, runs it with progress, prints its summary, and closes it. */
int run_session(session_opener *open, const char *from, wvgd_request *q, failure *f);

/* An error of the library as one of the program. */
int fail_as(failure *f, const wvgd_error *error);

/* For wvgd_request_notes. self: a progress display, or NULL. */
void print_note(void *self, const char *text);
#endif
