/* text.c - reading files, numbers and names, and showing them in messages. */
#include "text.h"
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */
static const size_t largest_file = (size_t)1 << 32;

static size_t line_of(const char *text, const char *at)
{
    size_t line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

/* Is a data file of so many bytes small enough to be read? */
static int check_file_size(const char *path, unsigned long long size, failure *f)
{
    return size <= largest_file
               ? 0
               : fail(f, EX_DATAERR, "%s: found %llu bytes, expected at most %zu", path, size, largest_file);
}

/* Makes room for at least one more byte and the final NUL. */
static int grow(char **text, size_t *room, const char *path, failure *f)
{
    size_t wanted = *room ? 2 * *room : 1 << 16;
    if (*room >= largest_file)
        return fail(f, EX_DATAERR, "%s: found more than %zu bytes, expected a smaller file", path, largest_file);
    char *larger = realloc(*text, wanted);
    if (!larger)
        return fail(f, EX_SOFTWARE, "%s: no memory for more than %zu bytes", path, *room);
    *text = larger;
    *room = wanted;
    return 0;
}

/* Files of other programs, by their first bytes. */
int refuse_file_kind(const char *path, const char *text, size_t size, failure *f)
{
    static const struct {
        const char *begins, *kind, *remedy;
    } kinds[] = {
        {"\x1F\x8B", "a gzip file", "unpack it first"},
        {"BZh", "a bzip2 file", "unpack it first"},
        {"\xFD"
         "7zXZ",
         "an xz file", "unpack it first"},
        {"PK\x03\x04", "an Excel or zip file", "save it as CSV, or unpack it first"},
        {"\xD0\xCF\x11\xE0", "an Excel file", "save it as CSV"},
        {"PAR1", "a Parquet file", "save it as CSV"},
        {"\xFF\xFE", "UTF-16 text", "save it as UTF-8"},
        {"\xFE\xFF", "UTF-16 text", "save it as UTF-8"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t length = strlen(kinds[i].begins);
        if (size >= length && !memcmp(text, kinds[i].begins, length))
            return fail(f, EX_DATAERR, "%s looks like %s, expected UTF-8 text: %s", path, kinds[i].kind,
                        kinds[i].remedy);
    }
    return 0;
}

static int read_all(int fd, const char *path, char **text, size_t *size, failure *f)
{
    size_t room = 0;
    *text = NULL;
    *size = 0;
    for (;;) {
        if (*size + 1 >= room && grow(text, &room, path, f))
            return f->code;
        ssize_t got = read(fd, *text + *size, room - *size - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(f, EX_IOERR, "cannot read %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        const char *nul = memchr(*text + *size, 0, (size_t)got);
        if (!*size && refuse_file_kind(path, *text, (size_t)got, f))
            return f->code;
        if (nul)
            return fail(f, EX_DATAERR, "%s:%zu: found a NUL byte, expected UTF-8 text (not UTF-16, not a binary file)",
                        path, line_of(*text, nul));
        *size += (size_t)got;
    }
    (*text)[*size] = '\0';
    return 0;
}

/* A file that cannot be opened. If it does not exist: which directory was meant? */
int refuse_path(const char *path, int error, failure *f)
{
    char *here = error == ENOENT && *path && *path != '/' ? getcwd(NULL, 0) : NULL;
    if (!strcmp(path, "-"))
        fail(f, EX_NOINPUT, "cannot open -: standard input is not supported, expected the name of a file");
    else
        fail(f, EX_NOINPUT, here ? "cannot open %s: %s in the working directory, %s" : "cannot open %s: %s", path,
             here ? "no such file" : strerror(error), here);
    free(here);
    return f->code;
}

int read_text(const char *path, char **text, size_t *size, failure *f)
{
    struct stat about;
    *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return refuse_path(path, errno, f);
    int code, known = fstat(fd, &about) == 0;
    if (known && S_ISDIR(about.st_mode))
        code = fail(f, EX_NOINPUT, "cannot read %s: found a directory, expected a file", path);
    else if (known && S_ISREG(about.st_mode) && check_file_size(path, (unsigned long long)about.st_size, f))
        code = f->code;
    else
        code = read_all(fd, path, text, size, f);
    close(fd);
    if (code) {
        free(*text);
        *text = NULL;
    } else if (strncmp(*text, "\xEF\xBB\xBF", 3) == 0) {
        memmove(*text, *text + 3, *size - 2);
        *size -= 3;
    }
    return code;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && !strcmp(name + length - tail, end);
}

bool is_missing(const char *s)
{
    static const char *const marks[] = {"", "NA", "N/A", "#N/A", "NaN", "null", "?", "."};
    if ((*s >= '0' && *s <= '9') || *s == '-') /* most fields */
        return false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strcasecmp(s, marks[i]) == 0)
            return true;
    return false;
}

static const char *skip_digits(const char *s, size_t *count)
{
    for (; *s >= '0' && *s <= '9'; s++)
        ++*count;
    return s;
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* The end of [+-] digits [. digits] [e [+-] digits], or NULL. */
static const char *skip_number(const char *s)
{
    size_t digits = 0, exponent = 0;
    s = skip_digits(s + (*s == '+' || *s == '-'), &digits);
    if (*s == '.')
        s = skip_digits(s + 1, &digits);
    if (digits && (*s == 'e' || *s == 'E')) {
        s++;
        s = skip_digits(s + (*s == '+' || *s == '-'), &exponent);
        if (!exponent)
            return NULL;
    }
    return digits ? s : NULL;
}

static locale_t plain_locale;

static void make_plain(void)
{
    locale_t names = duplocale(LC_GLOBAL_LOCALE);
    if (names)
        plain_locale = newlocale(LC_NUMERIC_MASK, "C", names);
}

locale_t use_plain_numbers(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain);
    return uselocale(plain_locale);
}

double convert_number(const char *s, const char **end)
{
    locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* the whole C locale is not allocated */
    char *stop;
    double value = strtod(s, &stop);
    uselocale(before);
    *end = stop;
    return value;
}

const char *short_number(double value, char out[NUMBER_ROOM])
{
    const char *end;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, NUMBER_ROOM, "%.*g", digits, value);
        if (convert_number(out, &end) == value)
            break;
    }
    return out;
}

static const char *explain_number(const char *s)
{
    const char *unsign = s + (*s == '+' || *s == '-');
    if (strncasecmp(unsign, "inf", 3) == 0)
        return "a finite number";
    if (is_missing(unsign))
        return "a number (missing values are not supported: fill them in, or leave out their rows)";
    if (strncasecmp(unsign, "0x", 2) == 0)
        return "a decimal number";
    size_t digits = 0;
    if (*skip_digits(unsign, &digits) == ',' && digits)
        return "a number with a decimal point, not a comma or another separator";
    return "a number";
}

/* The number s[.. end) if its digits and its power of ten are so few that both are exact: one operation rounds once,
 * as strtod does. */
static bool convert_short(const char *s, const char *end, double *value)
{
    static const double power[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    enum { MOST = 15 }; /* digits: below 2^53 */
    bool minus = *s == '-';
    long long digits = 0;
    int count = 0, after = 0;
    for (s += minus || *s == '+'; s < end; s++)
        if (*s >= '0' && *s <= '9' && count < MOST) {
            digits = 10 * digits + (*s - '0');
            count++;
            after += after > 0;
        } else if (*s == '.')
            after = 1;
        else
            return false;
    *value = (double)digits / power[after > 0 ? after - 1 : 0];
    *value = minus ? -*value : *value;
    return true;
}

const char *read_number(const char *s, double *value)
{
    s = skip_blanks(s);
    const char *end = skip_number(s);
    if (!end || *skip_blanks(end))
        return explain_number(s);
    if (convert_short(s, end, value))
        return NULL;
    *value = convert_number(s, &end);
    return isfinite(*value) ? NULL : "a number between -1.8e308 and 1.8e308";
}

const char *read_plain_number(const char *s, double *value)
{
    return strpbrk(s, " \t") ? "a number without blanks" : read_number(s, value);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
/* Bytes of the UTF-8 character that c begins with, and which it is; 0: it begins with none. */
static size_t decode(const unsigned char *c, unsigned *code)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 0;
    *code = length > 1 ? c[0] & (0xFFu >> (length + 1)) : c[0];
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80)
            return 0;
        *code = *code << 6 | (c[i] & 0x3F);
    }
    bool surrogate = *code >= 0xD800 && *code < 0xE000;
    return *code < least[length] || surrogate || *code > 0x10FFFF ? 0 : length;
}

/* Terminals obey these. */
static bool is_control(unsigned code)
{
    return code < ' ' || (code >= 0x7F && code < 0xA0);
}

/* These turn the text around, or end the line. */
static bool misleads(unsigned code)
{
    return (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

size_t read_character(const char *s, bool *plain)
{
    unsigned code;
    size_t length = decode((const unsigned char *)s, &code);
    *plain = length && !is_control(code) && !misleads(code);
    return length ? length : 1;
}

size_t show_character(const char *s, char out[5])
{
    bool plain;
    size_t length = read_character(s, &plain);
    if (plain)
        snprintf(out, 5, "%.*s", (int)length, s);
    else
        snprintf(out, 5, "\\x%02X", (unsigned char)*s);
    return plain ? length : 1;
}

void put_foreign(FILE *stream, const char *text)
{
    char shown[5];
    while (*text) {
        text += show_character(text, shown);
        fputs(shown, stream);
    }
}

size_t utf8_length(const char *s)
{
    unsigned code;
    return decode((const unsigned char *)s, &code);
}

bool is_utf8(const char *s)
{
    size_t length = 1;
    while (*s && length)
        s += length = utf8_length(s);
    return length != 0;
}

const char *quote(const char *s, char out[QUOTED])
{
    size_t at = (size_t)snprintf(out, QUOTED, "\"");
    char shown[5];
    while (*s && at < QUOTED - 10) { /* room for one more character, the quote, the dots and the NUL */
        s += show_character(s, shown);
        at += (size_t)snprintf(out + at, QUOTED - at, "%s", shown);
    }
    snprintf(out + at, QUOTED - at, *s ? "\"..." : "\"");
    return out;
}

const char *name_problem(const char *name)
{
    size_t length = strlen(name);
    if (length == 0)
        return "a name";
    if (length > 255)
        return "a name of at most 255 bytes";
    if (!is_utf8(name))
        return "a name in UTF-8";
    for (unsigned code; *name;) {
        name += decode((const unsigned char *)name, &code);
        if (is_control(code))
            return "a name without control characters";
    }
    return NULL;
}

void add_level(char text[LEVELS_ROOM], const char *level)
{
    char shown[QUOTED];
    static const char more[] = ", ...";
    size_t at = strlen(text), head = sizeof more - 1;
    bool full = at > head && !strcmp(text + at - head, more);
    if (!at)
        at = (size_t)snprintf(text, LEVELS_ROOM, "a level that the model was fitted with: %s", quote(level, shown));
    else if (!full && at + strlen(quote(level, shown)) + 2 * sizeof more < LEVELS_ROOM)
        snprintf(text + at, LEVELS_ROOM - at, ", %s", shown);
    else if (!full)
        snprintf(text + at, LEVELS_ROOM - at, "%s", more);
}

const char *remedy_of_text(const char *name)
{
    return is_utf8(name) ? "" : ": save the file as UTF-8";
}

typedef struct {
    const char *name;
    size_t at;
} place;

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

size_t find_repeated(size_t n, const char *const *names)
{
    place *sorted = calloc(n ? n : 1, sizeof *sorted);
    if (!sorted)
        return n + 1;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (place){names[i], i};
    qsort(sorted, n, sizeof *sorted, compare_places);
    size_t found = n;
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1].name, sorted[i].name) == 0 && sorted[i].at < found)
            found = sorted[i].at;
    free(sorted);
    return found;
}

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and exchanges of neighbours that turn a into b (optimal string
 * alignment), for words of fewer than 64 letters. */
static size_t count_edits(const char *a, const char *b)
{
    size_t row[3][64], m = strlen(a), n = strlen(b); /* rows i - 2, i - 1 and i, each i % 3 */
    if (m >= 64 || n >= 64)
        return SIZE_MAX;
    for (size_t i = 0; i <= m; i++)
        for (size_t j = 0; j <= n; j++) {
            size_t *now = row[i % 3], *before = row[(i + 2) % 3];
            if (!i || !j) {
                now[j] = i + j;
                continue;
            }
            now[j] = least_of(before[j - 1] + (a[i - 1] != b[j - 1]), 1 + least_of(before[j], now[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least_of(now[j], row[(i + 1) % 3][j - 2] + 1);
        }
    return row[m % 3][n];
}

const char *find_nearest(const char *s, const char *const *words)
{
    const char *nearest = NULL;
    size_t least = (strlen(s) + 2) / 3; /* one letter of three may be wrong */
    for (; *words; words++) {
        size_t edits = strcasecmp(s, *words) ? count_edits(s, *words) : 0;
        if (edits == 0)
            return *words;
        if (edits <= least && edits < strlen(*words) && (!nearest || edits < least)) {
            nearest = *words;
            least = edits;
        }
    }
    return nearest;
}
