/* suggest.h - what a command or an option that does not exist was probably meant to be. */
#ifndef WV_SUGGEST_H
#define WV_SUGGEST_H
#include "arguments.h"

/* Fills *f with a sentence about the command, and returns EX_USAGE. */
int refuse_command(const char *name, failure *f);

/* The same for an option: `word` without "--"; `option` is the row that it abbreviates, or NULL. */
int refuse_option(const command *c, const char *word, const char *option, failure *f);

/* Does the word have a meaning of its own, although it abbreviates an option? */
bool is_likely_option(const char *word);
#endif
