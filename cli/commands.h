/* commands.h - the commands of the program, one cmd_NAME.c each. */
#ifndef WV_COMMANDS_H
#define WV_COMMANDS_H
#include "arguments.h"

extern const command fit_command, summary_command, sample_command, quantize_command, models_command, options_command,
    stan_command, stan_compile_command;
extern const command report_command, predict_command, compare_command;
extern const command svgd_command, reproduce_command;
#endif
