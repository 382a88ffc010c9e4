/* signals.c - the one global variable of the program: whether somebody wants it to stop. */
#include "signals.h"
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void note(int number)
{
    (void)number;
    if (interrupted)
        _exit(EXIT_INTERRUPTED);
    interrupted = 1;
}

void catch_signals(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before;
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) /* nohup means it */
        sigaction(SIGHUP, &action, NULL);
}

bool was_interrupted(void)
{
    return interrupted != 0;
}
