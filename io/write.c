/* write.c - whole files, and the way numbers and names are spelled in CSV. */
#include "write.h"
#include "text.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static int disk_or_create(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG ? EX_IOERR : EX_CANTCREAT;
}

static void forget(whole_file *w)
{
    free(w->path);
    free(w->target);
    free(w->temporary);
    *w = (whole_file){0};
}

/* The path of the file itself if path is a link to one, so that the link stays. */
static char *resolve(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : strdup(path);
}

static bool is_plain(const char *path)
{
    struct stat s;
    return stat(path, &s) || S_ISREG(s.st_mode) || S_ISDIR(s.st_mode);
}

int begin_file(whole_file *w, const char *path, failure *f)
{
    bool plain = is_plain(path);
    size_t size = strlen(path) + PATH_MAX + 16;
    *w = (whole_file){NULL, strdup(path), resolve(path), plain ? malloc(size) : NULL};
    if (!w->path || !w->target || (plain && !w->temporary)) {
        forget(w);
        return fail(f, EX_SOFTWARE, "no memory to write %s", path);
    }
    if (plain)
        snprintf(w->temporary, size, "%s.partial", w->target);
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | (plain ? O_NOFOLLOW : 0);
    struct stat s;
    int fd = !stat(w->target, &s) && S_ISDIR(s.st_mode) ? (errno = EISDIR, -1) : open(plain ? w->temporary : w->target, flags, 0666);
    w->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!w->stream) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        forget(w);
        return fail(f, disk_or_create(error), "cannot create %s: %s", path, strerror(error));
    }
    return 0;
}

/* The new name is on the disk once its directory is. */
static void sync_directory(char *path)
{
    int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd); /* some file systems cannot; the file itself is safe all the same */
    close(fd);
}

int finish_file(whole_file *w, failure *f)
{
    errno = 0;
    bool well = !fflush(w->stream) && !ferror(w->stream);
    well = well && (!w->temporary || !fsync(fileno(w->stream)));
    int error = errno;
    if (fclose(w->stream) && well) {
        error = errno;
        well = false;
    }
    if (well && w->temporary && rename(w->temporary, w->target)) {
        error = errno;
        well = false;
    }
    int code = well ? 0 : fail(f, EX_IOERR, "cannot write %s: %s", w->path, strerror(error ? error : EIO));
    if (!well && w->temporary)
        unlink(w->temporary);
    if (well && w->temporary)
        sync_directory(w->target);
    forget(w);
    return code;
}

void abandon_file(whole_file *w)
{
    if (w->stream)
        fclose(w->stream);
    if (w->temporary)
        unlink(w->temporary);
    forget(w);
}

void put_number(FILE *stream, double value)
{
    if (isnan(value))
        fputs("NaN", stream);
    else if (isinf(value))
        fputs(value > 0 ? "Inf" : "-Inf", stream);
    else
        fprintf(stream, "%.17g", value);
}

void put_name(FILE *stream, const char *name)
{
    bool quoted = !*name || strpbrk(name, ",\"#' ") != NULL;
    if (quoted)
        putc('"', stream);
    for (size_t control; *name; name += control ? control : 1) {
        control = control_length(name);
        if (*name == '"')
            putc('"', stream);
        putc(control ? '_' : *name, stream);
    }
    if (quoted)
        putc('"', stream);
}
