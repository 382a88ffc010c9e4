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

typedef int one_path(const char *);
typedef int two_paths(const char *, const char *);
typedef int one_number(int);
typedef int opening(const char *, int, ...);
typedef int making(const char *, mode_t);

static void *find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

#define STEP(type, name, call)                                                                                         \
    do {                                                                                                               \
        type *next;                                                                                                    \
        void *found = find(name);                                                                                      \
        memcpy(&next, &found, sizeof next);                                                                            \
        step();                                                                                                        \
        return next call;                                                                                              \
    } while (0)

int rename(const char *from, const char *to)
{
    STEP(two_paths, "rename", (from, to));
}

int unlink(const char *path)
{
    STEP(one_path, "unlink", (path));
}

int rmdir(const char *path)
{
    STEP(one_path, "rmdir", (path));
}

int mkdir(const char *path, mode_t mode)
{
    STEP(making, "mkdir", (path, mode));
}

int fsync(int fd)
{
    STEP(one_number, "fsync", (fd));
}

int syncfs(int fd)
{
    STEP(one_number, "syncfs", (fd));
}

static int open_next(const char *name, const char *path, int flags, mode_t mode)
{
    opening *next;
    void *found = find(name);
    memcpy(&next, &found, sizeof next);
    if (flags & (O_WRONLY | O_RDWR))
        step();
    return next(path, flags, mode);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & O_CREAT ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_next("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_next("open64", path, flags, mode);
}
