/* start.c - where wvgd-mpi begins. Rank 0 runs the program as wvgd does. When it opens a model, it tells the other
 * ranks to open the same one; they know of nothing else, and neither print nor write. */
#define _GNU_SOURCE
#include "other_ranks.h"
#include "program.h"
#include "ranks.h"
#include "say.h"
#include "sha256.h"
#include "split.h"
#include "watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

enum { QUIT, OPEN };

/* ---- what is to be opened, as text --------------------------------------------------------------------------------
 */
typedef struct {
    unsigned long long seed;
    unsigned threads;
    unsigned what; /* QUIT or OPEN */
    size_t size;   /* of the text that follows: name, data, text, program, and the options; each "" or "=..." and a NUL
                    * */
} order;

static void put_text(FILE *to, const char *text)
{
    fprintf(to, "%s%s%c", text ? "=" : "", text ? text : "", '\0');
}

/* The next text, or NULL. */
static const char *take_text(const char **at)
{
    const char *text = *at;
    *at += strlen(text) + 1;
    return *text ? text + 1 : NULL;
}

static char *write_request(const model_request *q, order *o)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, &o->size);
    if (!to)
        return NULL;
    put_text(to, q->name);
    put_text(to, q->data);
    put_text(to, q->text);
    put_text(to, q->program);
    for (unsigned i = 0; describe_model_option(i); i++)
        put_text(to, q->option ? q->option[i] : NULL);
    o->seed = q->seed;
    o->threads = q->threads;
    o->what = OPEN;
    if (!fclose(to))
        return text;
    free(text);
    return NULL;
}

static row_shares shares_of(ranks *r)
{
    return (row_shares){(unsigned)r->rank, (unsigned)r->count, ranks_gather, r, false};
}

/* ---- what a rank has opened ---------------------------------------------------------------------------------------
 */
typedef struct {
    failure f; /* code 0: it has opened a model, and the rest is of that */
    size_t dim;
    bool gradient, batched;
    char data[SHA256_TEXT]; /* of its data file; "": none, or ranks have shares of it, which have been compared */
} opened;

static opened describe(const failure *f, const wvgd_model *m, const char *data, bool shares)
{
    opened o = {.f = *f};
    struct stat about;
    failure ignored;
    if (f->code)
        return o;
    o.dim = m->dim;
    o.gradient = m->has_gradient;
    o.batched = m->batched;
    if (shares || !data || stat(data, &about) || !S_ISREG(about.st_mode) || sha256_file(data, o.data, &ignored))
        o.data[0] = '\0';
    return o;
}

/* Has rank k opened what rank 0 has? */
static int compare_opened(const opened *mine, const opened *other, int k, failure *f)
{
    if (other->f.code)
        return fail(f, other->f.code, "rank %d: %.900s", k, other->f.text);
    if (mine->dim != other->dim)
        return fail(f, EX_DATAERR, "the model has %zu parameters on rank %d and %zu on rank 0: expected the same model",
                    other->dim, k, mine->dim);
    if (mine->gradient != other->gradient || mine->batched != other->batched)
        return fail(f, EX_DATAERR, "the model on rank %d is not that of rank 0: expected the same model", k);
    if (strcmp(mine->data, other->data))
        return fail(f, EX_DATAERR, "the data file on rank %d is not that of rank 0: expected the same file", k);
    return 0;
}

/* ---- the other ranks ----------------------------------------------------------------------------------------------
 */
static int pass_begin(void *self, const model_request *request, failure *f)
{
    (void)self, (void)request, (void)f;
    return 0;
}

/* What answers batches is the model as threads share it. */
typedef struct {
    wvgd_model model;
    bool summed;
} kept;

static int keep_inner(void *self, const wvgd_model *inner, bool summed, const wvgd_model *prior, wvgd_model *outer,
                      failure *f)
{
    kept *k = self;
    (void)outer, (void)f, (void)prior;
    *k = (kept){*inner, summed};
    return 0;
}

static void pass_cancel(void *self)
{
    (void)self;
}

static const char *no_reason(void *self, bool *model)
{
    (void)self, (void)model;
    return NULL;
}

static int open_told(const order *o, const char *at, const model_wrapper *keep, opened_model *model, const char **data,
                     failure *f)
{
    unsigned n = 0;
    while (describe_model_option(n))
        n++;
    const char **option = calloc(n + 1, sizeof *option);
    if (!option)
        return fail(f, EX_SOFTWARE, "no memory for the options of the model");
    model_request q = {.threads = o->threads, .seed = o->seed, .option = option, .wrapper = keep};
    q.name = take_text(&at);
    *data = q.data = take_text(&at);
    q.text = take_text(&at);
    q.program = take_text(&at);
    for (unsigned i = 0; i < n; i++)
        option[i] = take_text(&at);
    int code = open_model(&q, model, f);
    free(option);
    return code;
}

/* Opens a model, says whether that went well, and answers batches. */
static void serve(ranks *r, const order *o, const char *text)
{
    kept inner = {0};
    row_shares shares = shares_of(r);
    model_wrapper keep = {pass_begin, keep_inner, pass_cancel, no_reason, &inner, &shares};
    opened_model model;
    const char *data = NULL;
    failure f = {0};
    int code = open_told(o, text, &keep, &model, &data, &f);
    if (code && shares.lost) { /* others do not know of it, and may wait */
        fprintf(stderr, "%s: %s\n", program_name, f.text);
        syscall(SYS_exit_group, EX_SOFTWARE);
    }
    opened here = describe(&f, &inner.model, data, inner.summed);
    ranks_send(r, 0, &here, sizeof here, MPI_BYTE);
    if (split_serve(code ? NULL : &inner.model, r)) {
        fprintf(stderr, "%s: no memory for batches\n", program_name);
        syscall(SYS_exit_group, EX_SOFTWARE);
    }
    close_model(&model);
}

static int serve_all(ranks *r)
{
    static char name[40];
    snprintf(name, sizeof name, "wvgd: rank %d", r->rank);
    program_name = name;
    for (;;) {
        order o;
        ranks_idle(r, &o, sizeof o, MPI_BYTE);
        if (o.what == QUIT)
            return 0;
        char *text = malloc(o.size);
        if (!text)
            return EX_SOFTWARE;
        ranks_idle(r, text, o.size, MPI_BYTE);
        guard_exit(true);
        serve(r, &o, text);
        guard_exit(false);
        free(text);
    }
}

/* ---- rank 0 -------------------------------------------------------------------------------------------------------
 */
static program_ranks mine;
static row_shares mine_shares;
static const char *mine_data; /* while a model is opened */

static void show_waiting(void *self, int rank, double seconds)
{
    (void)self;
    if (mine.display)
        show_rank(mine.display, rank, seconds);
}

static void end_here(void *self, const char *text)
{
    (void)self;
    if (mine.display)
        hide_progress(mine.display);
    say("%s", text);
    syscall(SYS_exit_group, EX_SOFTWARE);
}

static void note_cores(const ranks *r, unsigned threads)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), all = (long)r->local * (long)threads;
    if (cores > 0 && all > cores)
        say("warning: %d ranks x %u threads = %ld on a machine with %ld cores, expected at most %ld: use fewer ranks, "
            "or fewer --threads",
            r->local, threads, all, cores, cores);
}

static int begin(void *self, const model_request *request, failure *f)
{
    ranks *r = self;
    order o = {0};
    char *text = write_request(request, &o);
    int code = text ? 0 : fail(f, EX_SOFTWARE, "no memory to send the model to other ranks");
    r->timeout = mine.timeout;
    mine_data = request->data;
    note_cores(r, request->threads);
    for (int k = 1; k < r->count && !code; k++)
        if (ranks_send(r, k, &o, sizeof o, MPI_BYTE) || ranks_send(r, k, text, o.size, MPI_BYTE))
            code = fail(f, EX_SOFTWARE, "%s", r->text);
    free(text);
    return code;
}

/* Whether the others have opened it, too. here: what this rank has opened; NULL: nothing. */
static int hear_others(ranks *r, const opened *here, failure *f)
{
    opened other;
    int code = 0;
    for (int k = 1; k < r->count && !r->lost; k++) {
        if (ranks_receive(r, k, &other, sizeof other, MPI_BYTE))
            return fail(f, EX_SOFTWARE, "%s", r->text);
        if (here && !code)
            code = compare_opened(here, &other, k, f);
    }
    return code;
}

static void end_all(ranks *r)
{
    for (int k = 1; k < r->count; k++)
        split_end(r, k);
}

static void cancel(void *self)
{
    failure ignored;
    ranks *r = self;
    r->lost = r->lost || mine_shares.lost;
    hear_others(r, NULL, &ignored);
    end_all(r);
}

static int wrap(void *self, const wvgd_model *inner, bool summed, const wvgd_model *prior, wvgd_model *outer,
                failure *f)
{
    opened here = describe(&(failure){0}, inner, mine_data, summed);
    int code = hear_others(self, &here, f);
    if (!code && split_open(outer, inner, summed, prior, self))
        code = fail(f, EX_SOFTWARE, "no memory to share batches with other ranks");
    if (code)
        end_all(self);
    return code;
}

static const char *why(void *self, bool *model)
{
    const ranks *r = self;
    *model = !r->lost;
    return r->text[0] ? r->text : NULL;
}

static int lead(ranks *r, int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), each = cores / r->local;
    mine = (program_ranks){.threads = (unsigned)(each > 1 ? each < 4096 ? each : 4096 : 1),
                           .wrapper = {begin, wrap, cancel, why, r, &mine_shares}};
    mine_shares = shares_of(r);
    r->waiting = show_waiting;
    r->end = end_here;
    if (r->count > 1)
        other_ranks = &mine;
    return run_program(argc, argv);
}

/* The program may end by exit, as after --help of a command. */
static ranks *open_ranks; /* NULL: they have been closed */
static pid_t opener;      /* processes that a model has started close nothing */

static void close_ranks(void)
{
    ranks *r = open_ranks;
    const order quit = {.what = QUIT};
    if (!r || r->lost || opener != getpid()) /* MPI would wait for a rank that hangs */
        return;
    open_ranks = NULL;
    for (int k = 1; !r->rank && k < r->count && !r->lost; k++)
        ranks_send(r, k, &quit, sizeof quit, MPI_BYTE);
    if (r->lost)
        return;
    MPI_Finalize();
    watch_done();
}

int main(int argc, char **argv)
{
    static ranks r;
    int level;
    watch_begin();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    ranks_open(&r);
    watch_rank(r.rank);
    open_ranks = &r;
    opener = getpid();
    if (atexit(close_ranks)) /* before what refuses that models exit: that comes first then */
        return EX_SOFTWARE;
    prepare_program();
    int code = r.rank ? serve_all(&r) : lead(&r, argc, argv);
    fflush(NULL);
    close_ranks();
    if (r.lost)
        syscall(SYS_exit_group, code);
    return code;
}
