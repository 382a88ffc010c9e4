/* commands.h - the commands of the program, one cmd_NAME.c each, and what they share. */
#ifndef WV_COMMANDS_H
#define WV_COMMANDS_H
#include "arguments.h"
#include <jansson.h>
#include <stdio.h>

extern const command fit_command, summary_command, sample_command, quantize_command, models_command, options_command,
    stan_command, stan_compile_command;
extern const command report_command;
extern const command svgd_command, reproduce_command;

/* The text of `wvgd summary` for the object of a run.json, with `most` parameters and particles at
 * most. dir: for hints, or NULL. */
void print_summary(FILE *stream, const json_t *run, size_t most, const char *dir);

#endif
