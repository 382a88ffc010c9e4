/* run_directory.c - the files of a run. They are replaced together (file_set.h); the checkpoint is
 *     magic[8]  version  size of the JSON text  size of the state  (8 bytes each, in the machine's order)
 *     JSON text  state  FNV-1a of all that comes before */
#include "run_directory.h"
#include "json_bytes.h"
#include "json_file.h"
#include "text.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

static const char *const run_files[] = {RUN_FILE,     DRAWS_FILE,  PARTICLES_FILE,  TRACE_FILE,
                                        HISTORY_FILE, RESULT_FILE, CHECKPOINT_FILE, NEXT_FILE};
enum { RUN_FILES = sizeof run_files / sizeof *run_files };

char *run_path(const char *dir, const char *file)
{
    size_t size = strlen(dir) + strlen(file) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", dir, file);
    return path;
}

static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory");
}

bool has_run_file(const char *dir, const char *file)
{
    char *path = run_path(dir, file);
    /* what cannot be looked at may be there: whoever opens it is told why */
    bool there = path && (!access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR));
    free(path);
    return there;
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */
static bool is_run_file(const char *name)
{
    for (size_t k = 0; k < RUN_FILES; k++)
        if (!strcmp(name, run_files[k]))
            return true;
    return false;
}

/* Whether something lies in the directory; what was left half-written does not count. */
static bool is_used(DIR *d)
{
    for (const struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !is_temporary(e->d_name, NULL))
            return true;
    return false;
}

/* Where files of a run are about to be written there must be nothing but files. */
static int check_files(const char *dir, failure *f)
{
    for (size_t k = 0; k < RUN_FILES; k++) {
        struct stat s;
        char *path = run_path(dir, run_files[k]);
        if (!path)
            return no_memory(f);
        bool other = !lstat(path, &s) && !S_ISREG(s.st_mode) && !S_ISLNK(s.st_mode);
        if (other)
            fail(f, EX_CANTCREAT, "%s is %s, expected a file of a run or nothing", path,
                 S_ISDIR(s.st_mode) ? "a directory" : "not a regular file");
        free(path);
        if (other)
            return f->code;
    }
    return 0;
}

/* Has it a run.json or a checkpoint? */
static bool is_run_directory(const char *dir)
{
    return has_run_file(dir, CHECKPOINT_FILE) || has_run_file(dir, RUN_FILE) || has_run_file(dir, NEXT_FILE);
}

const char *file_to_resume(const char *dir)
{
    return has_run_file(dir, NEXT_FILE) ? NEXT_FILE : CHECKPOINT_FILE;
}

const char *file_to_begin(const char *dir)
{
    return is_run_directory(dir) ? NEXT_FILE : CHECKPOINT_FILE;
}

/* Was it stopped by a limit, a signal or a crash? A run that has converged has nothing left to do,
 * and one of SVGD no checkpoint. */
static bool can_go_on(const char *dir)
{
    return has_run_file(dir, NEXT_FILE) ||
           (has_run_file(dir, CHECKPOINT_FILE) && (has_run_file(dir, RESULT_FILE) || !has_run_file(dir, RUN_FILE)));
}

/* A directory that is to be created needs one to be in. */
static int check_parent(const char *dir, failure *f)
{
    size_t length = strlen(dir);
    while (length && dir[length - 1] == '/')
        length--;
    while (length && dir[length - 1] != '/')
        length--;
    char *parent = length ? strndup(dir, length) : NULL;
    int code = parent && access(parent, F_OK) && errno == ENOENT
                   ? fail(f, EX_CANTCREAT, "cannot create %s: the directory %s does not exist", dir, parent)
                   : 0;
    free(parent);
    return code;
}

int check_run_directory(const char *dir, bool overwrite, failure *f)
{
    if (settle_run(dir, f))
        return f->code;
    DIR *d = opendir(dir);
    struct stat s;
    if (!d && errno == ENOENT && !*dir)
        return fail(f, EX_CANTCREAT, "--out is empty, expected the name of a directory");
    if (!d && errno == ENOENT && !lstat(dir, &s) && S_ISLNK(s.st_mode))
        return fail(f, EX_CANTCREAT, "%s is a broken link, expected a directory or nothing", dir);
    if (!d && errno == ENOENT)
        return check_parent(dir, f);
    if (!d && errno == ENOTDIR && !stat(dir, &s))
        return fail(f, EX_CANTCREAT, "%s is a file, expected a directory or nothing: choose another --out", dir);
    if (!d)
        return fail(f, EX_CANTCREAT, "cannot write to %s: %s", dir, strerror(errno));
    bool used = is_used(d), run = is_run_directory(dir);
    closedir(d);
    if (used && !run)
        return fail(f, EX_CANTCREAT, "%s is not empty and is not a run directory: choose another --out", dir);
    if (used && !overwrite)
        return fail(f, EX_CANTCREAT, "%s already holds a run: --overwrite replaces it%s%s%s", dir,
                    can_go_on(dir) ? ", wvgd fit --resume " : "", can_go_on(dir) ? dir : "",
                    can_go_on(dir) ? " continues it" : "");
    if (access(dir, W_OK | X_OK))
        return fail(f, EX_CANTCREAT, "cannot write to %s: %s", dir, strerror(errno));
    return check_files(dir, f);
}

void discard_run(const char *dir, const char *file, bool made)
{
    char *path = run_path(dir, file);
    if (path)
        unlink(path);
    free(path);
    if (made)
        rmdir(dir);
}

/* ---- one process at a time --------------------------------------------------------------------------------------- */
/* Opens and locks the directory. 0 or an errno; EWOULDBLOCK: another process has it. File systems without locks: 0. */
static int take_lock(const char *dir, int *lock)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return EWOULDBLOCK;
    }
    *lock = fd;
    return 0;
}

int settle_run(const char *dir, failure *f)
{
    const struct timespec pause = {0, 10000000};
    int lock = -1, error = EWOULDBLOCK;
    for (int i = 0; i < 500 && error == EWOULDBLOCK; i++) { /* who has the lock may be about to complete it */
        if (!*dir || !has_incomplete_files(dir))
            return 0;
        error = take_lock(dir, &lock);
        if (error == EWOULDBLOCK)
            nanosleep(&pause, NULL);
    }
    if (error)
        return fail(f, EX_CANTCREAT, "cannot complete the run in %s: %s", dir, strerror(error));
    int code = complete_files(dir, is_run_file, f);
    close(lock);
    return code;
}

int lock_run_directory(const char *dir, int *lock, failure *f)
{
    int error = take_lock(dir, lock);
    if (error == EWOULDBLOCK)
        return fail(f, EX_CANTCREAT, "another process is writing to %s", dir);
    if (error)
        return fail(f, error == ENOENT || error == ENOTDIR ? EX_NOINPUT : EX_CANTCREAT, "cannot open %s: %s", dir,
                    strerror(error));
    int code = complete_files(dir, is_run_file, f);
    if (!code)
        remove_leftovers(dir, NULL);
    return code;
}

void unlock_run_directory(int lock)
{
    flock(lock, LOCK_UN);
    close(lock);
}

int make_run_directory(const char *dir, bool overwrite, int *lock, bool *made, failure *f)
{
    *made = !mkdir(dir, 0777);
    if (!*made && errno != EEXIST)
        return fail(f, errno == ENOSPC || errno == EDQUOT ? EX_IOERR : EX_CANTCREAT, "cannot create %s: %s", dir,
                    strerror(errno));
    if (lock_run_directory(dir, lock, f))
        return f->code = EX_CANTCREAT;
    return *made ? 0 : check_run_directory(dir, overwrite, f); /* once more, now that nobody else can write to it */
}

run_stamp stamp_of_run(const char *dir)
{
    struct stat s;
    char *path = run_path(dir, RUN_FILE);
    bool there = path && !stat(path, &s);
    free(path);
    return there ? (run_stamp){s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec} : (run_stamp){0};
}

bool same_stamp(const run_stamp *a, const run_stamp *b)
{
    return a->file == b->file && a->size == b->size && a->second == b->second && a->nanosecond == b->nanosecond;
}

file_set set_of_run(const char *dir)
{
    return (file_set){.dir = dir, .whole = true};
}

bool belongs_to_run(const char *path)
{
    char *real = realpath(path, NULL), *copy = strdup(real ? real : path), *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        *slash = '\0';
    const char *name = slash ? slash + 1 : copy, *dir = !slash ? "." : slash == copy ? "/" : copy;
    bool belongs = name && is_run_file(name) && is_run_directory(dir);
    free(copy);
    free(real);
    return belongs;
}

int begin_other_file(whole_file *w, const char *path, failure *f)
{
    if (belongs_to_run(path))
        return fail(f, EX_CANTCREAT, "%s is a file of a run and would be overwritten: choose another file", path);
    return begin_file(w, path, f);
}

/* ---- checkpoint -------------------------------------------------------------------------------------------------- */
typedef struct {
    char magic[8];
    uint64_t version, text_size, state_size;
} header;

static const char magic[8] = "wvgdrun";
enum { VERSION = 2 };
static const uint64_t hash_start = 14695981039346656037u;

static uint64_t hash_bytes(uint64_t h, const void *data, size_t size)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

/* The same for many bytes: eight at a time. */
static uint64_t hash_words(uint64_t h, const char *data, size_t size)
{
    uint64_t word;
    size_t at = 0;
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, data + at, sizeof word);
        h = (h ^ word) * 1099511628211u;
        h ^= h >> 32; /* high bits of a word reach the low ones */
    }
    return hash_bytes(h, data + at, size - at);
}

int write_checkpoint(file_set *s, const char *file, const json_t *asked, const void *state, size_t size, failure *f)
{
    char *text = dump_json(asked, JSON_COMPACT | JSON_REAL_PRECISION(17));
    FILE *stream = text ? add_file(s, file, f) : NULL;
    int code = !text ? no_memory(f) : stream ? 0 : f->code;
    if (!code) {
        header h = {"", VERSION, strlen(text), size};
        memcpy(h.magic, magic, sizeof magic);
        uint64_t sum = hash_words(hash_bytes(hash_bytes(hash_start, &h, sizeof h), text, strlen(text)), state, size);
        fwrite(&h, sizeof h, 1, stream);
        fwrite(text, 1, strlen(text), stream);
        fwrite(state, 1, size, stream);
        fwrite(&sum, sizeof sum, 1, stream);
    }
    free(text);
    return code;
}

/* A whole file in memory, of *size bytes and a 0 after them. */
static int read_all(const char *path, char **bytes, size_t *size, failure *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat s;
    if (fd < 0)
        return fail(f, EX_NOINPUT, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &s) || !S_ISREG(s.st_mode)) {
        close(fd);
        return fail(f, EX_NOINPUT, "%s is not a regular file", path);
    }
    size_t have = 0, room = (size_t)s.st_size;
    char *b = malloc(room + 1);
    ssize_t got = 1;
    while (b && have < room && (got = read(fd, b + have, room - have)) > 0)
        have += (size_t)got;
    int error = errno;
    close(fd);
    if (!b)
        return fail(f, EX_SOFTWARE, "no memory for the %zu bytes of %s", room, path);
    if (got < 0) {
        free(b);
        return fail(f, EX_IOERR, "cannot read %s: %s", path, strerror(error));
    }
    b[have] = 0;
    *bytes = b;
    *size = have;
    return 0;
}

/* Takes a checkpoint apart. */
static int parse_checkpoint(const char *path, const char *bytes, size_t size, json_t **asked, void **state,
                            size_t *state_size, failure *f)
{
    header h;
    uint64_t sum;
    if (size < sizeof h + sizeof sum)
        return fail(f, EX_TEMPFAIL, "%s has %zu bytes, too few for a checkpoint", path, size);
    memcpy(&h, bytes, sizeof h);
    memcpy(&sum, bytes + size - sizeof sum, sizeof sum);
    size_t room = size - sizeof h - sizeof sum;
    if (memcmp(h.magic, magic, sizeof magic) || h.version != VERSION)
        return fail(f, EX_TEMPFAIL, "%s is not a checkpoint of this version of wvgd", path);
    if (h.text_size > room || h.state_size != room - h.text_size)
        return fail(f, EX_TEMPFAIL, "%s is damaged: its size of %zu bytes does not match its header", path, size);
    if (sum != hash_words(hash_bytes(hash_start, bytes, sizeof h + (size_t)h.text_size), bytes + sizeof h + h.text_size,
                          (size_t)h.state_size))
        return fail(f, EX_TEMPFAIL, "%s is damaged: its checksum does not match", path);
    json_t *json = json_loadb(bytes + sizeof h, (size_t)h.text_size, JSON_REJECT_DUPLICATES, NULL);
    void *copy = malloc((size_t)h.state_size + 1);
    if (!json_is_object(json) || !copy || unescape_json(json)) {
        json_decref(json);
        free(copy);
        return copy ? fail(f, EX_TEMPFAIL, "%s is damaged: its record of the run is not valid JSON", path)
                    : no_memory(f);
    }
    memcpy(copy, bytes + sizeof h + h.text_size, (size_t)h.state_size);
    *asked = json;
    *state = copy;
    *state_size = (size_t)h.state_size;
    return 0;
}

int read_checkpoint(const char *dir, const char *file, json_t **asked, void **state, size_t *size, failure *f)
{
    char *path = run_path(dir, file), *bytes = NULL;
    size_t length = 0;
    int code = path ? read_all(path, &bytes, &length, f) : no_memory(f);
    if (!code)
        code = parse_checkpoint(path, bytes, length, asked, state, size, f);
    free(bytes);
    free(path);
    return code;
}

uint64_t hash_text(const char *text)
{
    return hash_bytes(hash_start, text, strlen(text));
}

/* Opens a plain file; anything else could wait, or never end. Shares of rows may be those of a file of any size. */
static int open_plain(const char *path, int *fd, failure *f)
{
    struct stat s;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return fail(f, EX_NOINPUT, "cannot open %s: %s", path, strerror(errno));
    int code = 0;
    if (fstat(*fd, &s))
        code = fail(f, EX_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    else if (!S_ISREG(s.st_mode))
        code = fail(f, EX_NOINPUT, "cannot read %s: found %s, expected a file", path,
                    S_ISDIR(s.st_mode) ? "a directory" : "a pipe or a device");
    if (code)
        close(*fd);
    return code;
}

int hash_file(const char *path, uint64_t *hash, failure *f)
{
    int fd;
    char buffer[4096 - 256];
    ssize_t n = 0;
    if (open_plain(path, &fd, f))
        return f->code;
    *hash = hash_start;
    while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
        *hash = n > 0 ? hash_bytes(*hash, buffer, (size_t)n) : *hash;
    int code = n < 0 ? fail(f, EX_NOINPUT, "cannot read %s: %s", path, strerror(errno)) : 0;
    close(fd);
    return code;
}

/* ---- run.json ---------------------------------------------------------------------------------------------------- */
int write_run(file_set *s, const json_t *run, failure *f)
{
    char *text = dump_json(run, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    FILE *stream = text ? add_file(s, RUN_FILE, f) : NULL;
    int code = !text ? no_memory(f) : stream ? 0 : f->code;
    if (!code) {
        fputs(text, stream);
        putc('\n', stream);
    }
    free(text);
    return code;
}

/* What other commands rely on. */
static int check_run(const char *path, const json_t *run, failure *f)
{
    static const struct {
        const char *key, *inside; /* inside: a key in the object, or NULL */
        json_type type;
        const char *expected;
    } needed[] = {
        {"version", NULL, JSON_STRING, "a text"},
        {"model", "name", JSON_STRING, "a text"},
        {"model", "dim", JSON_INTEGER, "a whole number"},
        {"options", NULL, JSON_OBJECT, "an object"},
        {"stop", NULL, JSON_STRING, "a text"},
        {"evidence", "pelbo", JSON_OBJECT, "an object"},
        {"particles", NULL, JSON_ARRAY, "an array"},
        {"evidence", "importance", JSON_OBJECT, "an object"},
        {"posterior", "names", JSON_ARRAY, "an array"},
        {"diagnostics", "warnings", JSON_ARRAY, "an array"},
        {"verdict", "reasons", JSON_ARRAY, "an array"},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const json_t *value = json_object_get(run, needed[i].key);
        if (needed[i].inside)
            value = json_object_get(value, needed[i].inside);
        char where[64];
        snprintf(where, sizeof where, "%s%s%s", needed[i].key, needed[i].inside ? "." : "",
                 needed[i].inside ? needed[i].inside : "");
        if (!value || json_typeof(value) != needed[i].type)
            return refuse_json(path, where, value, needed[i].expected, f);
    }
    return 0;
}

static int parse_run(const char *path, const char *bytes, size_t size, json_t **run, failure *f)
{
    json_t *json;
    int code = parse_json(path, bytes, size, 0, &json, f);
    if (!code)
        code = unescape_json(json) ? no_memory(f) : check_run(path, json, f);
    if (code)
        json_decref(json);
    else
        *run = json;
    return code;
}

int find_run(const char *dir, failure *f)
{
    struct stat s;
    int missing = stat(dir, &s);
    if (missing && errno == ENOENT)
        return fail(f, EX_NOINPUT, "%s does not exist: expected a run directory, the --out of a fit", dir);
    if (!missing && !S_ISDIR(s.st_mode))
        return fail(f, EX_NOINPUT, "%s is not a directory: expected a run directory, the --out of a fit", dir);
    if (!missing && !is_run_directory(dir))
        return fail(f, EX_NOINPUT, "%s is not a run directory: it has neither " RUN_FILE " nor " CHECKPOINT_FILE, dir);
    return 0; /* or opening its files will tell */
}

int read_run(const char *dir, json_t **run, failure *f)
{
    char *bytes = NULL;
    size_t size = 0;
    if (settle_run(dir, f))
        return f->code;
    if (!has_run_file(dir, RUN_FILE) && has_run_file(dir, CHECKPOINT_FILE))
        return fail(f, EX_NOINPUT, "the run in %s has not finished: wvgd fit --resume %s continues it", dir, dir);
    if (find_run(dir, f))
        return f->code;
    char *path = run_path(dir, RUN_FILE);
    int code = path ? read_all(path, &bytes, &size, f) : no_memory(f);
    if (!code)
        code = parse_run(path, bytes, size, run, f);
    free(bytes);
    free(path);
    return code;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */
static void put_fields(FILE *stream, size_t n, const double *values)
{
    for (size_t i = 0; i < n; i++) {
        putc(',', stream);
        put_number(stream, values[i]);
    }
}

int write_particles(file_set *set, const wvgd_results *r, const char *const *names, failure *f)
{
    FILE *s = add_file(set, PARTICLES_FILE, f);
    if (!s)
        return f->code;
    fputs("particle,beta,beta_se,weight,log_Z,elbo,elbo_se,ess,pareto_k,gain,gain_se,loss,loss_se", s);
    for (size_t i = 0; i < r->D; i++) {
        putc(',', s);
        put_name(s, names[i]);
    }
    for (size_t j = 0; j < r->N; j++) {
        const double values[] = {r->beta[j], r->beta_se[j], r->weight[j],   r->log_Z[j],
                                 r->elbo[j], r->elbo_se[j], r->cell_ess[j], r->cell_pareto_k[j],
                                 r->gain[j], r->gain_se[j], r->loss[j],     r->loss_se[j]};
        fprintf(s, "\n%zu", j + 1);
        put_fields(s, sizeof values / sizeof *values, values);
        put_fields(s, r->D, r->z + j * r->D);
    }
    putc('\n', s);
    return 0;
}

int write_trace(file_set *set, size_t rows, size_t N, const wvgd_trace_row *row, const double *beta, failure *f)
{
    FILE *s = add_file(set, TRACE_FILE, f);
    if (!s)
        return f->code;
    fputs("iteration,evaluations,seconds,pelbo,distortion,ess", s);
    for (size_t j = 0; j < N; j++)
        fprintf(s, ",beta_%zu", j + 1);
    fputs(",pelbo_se,step\n", s);
    for (size_t k = 0; k < rows; k++) {
        fprintf(s, "%zu,%zu", row[k].iteration, row[k].evaluations);
        const double middle[] = {row[k].seconds, row[k].pelbo, row[k].distortion, row[k].ess},
                     last[] = {row[k].pelbo_se, row[k].step};
        put_fields(s, 4, middle);
        put_fields(s, N, beta + k * N);
        put_fields(s, 2, last);
        putc('\n', s);
    }
    return 0;
}
