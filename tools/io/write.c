/* write.c - whole files, and the way numbers and names are spelled in CSV. */
#include "write.h"
#include "text.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

static bool is_plain(const char *path)
{
    struct stat s;
    return stat(path, &s) || S_ISREG(s.st_mode) || S_ISDIR(s.st_mode);
}

/* Frees. */
static int leave(whole_file *w, int code)
{
    free(w->path);
    free(w->target);
    *w = (whole_file){0};
    return code;
}

int begin_file(whole_file *w, const char *path, failure *f)
{
    use_plain_numbers();               /* again: a model may have called uselocale */
    char *real = realpath(path, NULL); /* the file itself if path is a link to one, so that the link stays */
    *w = (whole_file){.path = strdup(path), .target = real ? real : strdup(path)};
    if (!w->path || !w->target)
        return leave(w, fail(f, EX_SOFTWARE, "no memory to write %s", path));
    if (!is_plain(path)) {
        w->stream = add_device(&w->set, path, f);
        return w->stream ? 0 : leave(w, f->code);
    }
    char *slash = strrchr(w->target, '/'), *name = slash ? slash + 1 : w->target;
    struct stat s;
    w->set.shown = w->path;
    w->set.dir = !slash ? "." : slash == w->target ? "/" : w->target;
    bool directory = !*name || (!stat(w->target, &s) && S_ISDIR(s.st_mode));
    if (slash)
        *slash = '\0';
    if (directory)
        return leave(w, fail(f, EX_CANTCREAT, "cannot create %s: %s", path, strerror(EISDIR)));
    w->stream = add_file(&w->set, name, f);
    return w->stream ? 0 : leave(w, f->code);
}

int finish_file(whole_file *w, failure *f)
{
    return leave(w, commit_files(&w->set, f));
}

void abandon_file(whole_file *w)
{
    abandon_files(&w->set);
    leave(w, 0);
}

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 wide;

/* What "%.17g" prints of a value between 1e-4 and 1e15 in size, in a fourth of its time: value = m 2^-shift, and 17
 * digits of m 10^k are exact in 128 bits, their rounding too. Returns the length. */
static size_t spell(double value, char *out)
{
    static const double power[] = {1e-3, 1e-2, 1e-1, 1e0, 1e1,  1e2,  1e3,  1e4,  1e5,
                                   1e6,  1e7,  1e8,  1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
    static const uint64_t tens[] = {1,       10,       100,       1000,       10000,      100000,
                                    1000000, 10000000, 100000000, 1000000000, 10000000000},
                          least = 10000000000000000; /* the first number of 17 digits */
    char digit[17], *to = out;
    int binary, above = -4; /* decimal exponent */
    uint64_t m = (uint64_t)ldexp(frexp(fabs(value), &binary), 53), d = 0;
    while (above < 14 && fabs(value) >= power[above + 4])
        above++;
    unsigned shift = (unsigned)(53 - binary);
    wide scaled = 0, half = (wide)1 << (shift - 1), rest;
    for (above++; d < least;) {
        /* a power of ten that was rounded down may be more than the value that reaches it: then once more */
        unsigned k = (unsigned)(16 - --above);
        scaled = (wide)m * tens[k / 2] * tens[k - k / 2];
        d = (uint64_t)(scaled >> shift);
    }
    rest = scaled - ((wide)d << shift);
    d += rest > half || (rest == half && d % 2);
    if (d >= 10 * least) {
        d /= 10;
        above++;
    }
    for (size_t i = 17; i-- > 0; d /= 10)
        digit[i] = (char)('0' + d % 10);
    int count = 17;
    while (count > 1 && digit[count - 1] == '0')
        count--;
    if (value < 0)
        *to++ = '-';
    if (above < 0) {
        *to++ = '0';
        *to++ = '.';
        for (int i = -1; i > above; i--)
            *to++ = '0';
    }
    for (int i = 0; i < count || i <= above; i++) {
        *to++ = i < count ? digit[i] : '0';
        if (i == above && i + 1 < count)
            *to++ = '.';
    }
    return (size_t)(to - out);
}
#endif

void put_number(FILE *stream, double value)
{
#ifdef __SIZEOF_INT128__
    char text[32];
    if (fabs(value) >= 1e-4 && fabs(value) < 1e15) {
        fwrite(text, 1, spell(value, text), stream);
        return;
    }
#endif
    if (isnan(value))
        fputs("NaN", stream);
    else if (isinf(value))
        fputs(value > 0 ? "Inf" : "-Inf", stream);
    else
        fprintf(stream, "%.17g", value);
}

size_t put_safe(FILE *stream, const char *text)
{
    bool plain;
    size_t length = read_character(text, &plain);
    fwrite(plain ? text : "_", 1, plain ? length : 1, stream);
    return length;
}

void put_name(FILE *stream, const char *name)
{
    bool quoted = !*name || strpbrk(name, ",\"#' ") != NULL;
    if (quoted)
        putc('"', stream);
    for (size_t length; *name; name += length) {
        if (*name == '"')
            putc('"', stream);
        length = put_safe(stream, name);
    }
    if (quoted)
        putc('"', stream);
}
