/* watch.c - mpirun tells that a process was killed by a code of its own, and a rank that was killed cannot tell
 * anybody. So each rank is two processes: one that works, and its parent, which waits, names rank and signal, and ends
 * with code 70. A pipe between them carries the rank and what it has printed to stderr. */
#define _GNU_SOURCE
#include "watch.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

static int told = -1; /* the end of the pipe that the work writes to */

typedef struct {
    int rank;       /* -1: not known yet */
    bool done;      /* the work has ended MPI */
    char last[600]; /* line on stderr */
} heard;

/* Keeps the last line that is complete. */
static void hear(heard *h, char *line, size_t *length, const char *text, size_t n)
{
    enum { MOST = sizeof h->last - 1 };
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0') {
            h->done = true;
        } else if (text[i] == '\n') {
            line[*length] = '\0';
            if (*length)
                memcpy(h->last, line, *length + 1);
            *length = 0;
        } else if (*length < MOST)
            line[(*length)++] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
}

/* Listens until the work has ended: processes that a model has left behind may still hold the pipe. Returns how. */
static int listen(pid_t child, int pipe, heard *h)
{
    enum { PATIENCE = 100 }; /* milliseconds */
    char text[512], line[sizeof h->last];
    struct pollfd what = {pipe, POLLIN, 0};
    size_t length = 0;
    int status = 0;
    bool ended = false;
    for (ssize_t n = 1;;) {
        int ready = n > 0 ? poll(&what, 1, ended ? 0 : PATIENCE) : 0;
        if (ready > 0 && h->rank < 0)
            n = read(pipe, &h->rank, sizeof h->rank);
        else if (ready > 0 && (n = read(pipe, text, sizeof text)) > 0)
            hear(h, line, &length, text, (size_t)n);
        else if (ended)
            return status;
        if (!ended)
            ended = waitpid(child, &status, n > 0 ? WNOHANG : 0) == child;
    }
}

/* mpirun ends the others by signals once one has failed: that need not be said. */
static bool is_order(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP;
}

static int explain(const heard *h, int status)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (!number && (h->rank <= 0 || !WEXITSTATUS(status)))
        return WEXITSTATUS(status);
    if (number && !is_order(number))
        fprintf(stderr, "wvgd: rank %d was killed by signal %d (%s)\n", h->rank, number, strsignal(number));
    else if (!number && h->last[0])
        fprintf(stderr, "%s\n", h->last);
    else if (!number)
        fprintf(stderr, "wvgd: rank %d ended with code %d\n", h->rank, WEXITSTATUS(status));
    return EX_SOFTWARE;
}

/* Waits until what stands on stderr has been read, but not for ever: a launcher may end before it reads the rest. */
static void let_read(void)
{
    enum { LOOKS = 200 };
    static const struct timespec moment = {0, 10000000};
    struct stat about;
    int left = 0;
    bool pipe = !fstat(STDERR_FILENO, &about) && S_ISFIFO(about.st_mode);
    for (int k = 0; pipe && k < LOOKS && !ioctl(STDERR_FILENO, FIONREAD, &left) && left > 0; k++)
        nanosleep(&moment, NULL);
}

/* Launchers that speak PMI, such as MPICH's, end a job with the code of what they kill, unless they are asked to end
 * it. */
static void ask_for_end(int code)
{
    const char *number = getenv("PMI_FD");
    char text[64];
    int n = snprintf(text, sizeof text, "cmd=abort exitcode=%d\n", code);
    if (!number)
        return;
    let_read();
    ssize_t written = write(atoi(number), text, (size_t)n);
    (void)written;
}

static void stay(pid_t child, int pipe)
{
    heard h = {.rank = -1};
    signal(SIGTERM, SIG_IGN); /* the work has got it, too */
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    int code = explain(&h, listen(child, pipe, &h));
    if (code && !h.done)
        ask_for_end(code);
    syscall(SYS_exit_group, code);
}

void watch_begin(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) /* nobody watches */
        return;
    pid_t parent = getpid(), child = fork();
    if (child > 0) {
        close(ends[1]);
        stay(child, ends[0]);
    }
    close(ends[0]);
    if (child < 0) {
        close(ends[1]);
        return;
    }
    told = ends[1];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        raise(SIGKILL);
}

void watch_rank(int rank)
{
    ssize_t written = told < 0 ? 0 : write(told, &rank, sizeof rank);
    (void)written;
    if (rank == 0)
        return;
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    if (told >= 0)
        dup2(told, STDERR_FILENO);
    signal(SIGTERM, SIG_IGN); /* rank 0 may need an answer to end well */
    signal(SIGINT, SIG_IGN);
}

void watch_done(void)
{
    ssize_t written = told < 0 ? 0 : write(told, "", 1);
    (void)written;
}
