/* kill_at.c - for LD_PRELOAD: kills the process at its n-th call that changes a file or a directory, before the call is
 * made. KILL_AT=n; KILL_AT=0 only counts, and at the end writes the number to the file KILL_COUNT. Calls of other
 * programs that it starts do not count: the variable KILL_PROGRAM is the name of the one that does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long count;

static int is_counted(void)
{
    const char *program = getenv("KILL_PROGRAM");
    return program && !strcmp(program, program_invocation_short_name);
}

/* One more such call. */
static void step(void)
{
    const char *at = getenv("KILL_AT");
    int before = errno;
    if (is_counted() && ++count == (at ? atol(at) : 0))
        kill(getpid(), SIGKILL);
    errno = before;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("KILL_COUNT");
    FILE *s = path && is_counted() ? fopen(path, "w") : NULL;
    if (!s)
        return;
    fprintf(s, "%ld\n", count);
    fclose(s);
}

/* Counts the call, then finds the function that ours stands before. */
static void *after_step(const char *name)
{
    step();
    return dlsym(RTLD_NEXT, name);
}

static int with_path(const char *name, const char *path)
{
    int (*next)(const char *);
    void *found = after_step(name);
    memcpy(&next, &found, sizeof next);
    return next(path);
}

static int with_number(const char *name, int fd)
{
    int (*next)(int);
    void *found = after_step(name);
    memcpy(&next, &found, sizeof next);
    return next(fd);
}

int rename(const char *old, const char *new)
{
    int (*next)(const char *, const char *);
    void *found = after_step("rename");
    memcpy(&next, &found, sizeof next);
    return next(old, new);
}

int mkdir(const char *path, mode_t mode)
{
    int (*next)(const char *, mode_t);
    void *found = after_step("mkdir");
    memcpy(&next, &found, sizeof next);
    return next(path, mode);
}

int unlink(const char *name)
{
    return with_path("unlink", name);
}

int rmdir(const char *path)
{
    return with_path("rmdir", path);
}

int fsync(int fd)
{
    return with_number("fsync", fd);
}

int syncfs(int fd)
{
    return with_number("syncfs", fd);
}

/* open and open64: for writing it counts. */
static int open_with(const char *name, const char *file, int oflag, va_list args)
{
    int (*next)(const char *, int, ...);
    mode_t mode = oflag & O_CREAT ? va_arg(args, mode_t) : 0;
    void *found = oflag & (O_WRONLY | O_RDWR) ? after_step(name) : dlsym(RTLD_NEXT, name);
    memcpy(&next, &found, sizeof next);
    return next(file, oflag, mode);
}

int open(const char *file, int oflag, ...)
{
    va_list args;
    va_start(args, oflag);
    int fd = open_with("open", file, oflag, args);
    va_end(args);
    return fd;
}

int open64(const char *file, int oflag, ...)
{
    va_list args;
    va_start(args, oflag);
    int fd = open_with("open64", file, oflag, args);
    va_end(args);
    return fd;
}
