/* test_row_shares.c - rows of a table in shares, K threads standing for K processes. It would find a row that is cut or
 * read twice, a line number, level, mean or message that differs from those of one process, and a sum over shares that
 * is not the log density of all rows. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#undef fail /* ours takes arguments */
#undef fail_msg
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>
#include "model_data.h"
#include "open_model.h"
#include "near.h"
#include "test_random.h"

enum { MOST = 7 };
static char directory[] = "/tmp/wvgd_test_shares_XXXXXX";
static char path[128];

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/data.csv", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static void write_file(const char *content)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fputs(content, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- threads that gather ----------------------------------------------------------------------------------------- */
typedef struct {
    pthread_barrier_t barrier;
    unsigned count;
    const void *mine[MOST];
    size_t sizes[MOST];
} meeting;

typedef struct {
    meeting *all;
    unsigned rank;
} member;

static int gather(void *self, const void *mine, size_t size, char **all, size_t *sizes)
{
    member *m = self;
    meeting *g = m->all;
    size_t total = 0, at = 0;
    g->mine[m->rank] = mine;
    g->sizes[m->rank] = size;
    pthread_barrier_wait(&g->barrier);
    for (unsigned k = 0; k < g->count; k++)
        total += sizes[k] = g->sizes[k];
    *all = malloc(total + 1);
    for (unsigned k = 0; *all && k < g->count; at += sizes[k++])
        memcpy(*all + at, g->mine[k], sizes[k]);
    pthread_barrier_wait(&g->barrier);
    return *all ? 0 : -1;
}

typedef struct {
    pthread_t thread;
    row_shares shares;
    member member;
    void (*work)(void *self, unsigned rank, row_shares *shares);
    void *self;
} process;

static void *run_process(void *self)
{
    process *p = self;
    p->work(p->self, p->member.rank, &p->shares);
    return NULL;
}

static void on_all(unsigned count, void (*work)(void *self, unsigned rank, row_shares *shares), void *self)
{
    meeting g = {.count = count};
    process p[MOST];
    pthread_barrier_init(&g.barrier, NULL, count);
    for (unsigned k = 0; k < count; k++) {
        p[k] = (process){.member = {&g, k}, .work = work, .self = self};
        p[k].shares = (row_shares){k, count, gather, &p[k].member, false};
        assert_int_equal(pthread_create(&p[k].thread, NULL, run_process, &p[k]), 0);
    }
    for (unsigned k = 0; k < count; k++)
        pthread_join(p[k].thread, NULL);
    pthread_barrier_destroy(&g.barrier);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */
typedef struct {
    csv_file csv[MOST];
    failure f[MOST];
} tables;

static void open_part(void *self, unsigned rank, row_shares *shares)
{
    tables *t = self;
    open_csv_share(path, 0, shares, &t->csv[rank], &t->f[rank]);
}

/* The rows of all shares, one after the other, are those of the file. */
static void compare_rows(const csv_file *whole, const csv_file *part, unsigned count)
{
    size_t row = 0;
    for (unsigned k = 0; k < count; k++) {
        assert_int_equal(part[k].columns, whole->columns);
        assert_int_equal(part[k].all_rows, whole->rows);
        for (size_t i = 0; i < part[k].rows; i++, row++) {
            assert_true(row < whole->rows);
            assert_int_equal(part[k].line[i], whole->line[row]);
            for (size_t c = 0; c < whole->columns; c++)
                assert_string_equal(find_field(&part[k], i, c), find_field(whole, row, c));
        }
    }
    assert_int_equal(row, whole->rows);
}

static void compare_csv(const char *content)
{
    write_file(content);
    for (unsigned count = 1; count <= MOST; count += 3) {
        csv_file whole;
        failure f = {0};
        static tables t;
        memset(&t, 0, sizeof t);
        int code = open_csv(path, 0, &whole, &f);
        on_all(count, open_part, &t);
        for (unsigned k = 0; k < count; k++) {
            assert_int_equal(t.f[k].code, code);
            if (code)
                assert_string_equal(t.f[k].text, f.text);
        }
        if (!code)
            compare_rows(&whole, t.csv, count);
        close_csv(&whole);
        for (unsigned k = 0; k < count; k++)
            close_csv(&t.csv[k]);
    }
}

static void cuts_at_rows(void **state)
{
    (void)state;
    static const char *const files[] = {
        "a,b\n1,2\n3,4\n5,6\n",
        "a,b\n1,2",
        "a,b\r\n1,2\r\n3,4\r\n5,6\r\n7,8",
        "a,b\r1,2\r3,4\r",
        "\n\na,b\n\n1,2\n\n\n3,4\n\n",
        ("\xEF\xBB\xBF"
         "a;b\n1;2\n3;4\n"),
        ("\xEF\xBB\xBF"
         "\r\n\"a\",b\r\n1,2\r\n3,4\r\n"),
        "a,b\n\"x\ny\nz\",2\n\"\"\"\n\"\"\n\",4\n\"long\n\n\n\n\n\n\n\nfield\",5\n",
        "\"a\nb\",c\n1,2\n3,4\n",
        "a,b\n",
        "a,b",
        "",
        "\n\n", /* no rows */
        "a,b\n1,2\n3\n4,5\n",
        "a,b\n1,2\n3,4,5\n6\n",
        "a,b\n1,2,3\n",
        "a,b\n1,2\n3,4\n5,6\n7,8,9\n", /* fields */
        "a,b\n1,2\n3,\"4\n5,6\n7,8\n",
        "a,b\n1,2\n3,4\"5\n6,7\n8,\"9\"\n10,11\n", /* quotes */
        "a,a\n1,2\n",
        "1,2\n3,4\n",
        ",b\n1,2\n",
        "{\"a\": 1}", /* headers */
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        compare_csv(files[i]);
}

/* Random files of few characters: quotes and line ends everywhere, half of them wrong. */
static void cuts_random_files(void **state)
{
    (void)state;
    static const char *const pieces[] = {"1", ",",        "\n",       "\"",    "\"\"", "\r\n",
                                         "x", "\"a\nb\"", ",\"\n\",", "2,3\n", "4,5\r"};
    test_random random = test_random_seed(5);
    for (int round = 0; round < 25; round++) {
        char text[400] = "a,b\n";
        size_t n = (size_t)(test_random_uniform(&random) * 40);
        for (size_t i = 0; i < n; i++)
            strcat(text, pieces[(size_t)(test_random_uniform(&random) * 11)]);
        compare_csv(text);
    }
}

/* ---- one rank has another file ----------------------------------------------------------------------------------- */
typedef struct {
    const char *other; /* of rank 1 */
    failure f[MOST];
} disagreement;

static void open_other(void *self, unsigned rank, row_shares *shares)
{
    disagreement *d = self;
    csv_file csv;
    open_csv_share(rank == 1 ? d->other : path, 0, shares, &csv, &d->f[rank]);
}

/* All ranks end, and say the same. */
static void refuse_other(const char *other, int code, const char *text)
{
    disagreement d = {.other = other};
    on_all(3, open_other, &d);
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(d.f[k].code, code);
        assert_non_null(strstr(d.f[k].text, text));
        assert_string_equal(d.f[k].text, d.f[0].text);
    }
}

static void files_are_the_same(void **state)
{
    (void)state;
    char other[sizeof directory + 8];
    snprintf(other, sizeof other, "%s/other", directory);
    write_file("a,b\n1,2\n3,4\n");
    refuse_other(other, EX_NOINPUT, "No such file"); /* only rank 1 lacks it */
    refuse_other(directory, EX_NOINPUT, "directory");
    FILE *file = fopen(other, "wb");
    assert_non_null(file);
    fputs("a,b\n1,2\n3,45\n", file);
    fclose(file);
    refuse_other(other, EX_DATAERR, "has 13 bytes on rank 1 and 12 on rank 0");
    assert_non_null(file = fopen(other, "wb"));
    fputs("a,c\n1,2\n3,4\n", file);
    fclose(file);
    refuse_other(other, EX_DATAERR, "and another header");
    unlink(other);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */
typedef struct {
    const char *name;
    const char *option[8]; /* "target=y", "standardize" */
} asked;

typedef struct {
    const asked *asked;
    size_t n;
    const double *z;
    double *log_p, *grad; /* [n], [n][D] sums */
    size_t D;
    opened_model model[MOST];
    wvgd_model inner[MOST], prior[MOST];
    failure f[MOST];
    int code[MOST];
} models;

static int pass_begin(void *self, const model_request *request, failure *f)
{
    (void)self, (void)request, (void)f;
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

typedef struct {
    wvgd_model *inner, *prior;
} kept;

static int keep(void *self, const wvgd_model *inner, bool summed, const wvgd_model *prior, wvgd_model *outer,
                failure *f)
{
    const kept *k = self;
    (void)outer, (void)f;
    *k->inner = *inner;
    if (summed && prior)
        *k->prior = *prior;
    return 0;
}

static void open_with(models *m, unsigned rank, row_shares *shares)
{
    const char *option[64] = {NULL};
    kept k = {&m->inner[rank], &m->prior[rank]};
    model_wrapper w = {pass_begin, keep, pass_cancel, no_reason, &k, shares};
    for (size_t i = 0; i < 8 && m->asked->option[i]; i++)
        for (unsigned o = 0; describe_model_option(o); o++) {
            size_t length = strcspn(m->asked->option[i], "=");
            const char *name = describe_model_option(o)->name, *value = m->asked->option[i] + length;
            if (strlen(name) == length && !strncmp(name, m->asked->option[i], length))
                option[o] = *value ? value + 1 : "";
        }
    for (unsigned o = 0; describe_model_option(o); o++)
        if (!strcmp(describe_model_option(o)->name, "shard"))
            option[o] = "rows";
    model_request q = {.name = m->asked->name, .data = path, .option = option, .threads = 1, .wrapper = &w};
    m->code[rank] = open_model(&q, &m->model[rank], &m->f[rank]);
}

static void open_share(void *self, unsigned rank, row_shares *shares)
{
    open_with(self, rank, shares);
}

/* The log density of all rows at z, from those of the shares. */
static void sum_models(models *m, unsigned count)
{
    size_t D = m->D = m->inner[0].dim, all = m->n * (D + 1);
    double *one = calloc(all, sizeof *one);
    memset(m->log_p, 0, m->n * sizeof *m->log_p);
    memset(m->grad, 0, m->n * D * sizeof *m->grad);
    for (unsigned k = 0; k < count; k++)
        for (int prior = 0; prior <= (k > 0); prior++) {
            const wvgd_model *from = prior ? &m->prior[k] : &m->inner[k];
            assert_int_equal(from->log_density(from->self, m->n, m->z, one, one + m->n), 0);
            for (size_t i = 0; i < m->n; i++)
                m->log_p[i] += prior ? -one[i] : one[i];
            for (size_t i = 0; i < m->n * D; i++)
                m->grad[i] += prior ? -one[m->n + i] : one[m->n + i];
        }
    free(one);
}

static void close_models(models *m, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        close_model(&m->model[k]);
}

static void same_text(const char *a, const char *b)
{
    assert_string_equal(a ? a : "", b ? b : "");
}

static void compare_facts(const opened_model *a, const opened_model *b)
{
    assert_int_equal(a->facts->rows, b->facts->rows);
    assert_int_equal(a->response.rows, b->response.rows);
    assert_int_equal(a->response.dropped, b->response.dropped);
    assert_string_equal(a->response.sha256, b->response.sha256);
    same_text(a->hints, b->hints);
    same_text(a->warnings, b->warnings);
    assert_int_equal(a->facts->columns, b->facts->columns);
    for (int k = 0; k < 2; k++)
        same_text(a->facts->label[k], b->facts->label[k]);
    for (size_t c = 0; c < a->facts->columns; c++) {
        assert_string_equal(a->facts->names[c], b->facts->names[c]);
        if (!a->facts->mean)
            continue;
        assert_near(a->facts->mean[c], b->facts->mean[c], 1e-12 * fabs(a->facts->mean[c]) + 1e-14);
        assert_near(a->facts->sd[c], b->facts->sd[c], 1e-12 * a->facts->sd[c]);
    }
}

/* Whatever one process says of a table, K of them say, too; and the log density is the same. */
static void compare_model(const asked *q)
{
    enum { N = 5, ROOM = 64 };
    static double z[N * ROOM], p[2][N], g[2][N * ROOM];
    test_random random = test_random_seed(9);
    for (size_t i = 0; i < N * ROOM; i++)
        z[i] = 2 * test_random_uniform(&random) - 1;
    models *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);
    *one = (models){.asked = q, .n = N, .z = z, .log_p = p[0], .grad = g[0]};
    open_with(one, 0, NULL);
    for (unsigned count = 2; count <= MOST; count += 5) {
        memset(many, 0, sizeof *many);
        *many = (models){.asked = q, .n = N, .z = z, .log_p = p[1], .grad = g[1]};
        on_all(count, open_share, many);
        for (unsigned k = 0; k < count; k++) {
            assert_int_equal(many->code[k], one->code[0]);
            if (one->code[0])
                assert_string_equal(many->f[k].text, one->f[0].text);
            else
                compare_facts(&one->model[0], &many->model[k]);
        }
        if (!one->code[0]) {
            assert_true(one->inner[0].dim <= ROOM);
            sum_models(one, 1);
            sum_models(many, count);
            for (size_t i = 0; i < N; i++)
                assert_near(p[1][i], p[0][i], 1e-12 * fabs(p[0][i]));
            for (size_t i = 0; i < N * one->D; i++)
                assert_near(g[1][i], g[0][i], 1e-10 * fabs(g[0][i]) + 1e-10);
        }
        close_models(many, count);
    }
    close_models(one, 1);
    free(one);
    free(many);
}

/* Rows of two numbers, a boolean and a category, and a response. kind 0: real, 1: labels, 2: numbers, two of them. */
static void write_table(size_t rows, int kind, const char *more)
{
    static char text[20000];
    static const char *const level[] = {"red", "green", "\"dark, blue\"", "\"two\nlines\""};
    test_random random = test_random_seed(3);
    size_t at = (size_t)sprintf(text, "u,v,flag,colour,y\n");
    for (size_t i = 0; i < rows; i++) {
        double u = test_random_uniform(&random), v = test_random_uniform(&random),
               y = u - v + test_random_uniform(&random);
        at += (size_t)sprintf(text + at, "%.3f,%s,%s,%s,", 100 + u,
                              i % 9 == 4 ? "NA"
                              : v > 0.5  ? "1"
                                         : "0.25",
                              v > 0.3 ? "yes" : "No", level[(size_t)(4 * test_random_uniform(&random))]);
        at += kind ? (size_t)sprintf(text + at, "%s\n",
                                     kind == 1 ? (y > 0.4 ? "sick" : "Well")
                                     : y > 0.4 ? "2"
                                               : "1.0")
                   : (size_t)sprintf(text + at, "%.4f\n", y);
    }
    strcpy(text + at, more);
    write_file(text);
}

static void sums_are_models(void **state)
{
    (void)state;
    static const asked models_asked[] = {{"linear", {"missing=drop", "standardize"}},
                                         {"linear", {"missing=drop", "prior-sd=3", "no-intercept", "ignore=colour"}},
                                         {"logistic", {"missing=drop", "standardize"}},
                                         {"logistic", {"missing=drop", "features=u,flag"}},
                                         {"bnn", {"missing=drop", "standardize", "hidden=3"}},
                                         /* in conflict with their priors */
                                         {"linear", {"missing=drop", "prior-sd=0.001", "features=v", "no-intercept"}},
                                         {"logistic", {"missing=drop", "prior-sd=1000"}}};
    for (int kind = 0; kind < 3; kind++) {
        write_table(60, kind, "");
        for (size_t i = 0; i < sizeof models_asked / sizeof *models_asked; i++)
            compare_model(&models_asked[i]); /* some are refused: linear with words, logistic with numbers */
    }
    write_table(150, 0, ""); /* more than are compared with the prior */
    compare_model(&models_asked[5]);
    write_table(30, 0, ""); /* with seven shares some have four rows */
    compare_model(&models_asked[0]);
}

/* Rows with counts k of n, a weight w, and a place whose levels come late in the file. */
static void write_counts(size_t rows, const char *more)
{
    test_random random = test_random_seed(4);
    char text[8000];
    size_t at = (size_t)sprintf(text, "u,v,place,w,n,k,y\n");
    for (size_t i = 0; i < rows; i++) {
        double u = test_random_uniform(&random);
        int n = 1 + (int)(9 * test_random_uniform(&random)), k = (int)((n + 1) * u);
        at += (size_t)sprintf(text + at, "%.3f,%d,%s,%.1f,%d,%d,%s\n", 50 + u, (int)(4 * test_random_uniform(&random)),
                              i % 7 == 3     ? ""
                              : i < rows / 2 ? "north"
                              : i % 2        ? "\"south, far\""
                                             : "east",
                              test_random_uniform(&random), n, k, i % 3 ? "no" : "yes");
    }
    strcpy(text + at, more);
    write_file(text);
}

#define GLM(likelihood, formula, ...)                                                                                  \
    {                                                                                                                  \
        "glm",                                                                                                         \
        {                                                                                                              \
            "missing=drop", "likelihood=" likelihood, "formula=" formula, __VA_ARGS__                                  \
        }                                                                                                              \
    }
static const asked generalised[] = {
    GLM("gaussian", "u ~ v + place", NULL),
    GLM("gaussian", "log(u) ~ poly(u,3) + scale(v):place", NULL),
    GLM("gaussian", "u ~ 0 + place*v", "weights=w"),
    GLM("student", "sqrt(u) ~ factor(v) + offset(w)", NULL),
    GLM("bernoulli", "y ~ u + I(scale(v)^2)", NULL),
    GLM("bernoulli", "y ~ poly(v,2)", "weights=w"),
    GLM("binomial", "k | trials(n) ~ u + place", NULL),
    GLM("binomial", "cbind(k, n) ~ poly(u,2)", "weights=w"),
    GLM("poisson", "k ~ u + offset(log(n))", NULL),
    GLM("poisson", "k ~ . - y - n", "weights=w"),
    GLM("negbinomial", "k ~ scale(u, scale = FALSE) + place", NULL),
    GLM("negbinomial", "n ~ 1", "prior=intercept=normal(0, 1)"),
    GLM("gaussian", "u ~ v + offset(n)", "prior=intercept=normal(1000, 1)"), /* in conflict with its prior */
    GLM("poisson", "k ~ poly(v,5)", NULL),                                   /* these are refused */
    GLM("gaussian", "w ~ log(v)", NULL),
    GLM("gaussian", "u ~ scale(I(0*v))", NULL),
    GLM("bernoulli", "place ~ u", NULL),
    GLM("bernoulli", "v ~ u", NULL),
    GLM("poisson", "w ~ u", NULL),
    GLM("binomial", "n | trials(k) ~ u", NULL),
    GLM("gaussian", "I(0*u) ~ v", NULL),
    GLM("gaussian", "u ~ place", "weights=place"),
    GLM("gaussian", "u ~ nowhere", NULL),
    GLM("poisson", "k ~ u +", NULL),
};

static void formulas_are_models(void **state)
{
    (void)state;
    static const char *const more[] = {"", "50,-1,north,0,2,1,no\n", "50.5,1,x,0,3,3,maybe\n", "51,1,west,-1,2,5,no\n"};
    for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
        write_counts(50, more[k]);
        for (size_t i = 0; i < sizeof generalised / sizeof *generalised; i++)
            compare_model(&generalised[i]);
    }
    write_counts(4, "50,1,north,1,2,1,no\n50.3,2,south,1,2,1,no\n"); /* some shares have no rows */
    for (size_t i = 0; i < sizeof generalised / sizeof *generalised; i++)
        compare_model(&generalised[i]);
}

static void messages_are_the_same(void **state)
{
    (void)state;
    static const asked any[] = {{"linear", {NULL}},
                                {"logistic", {NULL}},
                                {"logistic", {"missing=drop"}},
                                {"linear", {"missing=drop"}},
                                {"bnn", {"missing=drop"}},
                                {"linear", {"target=none"}},
                                {"linear", {"features=u,nothing", "ignore=v"}},
                                {"linear", {"delimiter=x"}},
                                {"linear", {"missing=drop", "ignore=y"}},
                                {"logistic", {"missing=drop", "target=u"}}};
    static const char *const more[] = {
        "",
        "1,2,yes,red,3\n",                     /* a third label */
        "1,2,maybe,red,3\n1,2,no,,4\n",        /* not all boolean; a missing category */
        "1,0x10,no,red,3\n1e999,1,no,red,3\n", /* broken numbers */
        "1,2,no,a,3\n1,2,no,b,3\n1,2,no,c,3\n1,2,no,d,1\n1,2,no,e,1\n1,2,no,f,1\n1,2,no,g,1\n1,2,no,h,1\n", /* levels */
        "1,2,no,red,Sick\n", /* labels that differ only in case */
        "1,2,no,red\n",      /* a field is missing */
    };
    static const char *const whole[] = {
        "a,b,y\n1,2020-01-02,3\n2,2020-01-03,4\n3,2020-02-02,5\n", /* dates */
        "a,b,y\n1,k,3\n1,k,4\n1,k,5\n1,k,6\n",                     /* constants */
        "a,y\n1,3\n2,3\n3,3\n",                                    /* a constant target */
        "a,y\n1,p\n2,p\n3,p\n",
        "a,y\n1,NA\n2,\n,3\n",                                                           /* nothing is left */
        "a,y\n1,0\n2,1\n3,1\n4,0\n",                                                     /* hints */
        "a,b,y\n1,x,1\n2,7,2\n3,x,3\n4,7,4\n5,x,2\n6,7,1\n1,x,1\n2,7,2\n3,x,3\n4,7,4\n", /* mixed */
    };
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
        for (size_t k = 0; k < sizeof more / sizeof *more; k++)
            for (int kind = 0; kind < 2; kind++) {
                write_table(40, kind, more[k]);
                compare_model(&any[i]);
            }
        for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) {
            write_file(whole[k]);
            compare_model(&any[i]);
        }
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
enum { ROWS = 60000, COLUMNS = 40 };

static void write_numbers(void)
{
    test_random g = test_random_seed(1);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int c = 0; c < COLUMNS; c++)
        fprintf(file, "x%d,", c);
    fputs("y\n", file);
    for (int i = 0; i < ROWS; i++) {
        for (int c = 0; c < COLUMNS; c++)
            fprintf(file, "%.6f,", test_random_uniform(&g));
        fprintf(file, "%d\n", i % 3 == 0);
    }
    assert_int_equal(fclose(file), 0);
}

static void read_part(void *self, unsigned rank, row_shares *shares)
{
    failure f;
    (void)rank;
    if (read_regression(path, &(table_options){.shares = shares}, TARGET_LABELS, self, &f))
        _exit(2);
}

/* In a process of its own: by how many bytes reading raises the most that it has had. */
static long raise_memory(regression_data *part)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    on_all(1, read_part, part);
    getrusage(RUSAGE_SELF, &after);
    return (after.ru_maxrss - before.ru_maxrss) * 1024;
}

/* Less than text and numbers, or numbers twice: what has been read goes while the rest is converted. */
static void reads_numbers_in_little_memory(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it keeps what is freed */
#endif
    const long numbers = (long)sizeof(double) * ROWS * COLUMNS;
    int status = 0;
    write_numbers();
    pid_t child = fork();
    if (!child) {
        regression_data part, whole;
        failure f;
        long raised = raise_memory(&part);
        if (read_regression(path, &(table_options){0}, TARGET_LABELS, &whole, &f))
            _exit(2);
        bool same = part.rows == whole.rows && part.columns == whole.columns &&
                    !memcmp(part.X, whole.X, sizeof(double) * part.rows * part.columns) &&
                    !memcmp(part.y, whole.y, sizeof(double) * part.rows);
        free_regression(&part);
        free_regression(&whole);
        _exit(!same ? 3 : raised > numbers * 3 / 2 ? 4 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_numbers_in_little_memory),
        cmocka_unit_test(cuts_at_rows),
        cmocka_unit_test(cuts_random_files),
        cmocka_unit_test(files_are_the_same),
        cmocka_unit_test(sums_are_models),
        cmocka_unit_test(formulas_are_models),
        cmocka_unit_test(messages_are_the_same),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
