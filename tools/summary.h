/* summary.h - what a run has found, from the object of its run.json. */
#ifndef WV_SUMMARY_H
#define WV_SUMMARY_H
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* For people, with `most` parameters and modes at most, and so many particles. dir: for hints, or NULL. */
void put_summary(FILE *stream, const json_t *run, size_t most, size_t particles, const char *dir);

/* The same numbers, with all their digits, as JSON; not 0: no memory. */
int put_summary_json(FILE *stream, const json_t *run);

/* Its verdict. */
bool is_reliable(const json_t *run);
#endif
