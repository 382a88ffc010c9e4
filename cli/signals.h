/* signals.h - SIGINT, SIGTERM and SIGHUP as a request to stop. */
#ifndef WV_SIGNALS_H
#define WV_SIGNALS_H
#include "wvgd.h"
#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 };

/* From now on the first signal is noted and, unless quietly, says that a second one ends the process at once, which it
 * does. */
void catch_signals(bool quietly);
bool was_interrupted(void);

/* The first signal stops this fit, too, inside a step; NULL: none. */
void stop_on_signal(wvgd_fit *fit);
#endif
