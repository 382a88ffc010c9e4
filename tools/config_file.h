/* config_file.h - options of a fit from a JSON file: --config FILE. */
#ifndef WV_CONFIG_FILE_H
#define WV_CONFIG_FILE_H
#include "failure.h"
#include "wvgd_tools.h"

/* Sets every option that the file gives, and model. The file holds an object whose keys are long names, or is a
 * run.json, whose model and options count. 0, or an exit code with *f filled. */
int read_config(const char *path, wvgd_request *request, failure *f);
#endif
