/* row_shares.c - byte ranges of a file, and what processes agree on.
 *
 * A range begins anywhere, perhaps inside a quoted field. Whether it does is known from the quotes in the ranges before
 * it: in a file without errors every quote begins or ends quoted text. In one with errors all ranges up to the first
 * error are right, and that is the one which is shown. */
#include "row_shares.h"
#include "text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static int fail_sharing(row_shares *s, failure *f)
{
    s->lost = true;
    return fail(f, EX_SOFTWARE, "rank %u: cannot share the rows with other ranks: a rank has died, or memory ran out",
                s->rank);
}

/* What all give, [count][n] of this size each; to be freed. */
static void *gather_equal(row_shares *s, size_t bytes, const void *mine, failure *f)
{
    char *all = NULL;
    size_t *sizes = calloc(s->count, sizeof *sizes);
    bool good = sizes && !s->gather(s->self, mine, bytes, &all, sizes);
    for (unsigned k = 0; good && k < s->count; k++)
        good = sizes[k] == bytes;
    free(sizes);
    if (good)
        return all;
    free(all);
    fail_sharing(s, f);
    return NULL;
}

int share_counts(row_shares *s, size_t n, size_t *count, failure *f)
{
    size_t *all = s ? gather_equal(s, n * sizeof *all, count, f) : NULL;
    if (!all)
        return s ? f->code : 0;
    memset(count, 0, n * sizeof *count);
    for (size_t k = 0; k < s->count; k++)
        for (size_t i = 0; i < n; i++)
            count[i] += all[k * n + i];
    free(all);
    return 0;
}

int share_sums(row_shares *s, size_t n, double *sum, failure *f)
{
    double *all = s ? gather_equal(s, n * sizeof *all, sum, f) : NULL;
    if (!all)
        return s ? f->code : 0;
    memcpy(sum, all, n * sizeof *sum);
    for (size_t k = 1; k < s->count; k++)
        for (size_t i = 0; i < n; i++)
            sum[i] += all[k * n + i];
    free(all);
    return 0;
}

int share_all(row_shares *s, bool *flag, failure *f)
{
    size_t not = !*flag;
    if (share_counts(s, 1, &not, f))
        return f->code;
    *flag = !not ;
    return 0;
}

int share_failure(row_shares *s, failure *f)
{
    bool good = !f->code;
    if (share_all(s, &good, f) || (good && s)) /* most do not fail: nothing long is sent then */
        return f->code;
    failure *all = s ? gather_equal(s, sizeof *f, f, f) : NULL;
    if (!all)
        return f->code;
    f->code = 0;
    for (unsigned k = 0; k < s->count && !f->code; k++)
        if (all[k].code)
            *f = all[k];
    free(all);
    return f->code;
}

int share_texts(row_shares *s, const char *mine, size_t bytes, char **all, size_t *size, size_t *begin, failure *f)
{
    size_t *sizes = calloc(s->count, sizeof *sizes);
    *all = NULL;
    *size = 0;
    bool good = sizes && !s->gather(s->self, mine, bytes, all, sizes);
    for (unsigned k = 0; good && k < s->count; *size += sizes[k++])
        if (begin)
            begin[k] = *size;
    free(sizes);
    return good ? 0 : fail_sharing(s, f);
}

int share_numbers(row_shares *s, size_t n, const double *mine, double **all, size_t *total, failure *f)
{
    char *sent = NULL;
    size_t bytes = n * sizeof *mine;
    *all = NULL;
    if (s && share_texts(s, (const char *)mine, bytes, &sent, &bytes, NULL, f))
        return f->code;
    if (!s && (sent = malloc(bytes + 1)))
        memcpy(sent, mine, bytes);
    *all = (double *)(void *)sent;
    *total = bytes / sizeof *mine;
    return sent ? 0 : fail(f, EX_SOFTWARE, "no memory for %zu numbers", n);
}

/* The number of the first process that has one, or of the last. */
static int share_end(row_shares *s, bool has, bool last, double *x, failure *f)
{
    const double mine[2] = {has, *x};
    double *all = s ? gather_equal(s, sizeof mine, mine, f) : NULL;
    bool found = false;
    if (!all)
        return s ? f->code : 0;
    for (unsigned k = 0; k < s->count; k++)
        if (all[2 * k] > 0 && (last || !found)) {
            *x = all[2 * k + 1];
            found = true;
        }
    free(all);
    return 0;
}

int share_first(row_shares *s, bool has, double *x, failure *f)
{
    return share_end(s, has, false, x, f);
}

int share_last(row_shares *s, bool has, double *x, failure *f)
{
    return share_end(s, has, true, x, f);
}

/* ---- byte ranges ------------------------------------------------------------------------------------------------- */
typedef struct {
    int fd;
    const char *path;
    size_t size;       /* of the file */
    size_t begin, end; /* the range, between the header and the end of the file */
} byte_range;

/* n bytes from `at` on. */
static int read_bytes(const byte_range *r, size_t at, size_t n, char *to, failure *f)
{
    while (n) {
        ssize_t got = pread(r->fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(f, EX_IOERR, "cannot read %s: %s", r->path, got ? strerror(errno) : "it has become shorter");
        at += (size_t)got;
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

static int open_range(byte_range *r, const char *path, failure *f)
{
    struct stat about;
    *r = (byte_range){open(path, O_RDONLY | O_CLOEXEC), path, 0, 0, 0};
    if (r->fd < 0)
        return refuse_path(path, errno, f);
    if (fstat(r->fd, &about))
        return fail(f, EX_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return fail(f, EX_NOINPUT, "cannot read %s by --shard rows: expected a file, not a directory or a pipe", path);
    r->size = (size_t)about.st_size;
    return 0;
}

/* Is there a line end at text[i]? Of CR LF the second is one. next: the byte after it, or NUL. */
static bool ends_line(char c, char next)
{
    return c == '\n' || (c == '\r' && next != '\n');
}

static const char mark[] = "\xEF\xBB\xBF"; /* of a byte order, at the beginning of a file */
enum { MARK = sizeof mark - 1 };

static bool has_mark(const char *text, size_t size)
{
    return size >= MARK && !memcmp(text, mark, MARK);
}

/* Bytes up to the end of the first line that is not blank, or 0: it does not end here. */
static size_t find_header(const char *text, size_t size, bool whole)
{
    bool quoted = false, blank = true;
    for (size_t i = has_mark(text, size) ? MARK : 0; i < size; i++) {
        quoted ^= text[i] == '"';
        blank = blank && strchr(" \t\r\n", text[i]);
        if (!quoted && !blank && (i + 1 < size || whole) && ends_line(text[i], i + 1 < size ? text[i + 1] : '\0'))
            return i + 1;
    }
    return whole ? size : 0;
}

/* The header, in *text with *head bytes, to be freed. */
static int read_header(const byte_range *r, char **text, size_t *head, failure *f)
{
    *head = 0;
    *text = NULL;
    for (size_t room = 1 << 16; !*head; room *= 2) {
        size_t n = room < r->size ? room : r->size;
        char *more = realloc(*text, n + 1);
        if (!more)
            return fail(f, EX_SOFTWARE, "%s: no memory for a header of %zu bytes", r->path, n);
        *text = more;
        if (read_bytes(r, 0, n, *text, f) || refuse_file_kind(r->path, *text, n, f))
            return f->code;
        *head = find_header(*text, n, n == r->size);
        if (n == r->size)
            break;
    }
    (*text)[*head] = '\0';
    return 0;
}

/* What is counted in a range. first: where the first row begins in it, SIZE_MAX: nowhere; lines: line ends before that,
 * and in all. */
typedef struct {
    size_t quotes, lines, first, lines_before;
} range_facts;

/* text[n] is the range, before it the byte `before`, after it `after`; quoted: it begins inside quotes. */
static range_facts look_through(const char *text, size_t n, char before, char after, bool quoted, bool at_header)
{
    range_facts a = {0, 0, SIZE_MAX, 0};
    if (n && (at_header || (!quoted && ends_line(before, text[0]))))
        a.first = 0;
    for (size_t i = 0; i < n; i++) {
        char next = i + 1 < n ? text[i + 1] : after;
        a.quotes += text[i] == '"';
        quoted ^= text[i] == '"';
        if (!ends_line(text[i], next))
            continue;
        a.lines++;
        if (a.first == SIZE_MAX && !quoted && i + 1 < n) {
            a.first = i + 1;
            a.lines_before = a.lines;
        }
    }
    return a;
}

static size_t count_lines(const char *text, size_t n)
{
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += ends_line(text[i], i + 1 < n ? text[i + 1] : '\0');
    return lines;
}

/* Where the rows of this share end, and how many lines and quotes stand before its range: *a of all ranks is asked for
 * twice, since where rows begin depends on the quotes. */
static int place_rows(row_shares *s, const byte_range *r, const char *bytes, range_facts *a, size_t *lines, size_t *end,
                      failure *f)
{
    size_t n = r->end - r->begin, before = 0;
    char last = bytes[0], next = bytes[n + 1];
    *a = look_through(bytes + 1, n, last, next, false, s->rank == 0);
    range_facts *all = gather_equal(s, sizeof *a, a, f);
    if (!all)
        return f->code;
    *lines = 0;
    for (unsigned k = 0; k < s->rank; k++) {
        before += all[k].quotes;
        *lines += all[k].lines;
    }
    free(all);
    *a = look_through(bytes + 1, n, last, next, before % 2, s->rank == 0);
    a->first = a->first == SIZE_MAX ? SIZE_MAX : r->begin + a->first;
    if (!(all = gather_equal(s, sizeof *a, a, f)))
        return f->code;
    *end = r->size;
    for (unsigned k = s->count - 1; k > s->rank; k--)
        *end = all[k].first < *end ? all[k].first : *end;
    free(all);
    return 0;
}

/* Is the file the same everywhere, as far as that is known? */
static int compare_files(row_shares *s, const byte_range *r, size_t head, const char *header, failure *f)
{
    struct {
        size_t size, head, sum;
    } mine = {r->size, head, 0}, *all;
    for (size_t i = 0; i < head; i++)
        mine.sum = mine.sum * 31 + (unsigned char)header[i];
    if (!(all = gather_equal(s, sizeof mine, &mine, f)))
        return f->code;
    f->code = 0;
    if (memcmp(&mine, &all[0], sizeof mine))
        fail(f, EX_DATAERR, "%s has %zu bytes on rank %u and %zu on rank 0%s: expected the same file for all ranks",
             r->path, mine.size, s->rank, all[0].size, mine.size == all[0].size ? ", and another header" : "");
    free(all);
    return share_failure(s, f);
}

/* Header and rows in the place of the range: *text becomes both, and a NUL. */
static int join(const byte_range *r, const char *header, size_t head, const range_facts *a, size_t end, char **text,
                size_t *size, failure *f)
{
    size_t rows = a->first == SIZE_MAX ? 0 : end - a->first, left = rows ? r->end - a->first : 0,
           have = rows < left ? rows : left;
    memmove(*text + head, *text + head + 1 + (rows ? a->first - r->begin : 0), have);
    memcpy(*text, header, head);
    *size = head + rows;
    char *fits = realloc(*text, *size + 1);
    if (!fits)
        return fail(f, EX_SOFTWARE, "%s: not enough memory for %zu bytes of the file", r->path, *size);
    *text = fits;
    (*text)[*size] = '\0';
    return rows > have ? read_bytes(r, r->end, rows - have, *text + head + have, f) : 0;
}

static int refuse_nul(const byte_range *r, const char *text, size_t size, size_t head, size_t line, failure *f)
{
    const char *nul = memchr(text, 0, size);
    if (!nul)
        return 0;
    size_t at = (size_t)(nul - text), before = at < head ? 0 : head;
    return fail(f, EX_DATAERR, "%s:%zu: found a NUL byte, expected UTF-8 text (not UTF-16, not a binary file)", r->path,
                (before ? line : 1) + count_lines(text + before, at - before));
}

/* The range with one byte before it and one after it, behind room for the header. */
static int read_range(row_shares *s, byte_range *r, size_t head, char **text, failure *f)
{
    size_t all = r->size - head;
    r->begin = head + (size_t)((double)all / s->count * s->rank);
    r->end = s->rank + 1 == s->count ? r->size : head + (size_t)((double)all / s->count * (s->rank + 1));
    size_t n = r->end - r->begin, more = r->end < r->size;
    if (!(*text = malloc(head + n + 2)))
        return fail(f, EX_SOFTWARE, "%s: not enough memory for %zu bytes of the file", r->path, n);
    char *bytes = *text + head;
    bytes[0] = bytes[n + 1] = '\0';
    if (r->begin && read_bytes(r, r->begin - 1, 1, bytes, f))
        return f->code;
    return read_bytes(r, r->begin, n + more, bytes + 1, f);
}

/* A file that begins with a byte order mark: the mark goes. */
static void drop_mark(char *text, size_t *size, size_t *head)
{
    if (!has_mark(text, *head))
        return;
    memmove(text, text + MARK, *size - MARK + 1);
    *size -= MARK;
    *head -= MARK;
}

int read_share(row_shares *s, const char *path, char **text, size_t *size, size_t *head, size_t *line, failure *f)
{
    byte_range r;
    char *header = NULL;
    range_facts a;
    size_t lines = 0, end = 0;
    *text = NULL;
    f->code = 0;
    if (!open_range(&r, path, f) && r.size)
        read_header(&r, &header, head, f);
    else
        *head = 0;
    int code = share_failure(s, f);
    if (!code)
        code = compare_files(s, &r, *head, header, f);
    if (!code) {
        read_range(s, &r, *head, text, f);
        code = share_failure(s, f);
    }
    if (!code)
        code = place_rows(s, &r, *text + *head, &a, &lines, &end, f);
    if (!code) {
        *line = 1 + (header ? count_lines(header, *head) : 0) + lines + a.lines_before;
        join(&r, header ? header : "", *head, &a, end, text, size, f);
        if (!f->code)
            refuse_nul(&r, *text, *size, *head, *line, f);
        code = share_failure(s, f);
    }
    if (!code)
        drop_mark(*text, size, head);
    free(header);
    if (r.fd >= 0)
        close(r.fd);
    if (code) {
        free(*text);
        *text = NULL;
    }
    return code;
}
