/* tools.c - fits a logistic regression to a table, prints the summary, and leaves a run directory, by libwvgd-tools.
 *
 *     cc -o tools tools.c $(pkg-config --cflags --libs wvgd-tools)
 *     ./tools data/cancer.csv cancer-run
 *
 * Without a directory nothing is written. The run is like one of `wvgd fit logistic --data data/cancer.csv
 * --standardize --out cancer-run`: `wvgd report cancer-run` makes a page of it. */
#include <wvgd_tools.h>

#include <stdio.h>
#include <string.h>

static int show_progress(void *self, const wvgd_progress *p)
{
    const char **last = self;
    if (strcmp(*last, p->stage) != 0)
        fprintf(stderr, "%s after %zu evaluations\n", *last = p->stage, p->evaluations);
    return 0; /* anything else stops the run */
}

static void show_note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "%s\n", text);
}

int main(int argc, char **argv)
{
    const char *data = argc > 1 ? argv[1] : "data/cancer.csv", *stage = "", *text;
    wvgd_error error = {WVGD_OK, ""};
    wvgd_request *request = wvgd_request_new();
    wvgd_session *session = NULL;
    wvgd_status status = wvgd_request_set(request, "model", "logistic", &error);
    if (status == WVGD_OK)
        status = wvgd_request_set(request, "data", data, &error);
    if (status == WVGD_OK)
        status = wvgd_request_set(request, "standardize", "", &error);
    wvgd_request_notes(request, show_note, NULL);
    if (status == WVGD_OK && !(session = wvgd_open(request, &error)))
        status = error.code;
    if (status == WVGD_OK)
        status = wvgd_session_run(session, show_progress, &stage, &error);
    if (status == WVGD_OK)
        status = wvgd_session_summary(session, WVGD_SUMMARY_TEXT, 10, &text, &error);
    if (status == WVGD_OK)
        fputs(text, stdout);
    if (status == WVGD_OK && argc > 2)
        status = wvgd_session_write(session, argv[2], false, &error);
    if (status != WVGD_OK)
        fprintf(stderr, "tools: %s\n", error.text);
    wvgd_session_close(session);
    wvgd_request_free(request);
    return wvgd_exit_code(status);
}
