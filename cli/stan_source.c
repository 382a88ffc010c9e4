/* stan_source.c - #include of Stan, done here so that the text says all that a compiled program depends on. A line
 * that begins with #include FILE, "FILE" or <FILE>, outside comments, is replaced by the lines of the file. */
#include "stan_source.h"
#include "text.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum {
    DEPTH = 20,        /* of includes within includes */
    FILES = 1000,      /* included files */
    LARGEST = 16 << 20 /* bytes of the whole text */
};

typedef struct {
    stan_source *source;
    FILE *out;
    size_t size; /* written to out */
    failure *f;
} reader;

static int no_memory(const reader *r)
{
    return fail(r->f, EX_SOFTWARE, "%s: no memory for the program",
                r->source->files ? r->source->file[0] : "a Stan program");
}

/* Whether a comment of several lines is open at the end of a line, given whether it is at its beginning. */
static bool comment_goes_on(const char *line, size_t length, bool open)
{
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        bool two = i + 1 < length;
        if (open) {
            if (two && line[i] == '*' && line[i + 1] == '/') {
                open = false;
                i++;
            }
        } else if (line[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && (line[i] == '#' || (two && line[i] == '/' && line[i + 1] == '/'))) {
            break;
        } else if (!quoted && two && line[i] == '/' && line[i + 1] == '*') {
            open = true;
            i++;
        }
    }
    return open;
}

/* The name behind #include, to be freed; NULL: the line is none, or has no name. */
static char *included_name(const char *line, size_t length)
{
    static const char word[] = "#include";
    const char *end = line + length;
    while (line < end && strchr(" \t", *line))
        line++;
    if ((size_t)(end - line) <= sizeof word - 1 || strncmp(line, word, sizeof word - 1) ||
        !strchr(" \t\"<", line[sizeof word - 1]))
        return NULL;
    line += sizeof word - 1;
    while (line < end && strchr(" \t", *line))
        line++;
    const char *stops = line < end && *line == '"' ? "\"\r" : line < end && *line == '<' ? ">\r" : " \t\r";
    line += line < end && strchr("\"<", *line);
    size_t n = 0;
    while (line + n < end && !strchr(stops, line[n]))
        n++;
    return n ? strndup(line, n) : NULL;
}

/* name in the directory of a file, to be freed. */
static char *beside(const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');
    size_t directory = slash && *name != '/' ? (size_t)(slash - file) + 1 : 0, size = directory + strlen(name) + 1;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%.*s%s", (int)directory, file, name);
    return path;
}

static int add_line(reader *r, const char *line, size_t length, size_t file, size_t number)
{
    stan_source *s = r->source;
    if ((s->lines & (s->lines + 1)) == 0) { /* 0, 1, 3, 7 ...: full */
        stan_origin *larger = realloc(s->origin, (2 * s->lines + 1) * sizeof *larger);
        if (!larger)
            return no_memory(r);
        s->origin = larger;
    }
    s->origin[s->lines++] = (stan_origin){file, number};
    r->size += length + 1;
    if (r->size > LARGEST)
        return fail(r->f, EX_DATAERR, "%s: the program has more than %d bytes", s->file[0], LARGEST);
    return fwrite(line, 1, length, r->out) == length && putc('\n', r->out) != EOF ? 0 : no_memory(r);
}

static int add_file(reader *r, char *path, size_t depth);

/* Takes `name`, and the file in place of the line that names it. */
static int include(reader *r, const char *name, size_t file, size_t number, size_t depth)
{
    const char *from = r->source->file[file];
    if (depth == DEPTH || r->source->files == FILES)
        return fail(r->f, EX_DATAERR,
                    "%s:%zu: too many files included (%zu, nested %zu deep): does a file include itself?", from, number,
                    r->source->files, depth);
    char *path = beside(from, name);
    if (path && access(path, F_OK)) {
        free(path);
        path = beside(r->source->file[0], name);
    }
    if (!path)
        return no_memory(r);
    if (access(path, F_OK)) {
        free(path);
        return fail(r->f, EX_NOINPUT,
                    "%s:%zu: cannot find the included file %s, neither beside this file nor beside the program", from,
                    number, name);
    }
    return add_file(r, path, depth + 1);
}

/* path: taken, and freed with the source. */
static int add_file(reader *r, char *path, size_t depth)
{
    stan_source *s = r->source;
    char **files = realloc(s->file, (s->files + 1) * sizeof *files), *text = NULL;
    if (!files) {
        free(path);
        return no_memory(r);
    }
    size_t size = 0, file = s->files, number = 1;
    s->file = files;
    s->file[s->files++] = path;
    int code = read_text(path, &text, &size, r->f);
    bool comment = false;
    for (const char *line = text; !code && *line; number++) {
        size_t length = strcspn(line, "\n");
        char *name = comment ? NULL : included_name(line, length);
        comment = comment_goes_on(line, length, comment);
        code = name ? include(r, name, file, number, depth) : add_line(r, line, length, file, number);
        free(name);
        line += length + (line[length] == '\n');
    }
    free(text);
    return code;
}

int read_stan(const char *path, stan_source *source, failure *f)
{
    size_t size = 0;
    *source = (stan_source){0};
    reader r = {source, open_memstream(&source->text, &size), 0, f};
    char *copy = strdup(path);
    int code = r.out && copy ? add_file(&r, copy, 0) : fail(f, EX_SOFTWARE, "%s: no memory for the program", path);
    if (!r.out || !copy)
        free(copy);
    if (r.out && fclose(r.out) && !code)
        code = no_memory(&r);
    if (!code && !source->lines)
        code = fail(f, EX_DATAERR, "%s is empty, expected a Stan program", path);
    if (code)
        free_stan(source);
    return code;
}

void free_stan(stan_source *s)
{
    for (size_t i = 0; i < s->files; i++)
        free(s->file[i]);
    free(s->file);
    free(s->origin);
    free(s->text);
    *s = (stan_source){0};
}

const char *locate_stan(const stan_source *s, size_t *line)
{
    size_t at = *line == 0 ? 1 : *line <= s->lines ? *line : s->lines;
    *line = s->origin[at - 1].line;
    return s->file[s->origin[at - 1].file];
}
