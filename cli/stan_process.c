/* stan_process.c - posix_spawn, a pipe for the output, and signals: each program runs in a process group of its own,
 * which is stopped as a whole when SIGINT, SIGTERM or SIGHUP reach us. */
#define _GNU_SOURCE /* posix_spawn_file_actions_addchdir_np */
#include "stan_process.h"
#include "signals.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { KEPT = 1 << 20 }; /* bytes of output kept at least */

/* ---- signals ----------------------------------------------------------------------------------------------------- */
static volatile sig_atomic_t stop_asked;

static void note(int number)
{
    (void)number;
    stop_asked = 1;
}

static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOPPING = sizeof stopping / sizeof *stopping };

/* Signals that were ignored stay so. */
static void catch_stops(struct sigaction before[STOPPING])
{
    struct sigaction action = {.sa_handler = note};
    sigemptyset(&action.sa_mask);
    stop_asked = 0;
    for (size_t i = 0; i < STOPPING; i++)
        if (!sigaction(stopping[i], NULL, &before[i]) && before[i].sa_handler != SIG_IGN)
            sigaction(stopping[i], &action, NULL);
}

static void leave_stops(const struct sigaction before[STOPPING])
{
    for (size_t i = 0; i < STOPPING; i++)
        sigaction(stopping[i], &before[i], NULL);
}

/* ---- environment ------------------------------------------------------------------------------------------------- */
static bool is_variable(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(entry, name, n) && entry[n] == '=';
}

/* Ours, but for what a make above us has left, messages in plain English, and temporary files in dir. */
static char **make_environment(const char *temporary)
{
    static const char *const dropped[] = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "LC_ALL", "LANGUAGE", "TMPDIR"};
    size_t n = 0, at = 0;
    while (environ[n])
        n++;
    char **list = calloc(n + 3, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        bool drop = false;
        for (size_t k = 0; k < sizeof dropped / sizeof *dropped; k++)
            drop = drop || (is_variable(environ[i], dropped[k]) && (temporary || strcmp(dropped[k], "TMPDIR")));
        if (!drop)
            list[at++] = environ[i];
    }
    static char plain[] = "LC_ALL=C.UTF-8";
    list[at++] = plain;
    if (temporary)
        list[at++] = (char *)(uintptr_t)temporary;
    return list;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
char *find_program(const char *name)
{
    const char *path = getenv("PATH");
    struct stat about;
    while (path && *path) {
        size_t length = strcspn(path, ":");
        char *file = malloc(length + strlen(name) + 3);
        if (!file)
            return NULL;
        sprintf(file, "%.*s/%s", length ? (int)length : 1, length ? path : ".", name);
        if (!access(file, X_OK) && !stat(file, &about) && S_ISREG(about.st_mode))
            return file;
        free(file);
        path += length + (path[length] == ':');
    }
    return NULL;
}

/* Starts the program with both its outputs in a pipe; *out is the end to read from. 0 or an errno. */
static int start(const char *const *argv, const char *dir, char *const *environment, pid_t *child, int *out)
{
    int ends[2], error;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    if (pipe(ends))
        return errno;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    sigemptyset(&all);
    for (size_t i = 0; i < STOPPING; i++)
        sigaddset(&all, stopping[i]);
    sigaddset(&all, SIGXFSZ);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    if (!error && dir)
        error = posix_spawn_file_actions_addchdir_np(&actions, dir);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigdefault(&attributes, &all);
    if (!error)
        error = posix_spawn(child, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (error)
        close(ends[0]);
    *out = ends[0];
    return error;
}

/* Adds what can be read now. false at the end of the output, or without memory. */
static bool take_output(int fd, process_end *end)
{
    char buffer[8192];
    ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got == 0)
        return false;
    if (end->size >= 2 * KEPT) {
        memmove(end->output, end->output + end->size - KEPT, KEPT);
        end->size = KEPT;
    }
    char *larger = realloc(end->output, end->size + (size_t)got + 1);
    if (!larger)
        return false;
    for (ssize_t i = 0; i < got; i++)
        larger[end->size + (size_t)i] = buffer[i] ? buffer[i] : '?';
    end->output = larger;
    end->size += (size_t)got;
    larger[end->size] = '\0';
    return true;
}

/* Ends the group: politely, and after two seconds at once. */
static void stop_group(pid_t child)
{
    const struct timespec pause = {0, 50000000};
    int status;
    kill(-child, SIGTERM);
    for (int i = 0; i < 40; i++) {
        if (waitpid(child, &status, WNOHANG) == child) {
            kill(-child, SIGKILL); /* children that outlive it */
            return;
        }
        nanosleep(&pause, NULL);
    }
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
}

/* Reads and waits until the program has ended, or somebody wants us to stop. 0, or -1: to be stopped. */
static int watch(pid_t child, int out, process_end *end)
{
    bool open = true;
    int status = 0;
    while (!stop_asked) {
        struct pollfd pending = {out, POLLIN, 0};
        if (open && poll(&pending, 1, 200) > 0)
            open = take_output(out, end); /* closed by the program or not: what counts is its end */
        pid_t got = waitpid(child, &status, open ? WNOHANG : 0);
        if (got == child) {
            while (open && poll(&pending, 1, 0) > 0)
                open = take_output(out, end);
            end->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            return 0;
        }
    }
    return -1;
}

int run_process(const char *const *argv, const char *dir, process_end *end, failure *f)
{
    struct sigaction before[STOPPING];
    pid_t child = -1;
    int out = -1;
    char *temporary = dir ? malloc(strlen(dir) + sizeof "TMPDIR=") : NULL;
    *end = (process_end){.output = calloc(1, 1)};
    if (temporary)
        sprintf(temporary, "TMPDIR=%s", dir);
    char **environment = dir && !temporary ? NULL : make_environment(temporary);
    if (!environment || !end->output) {
        free(temporary);
        free(environment);
        free(end->output);
        end->output = NULL;
        return fail(f, EX_SOFTWARE, "no memory to run %s", argv[0]);
    }
    signal(SIGCHLD, SIG_DFL); /* ignored by whoever started us, it would lose the status */
    catch_stops(before);
    int error = start(argv, dir, environment, &child, &out), code = 0;
    if (error)
        code = fail(f, EX_UNAVAILABLE, "cannot run %s: %s", argv[0], strerror(error));
    else if (watch(child, out, end)) {
        stop_group(child);
        code = fail(f, EXIT_INTERRUPTED, "interrupted while %s was running; no files are left behind", argv[0]);
    }
    if (out >= 0 && !error)
        close(out);
    leave_stops(before);
    free(temporary);
    free(environment);
    if (code) {
        free(end->output);
        end->output = NULL;
    }
    return code;
}
