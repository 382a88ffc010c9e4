/* stan_cache.c - the cache and its keys. */
#include "stan_cache.h"
#include "text.h"
#include "write.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

static const char workplace[] = "wvgd-stan-";

char *make_text(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory");
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */
content_key begin_key(void)
{
    return (content_key){14695981039346656037u, 0x9e3779b97f4a7c15u};
}

static void add_bytes(content_key *key, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) { /* FNV-1a, and the same with other constants and a rotation */
        key->one = (key->one ^ (unsigned char)bytes[i]) * 1099511628211u;
        key->two = (key->two ^ (unsigned char)bytes[i]) * 0xd6e8feb86659fd93u;
        key->two = key->two << 29 | key->two >> 35;
    }
}

void add_to_key(content_key *key, const char *text)
{
    add_bytes(key, text, strlen(text) + 1);
}

int add_file_to_key(content_key *key, const char *path, failure *f)
{
    char *text = NULL;
    size_t size = 0;
    int code = read_text(path, &text, &size, f);
    if (!code)
        add_bytes(key, text, size + 1);
    free(text);
    return code;
}

void show_key(const content_key *key, char text[KEY_TEXT])
{
    snprintf(text, KEY_TEXT, "%016" PRIx64 "%016" PRIx64, key->one, key->two);
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */
/* Makes a directory and those above it, for nobody but us. */
static int make_directories(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        int failed = mkdir(path, 0700) && errno != EEXIST;
        *slash = '/';
        if (failed)
            return -1;
    }
    return mkdir(path, 0700) && errno != EEXIST ? -1 : 0;
}

int open_cache(char **dir, failure *f)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct stat about;
    char *path = cache && *cache == '/' ? make_text("%s/wvgd/stan", cache)
                 : home && *home == '/' ? make_text("%s/.cache/wvgd/stan", home)
                                        : NULL;
    *dir = NULL;
    if (!path)
        return fail(f, EX_CANTCREAT,
                    "no directory for compiled Stan programs: set XDG_CACHE_HOME or HOME to a directory");
    int code = 0;
    if (make_directories(path) || stat(path, &about))
        code = fail(f, errno == ENOSPC || errno == EDQUOT ? EX_IOERR : EX_CANTCREAT,
                    "cannot create the cache directory %s: %s (set XDG_CACHE_HOME to another directory)", path,
                    strerror(errno));
    else if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)))
        code = fail(f, EX_CANTCREAT,
                    "other users can write to the cache directory %s: set XDG_CACHE_HOME to another directory", path);
    if (code)
        free(path);
    else {
        remove_leftovers(path, NULL); /* of a process that was killed */
        *dir = path;
    }
    return code;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
/* Either a text, or the file `from`. */
static int keep(const char *text, FILE *from, const char *dir, const char *name, failure *f)
{
    whole_file w;
    char buffer[2048], *path = make_text("%s/%s", dir, name);
    int code = path ? begin_file(&w, path, f) : no_memory(f);
    free(path);
    if (code)
        return code;
    if (text)
        fputs(text, w.stream);
    for (size_t n; from && (n = fread(buffer, 1, sizeof buffer, from)) > 0;)
        fwrite(buffer, 1, n, w.stream);
    if (!from || !ferror(from))
        return finish_file(&w, f);
    abandon_file(&w);
    return fail(f, EX_IOERR, "cannot read the file to store as %s/%s", dir, name);
}

int keep_text(const char *text, const char *dir, const char *name, failure *f)
{
    return keep(text, NULL, dir, name, f);
}

int keep_file(const char *from, const char *dir, const char *name, failure *f)
{
    FILE *stream = fopen(from, "rb");
    if (!stream)
        return fail(f, EX_SOFTWARE, "cannot open %s: %s", from, strerror(errno));
    int code = keep(NULL, stream, dir, name, f);
    fclose(stream);
    return code;
}

/* ---- the workplace ----------------------------------------------------------------------------------------------- */
static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    remove(path);
    return 0;
}

void remove_workplace(const char *dir)
{
    if (dir)
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Workplaces of ours that are more than a day old: of processes that were killed. */
static void remove_old_workplaces(const char *top)
{
    DIR *d = opendir(top);
    time_t now = time(NULL);
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct stat about;
        char *path = strncmp(e->d_name, workplace, strlen(workplace)) ? NULL : make_text("%s/%s", top, e->d_name);
        if (path && !lstat(path, &about) && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
            now - about.st_mtime > 86400)
            remove_workplace(path);
        free(path);
    }
    if (d)
        closedir(d);
}

int make_workplace(char **dir, failure *f)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    const char *top = getenv("TMPDIR");
    if (!top || *top != '/' || strspn(top, plain) != strlen(top))
        top = "/tmp";
    remove_old_workplaces(top);
    *dir = make_text("%s/%sXXXXXX", top, workplace);
    if (!*dir)
        return no_memory(f);
    if (mkdtemp(*dir))
        return 0;
    int code = fail(f, EX_CANTCREAT, "cannot create a temporary directory in %s: %s", top, strerror(errno));
    free(*dir);
    *dir = NULL;
    return code;
}
