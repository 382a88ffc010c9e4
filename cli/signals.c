/* signals.c - whether somebody wants the program to stop. A model may be in a loop that never ends, so the handler
 * itself says what a second signal does. */
#include "signals.h"
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
static wvgd_fit *_Atomic stopped; /* by the first signal, or NULL */
static bool silent;               /* mpirun sends signals, too, and says why itself */
static bool terminal;             /* stderr is one, and may show a progress bar */

static void say(const char *text, size_t size)
{
    ssize_t written = write(STDERR_FILENO, text, size);
    (void)written; /* nobody is left to be told */
}

static void note(int number)
{
    static const char clear[] = "\r\033[K",
                      text[] = "wvgd: interrupted: stops when the model has answered; a second signal ends at once\n";
    (void)number;
    if (interrupted)
        _exit(EXIT_INTERRUPTED);
    interrupted = 1;
    wvgd_stop_now(stopped);
    int kept = errno;
    if (silent)
        return;
    if (terminal)
        say(clear, sizeof clear - 1);
    say(text, sizeof text - 1);
    errno = kept;
}

void catch_signals(bool quietly)
{
    silent = quietly;
    terminal = isatty(STDERR_FILENO);
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before;
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) /* nohup means it */
        sigaction(SIGHUP, &action, NULL);
}

void stop_on_signal(wvgd_fit *fit)
{
    stopped = fit;
    if (interrupted)
        wvgd_stop_now(fit);
}

bool was_interrupted(void)
{
    return interrupted != 0;
}
