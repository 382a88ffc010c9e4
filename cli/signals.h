/* signals.h - SIGINT, SIGTERM and SIGHUP as a request to stop. */
#ifndef WV_SIGNALS_H
#define WV_SIGNALS_H
#include <stdbool.h>

enum { EXIT_INTERRUPTED = 130 };

/* From now on the first signal is noted, the second ends the process at once. */
void catch_signals(void);
bool was_interrupted(void);
#endif
