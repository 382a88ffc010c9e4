/* file_set.c - temporary files, one flush, renames, and the list of renames.
 *
 * A temporary file is locked as long as its process lives: that tells leftovers from files that are being written. */
#define _GNU_SOURCE /* fopencookie, syncfs */
#include "file_set.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static const char list_name[] = ".wvgd-commit", list_head[] = "wvgd commit 1", mark[] = ".wvgd-";
enum { DIGITS = 16, NAME_BYTES = 200 }; /* of the random number; of the name, which may be as long as names can be */

static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory to write files");
}

static int disk_or_create(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG ? EX_IOERR : EX_CANTCREAT;
}

static char *join(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s%s", dir, !strcmp(dir, "/") ? "" : "/", name);
    return path;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- temporary names --------------------------------------------------------------------------------------------- */
static bool has_mark(const char *end)
{
    if (strncmp(end, mark, strlen(mark)) || strlen(end) != strlen(mark) + DIGITS)
        return false;
    return strspn(end + strlen(mark), "0123456789abcdef") == DIGITS;
}

bool is_temporary(const char *file, const char *name)
{
    size_t length = strlen(file), tail = strlen(mark) + DIGITS;
    if (*file != '.' || length <= tail + 1)
        return !strcmp(file, list_name) && (!name || !strcmp(name, list_name));
    size_t stem = name ? strnlen(name, NAME_BYTES) : length - tail - 1;
    return stem + 1 + tail == length && has_mark(file + 1 + stem) && (!name || !strncmp(file + 1, name, stem));
}

/* A name that has not been there. 0 or an errno. */
static int make_temporary(const char *dir, const char *name, char **path, int *fd)
{
    char file[NAME_BYTES + sizeof mark + DIGITS + 8];
    struct stat about;
    uint64_t number;
    for (int tries = 0; tries < 100; tries++) {
        if (getentropy(&number, sizeof number))
            return errno;
        snprintf(file, sizeof file, ".%.*s%s%016" PRIx64, NAME_BYTES, name, mark, number);
        if (!(*path = join(dir, file)))
            return ENOMEM;
        *fd = open(*path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0666);
        int error = errno;
        /* somebody who looks for leftovers may have seen it before it was locked */
        bool taken = *fd >= 0 &&
                     ((flock(*fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) || fstat(*fd, &about) || !about.st_nlink);
        if (*fd >= 0 && !taken)
            return 0;
        free(*path);
        *path = NULL;
        if (*fd >= 0)
            close(*fd);
        else if (error != EEXIST)
            return error;
    }
    return EEXIST;
}

/* Removes a plain file of ours that no process has locked; it stays locked until it is gone. */
static void remove_unlocked(const char *path)
{
    struct stat about;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && !fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
        !flock(fd, LOCK_EX | LOCK_NB))
        unlink(path);
    if (fd >= 0)
        close(fd);
}

void remove_leftovers(const char *dir, const char *name)
{
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *path = is_temporary(e->d_name, name) && strcmp(e->d_name, list_name) ? join(dir, e->d_name) : NULL;
        if (path)
            remove_unlocked(path);
        free(path);
    }
    if (d)
        closedir(d);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */
/* Where a stream goes. Streams remember that a write has failed, but not why. */
struct sink {
    int fd, error; /* errno of the first write that has failed, or 0 */
};

static ssize_t put_bytes(void *cookie, const char *bytes, size_t size)
{
    struct sink *sink = cookie;
    size_t done = 0;
    while (done < size && !sink->error) {
        ssize_t put = write(sink->fd, bytes + done, size - done);
        if (put >= 0)
            done += (size_t)put;
        else if (errno != EINTR)
            sink->error = errno;
    }
    return sink->error ? 0 : (ssize_t)size;
}

static int close_sink(void *cookie)
{
    struct sink *sink = cookie;
    int fd = sink->fd;
    free(sink);
    return close(fd);
}

/* Takes fd over, but for a failure: NULL. */
static FILE *open_stream(int fd, struct sink **sink)
{
    *sink = malloc(sizeof **sink);
    if (!*sink)
        return NULL;
    **sink = (struct sink){fd, 0};
    FILE *stream = fopencookie(*sink, "w", (cookie_io_functions_t){.write = put_bytes, .close = close_sink});
    if (stream)
        setvbuf(stream, NULL, _IOFBF, 1 << 16);
    else
        free(*sink);
    return stream;
}

/* ---- a set ------------------------------------------------------------------------------------------------------- */
static void forget(file_set *s)
{
    for (size_t i = 0; i < s->files; i++) {
        if (s->file[i].stream)
            fclose(s->file[i].stream);
        free(s->file[i].shown);
        free(s->file[i].temporary);
        free(s->file[i].place);
    }
    s->files = s->removals = 0;
}

void abandon_files(file_set *s)
{
    for (size_t i = 0; i < s->files; i++)
        if (s->file[i].stream && s->file[i].temporary)
            unlink(s->file[i].temporary);
    forget(s);
}

static int refuse_place(const char *shown, int error, failure *f)
{
    return fail(f, disk_or_create(error), "cannot create %s: %s", shown,
                error == ENOENT ? "its directory does not exist" : strerror(error));
}

FILE *add_file(file_set *s, const char *name, failure *f)
{
    struct stat about;
    staged_file w = {.shown = s->shown ? strdup(s->shown) : join(s->dir, name), .place = join(s->dir, name)};
    int fd = -1, error = !w.shown || !w.place || s->files == SET_FILES ? ENOMEM : 0;
    if (!error && !lstat(w.place, &about) && S_ISDIR(about.st_mode))
        error = EISDIR; /* a rename could not replace it */
    if (!error && !s->whole)
        remove_leftovers(s->dir, name);
    if (!error)
        error = make_temporary(s->dir, name, &w.temporary, &fd);
    if (!error && !(w.stream = open_stream(fd, &w.sink))) {
        error = ENOMEM;
        unlink(w.temporary);
        close(fd);
    }
    if (error) {
        refuse_place(w.shown ? w.shown : name, error, f);
        free(w.shown);
        free(w.place);
        free(w.temporary);
        return NULL;
    }
    s->file[s->files++] = w;
    return w.stream;
}

FILE *add_device(file_set *s, const char *path, failure *f)
{
    staged_file w = {.shown = strdup(path)};
    int fd = w.shown ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY) : -1, error = fd < 0 ? errno : ENOMEM;
    w.stream = fd >= 0 && s->files < SET_FILES ? open_stream(fd, &w.sink) : NULL;
    if (w.stream) {
        s->file[s->files++] = w;
        return w.stream;
    }
    refuse_place(path, error, f);
    if (fd >= 0)
        close(fd);
    free(w.shown);
    return NULL;
}

int add_move(file_set *s, const char *from, const char *name, failure *f)
{
    staged_file w = {.shown = join(s->dir, name), .temporary = join(s->dir, from), .place = join(s->dir, name)};
    if (w.shown && w.temporary && w.place && s->files < SET_FILES) {
        s->file[s->files++] = w;
        return 0;
    }
    free(w.shown);
    free(w.temporary);
    free(w.place);
    return no_memory(f);
}

void add_removal(file_set *s, const char *name)
{
    if (s->removals < SET_FILES)
        s->removal[s->removals++] = name;
}

/* ---- commit ------------------------------------------------------------------------------------------------------ */
static int refuse_write(const staged_file *w, int error, failure *f)
{
    return fail(f, EX_IOERR, "cannot write %s: %s", w->shown, strerror(error ? error : EIO));
}

/* Everything has reached the system, if not the disk. */
static int check_streams(const file_set *s, failure *f)
{
    for (size_t i = 0; i < s->files; i++) {
        FILE *stream = s->file[i].stream;
        if (stream && (fflush(stream) || ferror(stream)))
            return refuse_write(&s->file[i], s->file[i].sink->error, f);
    }
    return 0;
}

/* One file by itself, several in one go: a flush of each would wait for the disk as many times. */
static int flush_to_disk(const file_set *s, failure *f)
{
    bool each = s->files < 2;
    int fd = each ? -1 : open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    each = fd < 0 || syncfs(fd);
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < s->files; i++) {
        const staged_file *w = &s->file[i];
        if (!w->stream || !w->temporary)
            continue;
        if (each && fsync(w->sink->fd))
            return refuse_write(&s->file[i], errno, f);
        int copy = each ? -1 : dup(w->sink->fd); /* network file systems tell of errors when a file is closed */
        if (copy >= 0 && close(copy))
            return refuse_write(&s->file[i], errno, f);
    }
    return 0;
}

/* The new names are on the disk once their directory is. */
static void flush_directory(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd); /* some file systems cannot; the files themselves are safe all the same */
    close(fd);
}

static int write_list(file_set *s, failure *f)
{
    size_t n = s->files;
    FILE *stream = add_file(s, list_name, f);
    if (!stream)
        return f->code;
    fprintf(stream, "%s\n", list_head);
    for (size_t i = 0; i < n; i++)
        fprintf(stream, "move %s %s\n", last_part(s->file[i].temporary), last_part(s->file[i].place));
    for (size_t i = 0; i < s->removals; i++)
        fprintf(stream, "remove %s\n", s->removal[i]);
    fputs("end\n", stream);
    return 0;
}

static int rename_all(const file_set *s, failure *f)
{
    int code = 0;
    for (size_t i = s->files; i-- > 0 && !code;) /* the list, if there is one, is the last: it comes first */
        if (s->file[i].temporary && rename(s->file[i].temporary, s->file[i].place) &&
            (s->file[i].stream || errno != ENOENT))
            code = refuse_write(&s->file[i], errno, f);
    for (size_t i = 0; i < s->removals && !code; i++) {
        char *path = join(s->dir, s->removal[i]);
        if (!path || (unlink(path) && errno != ENOENT))
            code = fail(f, EX_IOERR, "cannot remove %s/%s: %s", s->dir, s->removal[i], strerror(path ? errno : ENOMEM));
        free(path);
    }
    return code;
}

int commit_files(file_set *s, failure *f)
{
    bool listed = s->whole && s->files + s->removals > 1;
    int code = listed ? write_list(s, f) : 0;
    if (!code)
        code = check_streams(s, f);
    if (!code && !s->passing)
        code = flush_to_disk(s, f);
    if (code) {
        abandon_files(s);
        return code;
    }
    code = rename_all(s, f);
    if (!code && !s->passing && s->dir)
        flush_directory(s->dir);
    if (!code && listed)
        unlink(s->file[s->files - 1].place);
    if (code && (!listed || !has_incomplete_files(s->dir)))
        abandon_files(s);
    forget(s);
    return code;
}

/* ---- what a killed process has left ------------------------------------------------------------------------------ */
bool has_incomplete_files(const char *dir)
{
    char *path = join(dir, list_name);
    struct stat about;
    bool there = path && !lstat(path, &about);
    free(path);
    return there;
}

typedef struct {
    char *verb, *from, *to;
} list_line;

static bool is_file_name(const char *name)
{
    return name && *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

/* Takes a line apart and says whether we could have written it. */
static bool read_line(char *text, bool (*may_change)(const char *name), list_line *line)
{
    char *rest;
    *line = (list_line){strtok_r(text, " ", &rest), NULL, NULL};
    if (!line->verb)
        return false;
    if (!strcmp(line->verb, "move"))
        line->from = strtok_r(NULL, " ", &rest);
    line->to = strtok_r(NULL, " ", &rest);
    if (!strcmp(line->verb, "remove"))
        return is_file_name(line->to) && may_change(line->to);
    return !strcmp(line->verb, "move") && is_file_name(line->from) && is_file_name(line->to) && may_change(line->to) &&
           (is_temporary(line->from, line->to) || may_change(line->from));
}

/* Does what a line says; all of it may have been done before. 0 or an errno. */
static int do_line(const char *dir, const list_line *line)
{
    char *from = line->from ? join(dir, line->from) : NULL, *to = join(dir, line->to);
    int error = 0;
    if (!to || (line->from && !from))
        error = ENOMEM;
    else if ((from ? rename(from, to) : unlink(to)) && errno != ENOENT)
        error = errno;
    free(from);
    free(to);
    return error;
}

/* Reads the list twice: first to see whether it is one. */
static int follow_list(const char *dir, const char *list, bool (*may_change)(const char *name), failure *f)
{
    for (int doing = 0; doing < 2; doing++) {
        char *copy = strdup(list), *rest = NULL, *text = copy ? strtok_r(copy, "\n", &rest) : NULL;
        bool ended = false, good = text && !strcmp(text, list_head);
        int error = copy ? 0 : ENOMEM;
        while (good && !ended && !error && (text = strtok_r(NULL, "\n", &rest))) {
            list_line line;
            ended = !strcmp(text, "end");
            good = ended || read_line(text, may_change, &line);
            if (good && !ended && doing)
                error = do_line(dir, &line);
        }
        free(copy);
        if (error)
            return fail(f, disk_or_create(error),
                        "the files of the run in %s are only partly in place, and the others cannot be moved: %s", dir,
                        strerror(error));
        if (!good || !ended)
            return fail(f, EX_DATAERR, "%s/%s is not a list of files written by wvgd: remove it", dir, list_name);
    }
    return 0;
}

int complete_files(const char *dir, bool (*may_change)(const char *name), failure *f)
{
    char text[2048], *path = join(dir, list_name);
    struct stat about;
    int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1, code = 0;
    ssize_t size = fd >= 0 && !fstat(fd, &about) && S_ISREG(about.st_mode) ? read(fd, text, sizeof text - 1) : -1;
    if (size >= 0) {
        text[size] = '\0';
        code = follow_list(dir, text, may_change, f);
        if (!code) {
            flush_directory(dir);
            unlink(path);
        }
    } else if (has_incomplete_files(dir)) {
        code = fail(f, EX_NOINPUT, "cannot read %s/%s, the list of files that are not yet in place", dir, list_name);
    }
    if (fd >= 0)
        close(fd);
    free(path);
    return code;
}
