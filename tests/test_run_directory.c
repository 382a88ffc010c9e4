/* test_run_directory.c - files that appear whole or not at all, numbers that come back with the same bits,
 * damaged checkpoints, runs that are replaced. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "run_directory.h" /* before cmocka, which has a macro called fail */
#include "run_json.h"
#include "write.h"
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/wvgd_test_XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    static const char *const files[] = {RUN_FILE,     DRAWS_FILE,  PARTICLES_FILE, TRACE_FILE,
                                        HISTORY_FILE, RESULT_FILE, NEXT_FILE,      CHECKPOINT_FILE};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        discard_run(dir, files[i], true);
    return access(dir, F_OK) ? 0 : -1; /* nothing else was left in it */
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static void assert_spelled(double value)
{
    char text[64] = "", expected[64];
    FILE *s = fmemopen(text, sizeof text, "w");
    assert_non_null(s);
    put_number(s, value);
    fclose(s);
    snprintf(expected, sizeof expected, "%.17g", value);
    assert_string_equal(text, expected);
}

/* As printf does, to the last digit: sizes of all kinds, powers of ten and their neighbours, short decimals, whole
 * numbers, and binary fractions whose 17 digits end in a half. */
static void numbers_are_spelled_as_printf_does(void **state)
{
    enum { N = 20000 };
    uint64_t bits = 1;
    (void)state;
    for (int k = -6; k < 18; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double power =
                strtod((const char *[]){"1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1",    "1e1",
                                        "1e2",  "1e3",  "1e4",  "1e5",  "1e6",  "1e7",  "1e8",  "1e9",
                                        "1e10", "1e11", "1e12", "1e13", "1e14", "1e15", "1e16", "1e17"}[k + 6],
                       NULL);
            assert_spelled(sign * power);
            assert_spelled(sign * nextafter(power, 0));
            assert_spelled(sign * nextafter(power, INFINITY));
        }
    for (int i = 0; i < N; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double whole = (double)(bits >> 11), part = (double)(bits >> 40);
        assert_spelled(exp(whole / 0x1p53 * 50 - 12));
        assert_spelled(-part / 1000);
        assert_spelled(floor(whole / 1024));
        assert_spelled(ldexp(whole, -(int)(bits % 66)));
        assert_spelled(ldexp(2 * floor(whole / 512) + 1, -1 - (int)(bits % 12)));
    }
    assert_spelled(0.0);
    assert_spelled(-0.0);
    assert_spelled(DBL_MIN / 3);
    assert_spelled(DBL_MAX);
}

static void put(const char *file, const char *text)
{
    char *path = run_path(dir, file);
    FILE *s = fopen(path, "wb");
    assert_non_null(s);
    fputs(text, s);
    fclose(s);
    free(path);
}

static size_t get(const char *file, char *text, size_t size)
{
    char *path = run_path(dir, file);
    FILE *s = fopen(path, "rb");
    free(path);
    if (!s)
        return SIZE_MAX;
    size_t n = fread(text, 1, size - 1, s);
    text[n] = 0;
    fclose(s);
    return n;
}

static void drop(const char *file)
{
    char *path = run_path(dir, file);
    unlink(path);
    free(path);
}

/* Temporary files in the directory; *one gets the path of one of them, to be freed. */
static size_t count_temporary(char **one)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (is_temporary(e->d_name, NULL) && !n++ && one)
            *one = run_path(dir, e->d_name);
    closedir(d);
    return n;
}

/* ---- whole files ------------------------------------------------------------------------------------------------- */
static void old_file_stays_until_the_new_one_is_whole(void **state)
{
    (void)state;
    failure f;
    whole_file w;
    char text[100], *path = run_path(dir, RUN_FILE);
    put(RUN_FILE, "old");
    assert_int_equal(begin_file(&w, path, &f), 0);
    fputs("new", w.stream);
    fflush(w.stream);
    get(RUN_FILE, text, sizeof text);
    assert_string_equal(text, "old");
    abandon_file(&w);
    get(RUN_FILE, text, sizeof text);
    assert_string_equal(text, "old");
    assert_int_equal(begin_file(&w, path, &f), 0);
    fputs("new", w.stream);
    assert_int_equal(finish_file(&w, &f), 0);
    get(RUN_FILE, text, sizeof text);
    assert_string_equal(text, "new");
    assert_int_equal(count_temporary(NULL), 0);
    free(path);
}

static void devices_are_written_not_replaced(void **state)
{
    (void)state;
    failure f;
    whole_file w;
    struct stat s;
    assert_int_equal(begin_file(&w, "/dev/null", &f), 0);
    fputs("gone", w.stream);
    assert_int_equal(finish_file(&w, &f), 0);
    assert_int_equal(stat("/dev/null", &s), 0);
    assert_true(S_ISCHR(s.st_mode));
    if (access("/dev/full", W_OK))
        return;
    assert_int_equal(begin_file(&w, "/dev/full", &f), 0);
    fputs("no room", w.stream);
    assert_int_equal(finish_file(&w, &f), EX_IOERR);
}

static void links_stay_links(void **state)
{
    (void)state;
    failure f;
    whole_file w;
    struct stat s;
    char text[100], *path = run_path(dir, TRACE_FILE);
    put(RUN_FILE, "old");
    assert_int_equal(symlink(RUN_FILE, path), 0);
    assert_int_equal(begin_file(&w, path, &f), 0);
    fputs("new", w.stream);
    assert_int_equal(finish_file(&w, &f), 0);
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    get(RUN_FILE, text, sizeof text);
    assert_string_equal(text, "new");
    free(path);
}

static void impossible_places(void **state)
{
    (void)state;
    failure f;
    whole_file w;
    assert_int_equal(begin_file(&w, "/nowhere/at/all", &f), EX_CANTCREAT);
    assert_non_null(strstr(f.text, "/nowhere/at/all"));
    assert_int_equal(begin_file(&w, dir, &f), EX_CANTCREAT); /* a directory */
}

static void names_in_csv(void **state)
{
    (void)state;
    static const struct {
        const char *name, *field;
    } cases[] = {{"beta.1", "beta.1"},
                 {"a,b", "\"a,b\""},
                 {"say \"x\"", "\"say \"\"x\"\"\""},
                 {"two\nlines", "two_lines"},
                 {"", "\"\""},
                 {"#1", "\"#1\""},
                 {"c\xc2\x9bm", "c_m"},
                 {"\xc3\xa4\xc2\xa0", "\xc3\xa4\xc2\xa0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t size;
        FILE *s = open_memstream(&text, &size);
        put_name(s, cases[i].name);
        fclose(s);
        assert_string_equal(text, cases[i].field);
        free(text);
    }
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */
static void when_a_directory_may_be_used(void **state)
{
    (void)state;
    failure f;
    assert_int_equal(check_run_directory(dir, false, &f), 0); /* empty */
    put(".checkpoint.wvgd-0123456789abcdef", "left by a run that was killed");
    assert_int_equal(check_run_directory(dir, false, &f), 0);
    drop(".checkpoint.wvgd-0123456789abcdef");
    put("letter.txt", "not ours");
    assert_int_equal(check_run_directory(dir, true, &f), EX_CANTCREAT);
    assert_non_null(strstr(f.text, "is not a run directory"));
    drop("letter.txt");
    put(CHECKPOINT_FILE, "x");
    assert_int_equal(check_run_directory(dir, false, &f), EX_CANTCREAT);
    assert_non_null(strstr(f.text, "--overwrite"));
    assert_int_equal(check_run_directory(dir, true, &f), 0);
    assert_int_equal(check_run_directory("/dev/null", true, &f), EX_CANTCREAT);
    assert_int_equal(check_run_directory("", false, &f), EX_CANTCREAT);
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    failure f;
    int first, second;
    bool made;
    put(RUN_FILE, "{}");
    assert_int_equal(make_run_directory(dir, true, &first, &made, &f), 0);
    assert_false(made);
    assert_true(has_run_file(dir, RUN_FILE)); /* of the run that is being replaced: until the new one has ended */
    assert_int_equal(lock_run_directory(dir, &second, &f), EX_CANTCREAT);
    close(first);
    assert_int_equal(lock_run_directory(dir, &second, &f), 0);
    close(second);
}

static void content_is(const char *file, const char *expected)
{
    char text[100] = "";
    size_t n = get(file, text, sizeof text);
    if (!expected)
        assert_int_equal(n, SIZE_MAX);
    else
        assert_string_equal(text, expected);
}

/* Adds a file to a set. */
static void add(file_set *set, const char *file, const char *text)
{
    failure f;
    FILE *s = add_file(set, file, &f);
    assert_non_null(s);
    fputs(text, s);
}

/* A run that has ended replaces another, of which one file goes and one moves. */
static file_set stage_run(void)
{
    failure f;
    file_set set = set_of_run(dir);
    add(&set, RUN_FILE, "run 2");
    add(&set, DRAWS_FILE, "draws 2");
    assert_int_equal(add_move(&set, NEXT_FILE, CHECKPOINT_FILE, &f), 0);
    add_removal(&set, RESULT_FILE);
    return set;
}

static void put_old_run(void)
{
    put(RUN_FILE, "run 1");
    put(CHECKPOINT_FILE, "state 1");
    put(DRAWS_FILE, "draws 1");
    put(RESULT_FILE, "result 1");
    put(NEXT_FILE, "state 2");
}

static void content_is_new(void)
{
    content_is(RUN_FILE, "run 2");
    content_is(DRAWS_FILE, "draws 2");
    content_is(CHECKPOINT_FILE, "state 2");
    content_is(NEXT_FILE, NULL);
    content_is(RESULT_FILE, NULL);
    assert_int_equal(count_temporary(NULL), 0);
}

static void files_of_a_run_come_together(void **state)
{
    (void)state;
    failure f;
    put_old_run();
    file_set set = stage_run();
    run_stamp before = stamp_of_run(dir), after;
    content_is(RUN_FILE, "run 1");
    abandon_files(&set);
    after = stamp_of_run(dir);
    assert_true(same_stamp(&before, &after));
    content_is(RUN_FILE, "run 1");
    content_is(NEXT_FILE, "state 2");
    assert_int_equal(count_temporary(NULL), 0);
    set = stage_run();
    assert_int_equal(commit_files(&set, &f), 0);
    content_is_new();
    after = stamp_of_run(dir);
    assert_false(same_stamp(&before, &after));
}

/* A process that was killed between two renames: the list is there, and some of it was done. */
static void what_was_begun_is_completed(void **state)
{
    (void)state;
    failure f;
    json_t *run = NULL;
    int lock;
    for (int done = 0; done < 4; done++)
        for (int reader = 0; reader < 2; reader++) {
            put_old_run();
            put(".wvgd-commit", "wvgd commit 1\nmove .run.json.wvgd-0123456789abcdef run.json\n"
                                "move .draws.csv.wvgd-0123456789abcdef draws.csv\nmove checkpoint.next checkpoint\n"
                                "remove result\nend\n");
            put(done > 0 ? RUN_FILE : ".run.json.wvgd-0123456789abcdef", "run 2");
            put(done > 1 ? DRAWS_FILE : ".draws.csv.wvgd-0123456789abcdef", "draws 2");
            if (done > 2) {
                put(CHECKPOINT_FILE, "state 2");
                drop(NEXT_FILE);
            }
            if (reader)
                assert_int_equal(read_run(dir, &run, &f), EX_DATAERR); /* "run 2" is no JSON */
            else {
                assert_int_equal(lock_run_directory(dir, &lock, &f), 0);
                close(lock);
            }
            content_is_new();
        }
}

static void lists_of_others_are_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "",
        "wvgd commit 1\n",
        "wvgd commit 2\nremove draws.csv\nend\n",
        "wvgd commit 1\nremove draws.csv\n", /* cut short */
        "wvgd commit 1\nremove draws.csv\nremove ../letter.txt\nend\n",
        "wvgd commit 1\nremove draws.csv\nremove letter.txt\nend\n",
        "wvgd commit 1\nremove draws.csv\nmove letter.txt run.json\nend\n",
        "wvgd commit 1\nremove draws.csv\nmove run.json letter.txt\nend\n",
        "wvgd commit 1\nremove draws.csv\nmove /etc/passwd run.json\nend\n",
        "wvgd commit 1\nremove draws.csv\nmove\nend\n",
        "wvgd commit 1\nremove draws.csv\nrun letter.txt\nend\n",
    };
    failure f;
    json_t *run = NULL;
    put_old_run();
    put("letter.txt", "not ours");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        put(".wvgd-commit", lists[i]);
        assert_int_equal(read_run(dir, &run, &f), EX_DATAERR);
        assert_non_null(strstr(f.text, ".wvgd-commit"));
        content_is(DRAWS_FILE, "draws 1");
        content_is("letter.txt", "not ours");
    }
    drop(".wvgd-commit");
    drop("letter.txt");
}

static void a_new_run_waits_beside_the_old_one(void **state)
{
    (void)state;
    assert_string_equal(file_to_begin(dir), CHECKPOINT_FILE);
    assert_string_equal(file_to_resume(dir), CHECKPOINT_FILE);
    put(RUN_FILE, "run 1");
    assert_string_equal(file_to_begin(dir), NEXT_FILE);
    assert_string_equal(file_to_resume(dir), CHECKPOINT_FILE);
    put(NEXT_FILE, "state 2");
    assert_string_equal(file_to_begin(dir), NEXT_FILE);
    assert_string_equal(file_to_resume(dir), NEXT_FILE);
    discard_run(dir, NEXT_FILE, false);
    content_is(NEXT_FILE, NULL);
    content_is(RUN_FILE, "run 1");
}

/* What a killed process has left goes; what a living one writes, and what only looks like it, stays. */
static void leftovers_go_and_others_stay(void **state)
{
    (void)state;
    static const char *const left[] = {".draws.csv.wvgd-0123456789abcdef", ".draws.csv.wvgd-fedcba9876543210"},
                             *const stay[] = {".draws.csv.wvgd-0123456789ABCDEF", ".draws.csv.wvgd-0123456789abcde",
                                              "draws.csv.wvgd-0123456789abcdef",  ".draws.csv.wvgd-0123456789abcdef~",
                                              ".mine.csv.wvgd-0123456789abcdef",  "draws.csv.partial"};
    failure f;
    char text[100], *living = NULL, *path = run_path(dir, DRAWS_FILE);
    file_set set = {.dir = dir};
    add(&set, DRAWS_FILE, "one");
    assert_int_equal(count_temporary(&living), 1);
    for (size_t i = 0; i < 2; i++)
        put(left[i], "left");
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        put(stay[i], "mine");
    whole_file w;
    assert_int_equal(begin_file(&w, path, &f), 0); /* a second writer of the same file */
    fputs("two", w.stream);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(get(left[i], text, sizeof text), SIZE_MAX);
    assert_int_equal(access(living, F_OK), 0);
    assert_int_equal(commit_files(&set, &f), 0);
    content_is(DRAWS_FILE, "one");
    assert_int_equal(finish_file(&w, &f), 0);
    content_is(DRAWS_FILE, "two");
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        content_is(stay[i], "mine");
        drop(stay[i]);
    }
    free(living);
    free(path);
}

/* The longest name that a file can have. */
static void long_names(void **state)
{
    (void)state;
    failure f;
    char name[256];
    whole_file w;
    memset(name, 'n', 255);
    name[255] = '\0';
    char *path = run_path(dir, name);
    assert_int_equal(begin_file(&w, path, &f), 0);
    fputs("text", w.stream);
    assert_int_equal(finish_file(&w, &f), 0);
    content_is(name, "text");
    drop(name);
    free(path);
}

static void places_that_are_not_files(void **state)
{
    (void)state;
    static const char *const files[] = {RUN_FILE, DRAWS_FILE, NEXT_FILE};
    failure f;
    put(CHECKPOINT_FILE, "x");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = run_path(dir, files[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(check_run_directory(dir, true, &f), EX_CANTCREAT);
        assert_non_null(strstr(f.text, files[i]));
        assert_non_null(strstr(f.text, "a directory"));
        assert_int_equal(rmdir(path), 0);
        free(path);
    }
    char *link = run_path(dir, TRACE_FILE);
    assert_int_equal(symlink("/nowhere/at/all", link), 0);
    assert_int_equal(check_run_directory(link, false, &f), EX_CANTCREAT);
    assert_non_null(strstr(f.text, "is a broken link"));
    free(link);
}

static void files_that_belong_to_a_run(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        bool belongs;
    } cases[] = {
        {DRAWS_FILE, true}, {RESULT_FILE, true}, {NEXT_FILE, true}, {"mine.csv", false}, {"draws.csv.bak", false}};
    for (int run = 0; run < 2; run++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char *path = run_path(dir, cases[i].file);
            assert_int_equal(belongs_to_run(path), run && cases[i].belongs); /* whether it is there or not */
            free(path);
        }
        put(CHECKPOINT_FILE, "x");
    }
    put(DRAWS_FILE, "x");
    char *link = run_path(dir, "link"), *target = run_path(dir, DRAWS_FILE);
    assert_int_equal(symlink(target, link), 0);
    assert_true(belongs_to_run(link));
    assert_false(belongs_to_run("no_such_file"));
    assert_false(belongs_to_run("/no_such_file"));
    assert_false(belongs_to_run(""));
    unlink(link);
    free(link);
    free(target);
}

/* ---- checkpoint -------------------------------------------------------------------------------------------------- */
static void checkpoint_comes_back(void **state)
{
    (void)state;
    failure f;
    json_t *asked = json_pack("{s:s, s:f}", "command", "wvgd fit \xc3\xa4", "number", 0.1), *back = NULL;
    const char bytes[] = {0, 1, 2, (char)255, 0, 7};
    void *got = NULL;
    size_t size = 0;
    file_set set = set_of_run(dir);
    assert_int_equal(write_checkpoint(&set, CHECKPOINT_FILE, asked, bytes, sizeof bytes, &f), 0);
    assert_int_equal(commit_files(&set, &f), 0);
    assert_int_equal(read_checkpoint(dir, CHECKPOINT_FILE, &back, &got, &size, &f), 0);
    assert_int_equal(size, sizeof bytes);
    assert_memory_equal(got, bytes, size);
    assert_true(json_equal(asked, back));
    free(got);
    json_decref(back);
    json_decref(asked);
    assert_int_equal(read_checkpoint(dir, RESULT_FILE, &back, &got, &size, &f), EX_NOINPUT);
}

/* Every length shorter than the whole, and every byte changed: refused, with nothing allocated
 * left behind (the sanitizers look). */
static void damaged_checkpoints_are_refused(void **state)
{
    (void)state;
    failure f;
    json_t *asked = json_pack("{s:s}", "command", "wvgd fit"), *back = NULL;
    void *got = NULL;
    size_t size, length;
    char whole[500], *path = run_path(dir, CHECKPOINT_FILE);
    file_set set = set_of_run(dir);
    assert_int_equal(write_checkpoint(&set, CHECKPOINT_FILE, asked, "0123456789", 10, &f), 0);
    assert_int_equal(commit_files(&set, &f), 0);
    json_decref(asked);
    length = get(CHECKPOINT_FILE, whole, sizeof whole);
    for (size_t k = 0; k < 2 * length; k++) {
        FILE *s = fopen(path, "wb");
        if (k < length)
            fwrite(whole, 1, k, s);
        else {
            whole[k - length] = (char)(whole[k - length] ^ 0x81);
            fwrite(whole, 1, length, s);
            whole[k - length] = (char)(whole[k - length] ^ 0x81);
        }
        fclose(s);
        assert_int_equal(read_checkpoint(dir, CHECKPOINT_FILE, &back, &got, &size, &f), EX_TEMPFAIL);
    }
    free(path);
}

/* ---- run.json ---------------------------------------------------------------------------------------------------- */
enum { N = 2, D = 2, DRAWS = 5 };
static double z[N * D] = {0.1, -1.0 / 3, 1e300, DBL_MIN}, none[N] = {0, 0}, beta[N] = {0.7, 0.3},
                    tiny[N] = {DBL_TRUE_MIN, 1e-5}, mixed[N] = {-INFINITY, -2.5}, missing[N] = {NAN, 0.2},
                    sd[N * D] = {1, 2, 3, 4};

static wvgd_results example(void)
{
    return (wvgd_results){.N = N,
                          .D = D,
                          .stop = WVGD_CONVERGED,
                          .iterations = 12,
                          .evaluations = 3456,
                          .z = z,
                          .beta = beta,
                          .beta_se = tiny,
                          .weight = beta,
                          .log_Z = mixed,
                          .elbo = mixed,
                          .elbo_se = missing,
                          .cell_ess = beta,
                          .cell_pareto_k = missing,
                          .gain = missing,
                          .gain_se = missing,
                          .loss = missing,
                          .loss_se = missing,
                          .mu = z,
                          .limit = none,
                          .sd = sd,
                          .pelbo = {-12.345678901234567, 0.01},
                          .pelbo_beta = {-13, 0.01},
                          .evidence = {-12.1, 0.02},
                          .distortion = {2, 0.1},
                          .ess = 4.5,
                          .closing_draws = DRAWS,
                          .pareto_k = 0.2,
                          .pareto_k_limit = 0.7,
                          .meanfield_gap = NAN,
                          .starts = 20,
                          .modes = 2};
}

/* Draws 1..5 and their negatives; weights 0.1, 0.2, 0.4, 0.2, 0.1. */
static json_t *run_of(const wvgd_results *r)
{
    static const char *const names[D] = {"up", "down"};
    static const double value[DRAWS * D] = {1, -1, 2, -2, 3, -3, 4, -4, 5, -5},
                                      weight[DRAWS] = {0.1, 0.2, 0.4, 0.2, 0.1};
    shown_draws draws = {
        .n = DRAWS, .columns = D, .names = names, .value = value, .weight = weight, .calibrated = weight};
    json_t *asked = json_pack("{s:s, s:s, s:s, s:{s:s, s:i}, s:{}}", "version", "0", "id", "0123456789abcdef",
                              "command", "wvgd fit", "model", "name", "m", "dim", D, "options");
    json_t *run = run_json(asked, NULL, r, &draws);
    json_decref(asked);
    assert_non_null(run);
    return run;
}

static double at(const json_t *array, size_t i)
{
    return json_number_value(json_array_get(array, i));
}

static void same_bits(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

static void put_run(const json_t *run)
{
    failure f;
    file_set set = set_of_run(dir);
    assert_int_equal(write_run(&set, run, &f), 0);
    assert_int_equal(commit_files(&set, &f), 0);
}

static void numbers_come_back_bit_for_bit(void **state)
{
    (void)state;
    failure f;
    wvgd_results r = example();
    json_t *run = run_of(&r), *back = NULL;
    put_run(run);
    assert_int_equal(read_run(dir, &back, &f), 0);
    assert_true(json_equal(run, back));
    for (size_t j = 0; j < N; j++) {
        const json_t *p = json_array_get(json_object_get(back, "particles"), j);
        for (size_t i = 0; i < D; i++)
            same_bits(at(json_object_get(p, "z"), i), z[j * D + i]);
        same_bits(json_number_value(json_object_get(p, "beta_se")), tiny[j]);
    }
    const json_t *first = json_array_get(json_object_get(back, "particles"), 0);
    assert_true(json_is_null(json_object_get(first, "elbo")) &&
                json_is_null(json_object_get(first, "pareto_k"))); /* no such numbers in JSON */
    same_bits(json_number_value(json_object_get(json_object_get(json_object_get(back, "evidence"), "pelbo"), "value")),
              r.pelbo.value);
    json_decref(run);
    json_decref(back);
}

/* Quantiles of hundreds of draws, half of which repeat others, with uneven weights, some zero: at least the level
 * lies at or below each, and less than it below. */
static void quantiles_are_where_the_weight_is(void **state)
{
    (void)state;
    enum { MANY = 500, COLUMNS = 3 };
    static const char *const keys[] = {"q5", "q50", "q95"};
    static const double levels[] = {0.05, 0.5, 0.95};
    const char *names[COLUMNS] = {"a", "b", "c"};
    double value[MANY * COLUMNS], weight[MANY], total = 0;
    for (size_t i = 0; i < MANY; i++) {
        weight[i] = i % 11 ? pow(sin(1.3 * (double)i), 4) : 0;
        total += weight[i];
        value[i * COLUMNS] = sin(2.7 * (double)i);
        value[i * COLUMNS + 1] = floor(10 * sin(0.9 * (double)i));
        value[i * COLUMNS + 2] = (double)i;
    }
    for (size_t i = 0; i < MANY; i++)
        weight[i] /= total;
    shown_draws draws = {
        .n = MANY, .columns = COLUMNS, .names = names, .value = value, .weight = weight, .calibrated = weight};
    wvgd_results r = example();
    json_t *asked = json_object(), *run = run_json(asked, NULL, &r, &draws);
    for (size_t k = 0; k < 3; k++)
        for (size_t c = 0; c < COLUMNS; c++) {
            double q = at(json_object_get(json_object_get(run, "posterior"), keys[k]), c), below = 0, up_to = 0;
            for (size_t i = 0; i < MANY; i++) {
                below += value[i * COLUMNS + c] < q ? weight[i] : 0;
                up_to += value[i * COLUMNS + c] <= q ? weight[i] : 0;
            }
            assert_true(below < levels[k] + 1e-12 && up_to >= levels[k] - 1e-12);
        }
    json_decref(asked);
    json_decref(run);
}

/* By hand: mean 3, variance 0.1*4 + 0.2*1 + 0 + 0.2 + 0.4 = 1.2, mcse^2 = 2*(0.1*2)^2 + 2*(0.2*1)^2 = 0.16, ESS
 * 1.2/0.16 = 7.5; quantiles: the first value at which the running weight reaches 0.05, 0.5, 0.95. */
static void moments_and_quantiles_of_weighted_draws(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        double up, down;
    } expected[] = {{"mean", 3, -3},    {"sd", 1.0954451150103321, 1.0954451150103321},
                    {"mcse", 0.4, 0.4}, {"ess", 5, 5},
                    {"q5", 1, -5},      {"q50", 3, -3},
                    {"q95", 5, -1}};
    wvgd_results r = example();
    json_t *run = run_of(&r);
    const json_t *p = json_object_get(run, "posterior");
    assert_string_equal(json_string_value(json_array_get(json_object_get(p, "names"), 1)), "down");
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
        assert_float_equal(at(json_object_get(p, expected[k].key), 0), expected[k].up, 1e-12);
        assert_float_equal(at(json_object_get(p, expected[k].key), 1), expected[k].down, 1e-12);
    }
    json_decref(run);
}

/* Modes, the heaviest first, with the particles and the moments that belong to them. */
static void modes_are_listed(void **state)
{
    (void)state;
    static const char *const names[] = {"same", "x", "y", "far", "z"};
    static const double value[] = {1, 1, 5, 100, 0, 3, 3, 6, 100, 0, 1, 7, 9, -100, 0, 3, 9, 9, -102, 0},
                        weight[] = {0.1, 0.1, 0.6, 0.2}, mass[] = {0.2, 0.8, 0, 0.01, 0.02, 0};
    static const size_t mode[] = {0, 0, 1, 1, 1, 0}; /* of four draws, then of the particles */
    shown_draws draws = {.n = 4,
                         .columns = 5,
                         .names = names,
                         .value = value,
                         .weight = weight,
                         .calibrated = weight,
                         .mode = mode,
                         .mass = mass};
    wvgd_results r = example();
    r.modes = 3;
    json_t *asked = json_object(), *run = run_json(asked, NULL, &r, &draws);
    const json_t *each = json_object_get(json_object_get(run, "modes"), "each"), *first = json_array_get(each, 0),
                 *second = json_array_get(each, 1);
    assert_int_equal(json_array_size(each), 3);
    assert_true(json_number_value(json_object_get(first, "mass")) == 0.8 &&
                json_number_value(json_object_get(first, "mass_se")) == 0.02);
    assert_true(json_number_value(json_object_get(second, "mass")) == 0.2 &&
                json_number_value(json_object_get(second, "mass_se")) == 0.01);
    assert_int_equal(json_array_size(json_object_get(first, "particles")), 1);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(first, "particles"), 0)), 1);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "particles"), 0)), 2);
    assert_true(fabs(json_number_value(json_array_get(json_object_get(first, "mean"), 1)) - 7.5) < 1e-12);
    assert_true(fabs(json_number_value(json_array_get(json_object_get(first, "sd"), 1)) - sqrt(0.75)) < 1e-12);
    assert_true(fabs(json_number_value(json_array_get(json_object_get(second, "mean"), 2)) - 5.5) < 1e-12);
    assert_true(json_is_null(json_array_get(json_object_get(json_array_get(each, 2), "mean"), 0)));
    json_decref(run);
    json_decref(asked);
}

/* What the fit knows better than its weighted draws is taken; quantiles and effective sizes stay theirs. */
static void known_moments_are_taken(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"};
    const double value[] = {1, 10, 2, 20, 3, 30}, weight[] = {0.25, 0.5, 0.25},
                 known[] = {2.125, 20.5, 4, 9, 0.01, 0.02};
    shown_draws draws = {
        .n = 3, .columns = 2, .names = names, .value = value, .weight = weight, .calibrated = weight, .known = known};
    wvgd_results r = example();
    json_t *asked = json_object(), *run = run_json(asked, NULL, &r, &draws);
    const json_t *p = json_object_get(run, "posterior");
    for (size_t c = 0; c < 2; c++) {
        assert_float_equal(at(json_object_get(p, "mean"), c), known[c], 0.0);
        assert_float_equal(at(json_object_get(p, "sd"), c), sqrt(known[2 + c]), 0.0);
        assert_float_equal(at(json_object_get(p, "mcse"), c), known[4 + c], 0.0);
        assert_float_equal(at(json_object_get(p, "q50"), c), (c ? 20.0 : 2.0), 0.0);
        assert_float_equal(at(json_object_get(p, "ess"), c), 3, 1e-9); /* variance 1/2 over 2 (1/4)^2: of 3 draws */
    }
    json_decref(asked);
    json_decref(run);
}

/* Generated quantities may be constant, or 1 in a few draws of little weight: no spread out of rounding errors, and
 * not more effective draws than draws. */
static void constant_and_discrete_quantities(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    static const char *const names[] = {"constant", "rare"};
    double value[2 * MANY], weight[MANY], sum = 0, known[] = {0.1, 0.002, 1e-20, -1e-9, 1e-12, 1e-5};
    size_t mode[MANY + 2] = {0};
    const double mass[] = {1, 0, 0};
    for (size_t i = 0; i < MANY; i++) {
        value[2 * i] = 0.1;
        value[2 * i + 1] = i < 10;
        sum += weight[i] = i < 10 ? 0.01 : 1;
    }
    for (size_t i = 0; i < MANY; i++)
        weight[i] /= sum;
    shown_draws draws = {MANY, 2, names, value, weight, weight, NULL, NULL, mode, mass};
    wvgd_results r = example();
    r.modes = 1;
    for (draws.known = NULL;; draws.known = known) {
        json_t *asked = json_object(), *run = run_json(asked, NULL, &r, &draws);
        const json_t *p = json_object_get(run, "posterior"),
                     *only = json_array_get(json_object_get(json_object_get(run, "modes"), "each"), 0);
        assert_true(at(json_object_get(p, "mean"), 0) == 0.1 && at(json_object_get(only, "mean"), 0) == 0.1);
        assert_true(at(json_object_get(p, "sd"), 0) == 0 && at(json_object_get(only, "sd"), 0) == 0);
        assert_true(json_is_real(json_array_get(json_object_get(p, "sd"), 0)));
        assert_true(at(json_object_get(p, "mcse"), 0) == 0);
        assert_true(at(json_object_get(p, "sd"), 1) > 0);
        for (size_t c = 0; c < 2; c++)
            assert_true(at(json_object_get(p, "ess"), c) > 0 && at(json_object_get(p, "ess"), c) <= MANY);
        json_decref(asked);
        json_decref(run);
        if (draws.known)
            break;
    }
}

static void verdict_is_that_of_the_results(void **state)
{
    (void)state;
    static const char *const reason[] = {"first", "second"};
    wvgd_results r = example();
    r.reasons = 2;
    r.reason = reason;
    for (int reliable = 0; reliable < 2; reliable++) {
        r.reliable = reliable;
        json_t *run = run_of(&r), *v = json_object_get(run, "verdict"), *reasons = json_object_get(v, "reasons");
        assert_int_equal(json_is_true(json_object_get(v, "reliable")), reliable);
        assert_int_equal(json_array_size(reasons), 2);
        assert_string_equal(json_string_value(json_array_get(reasons, 1)), "second");
        json_decref(run);
    }
}

static void modes_that_may_be_missing(void **state)
{
    (void)state;
    wvgd_results r = example();
    r.expected_unseen = 0.375;
    json_t *run = run_of(&r), *m = json_object_get(run, "modes");
    assert_float_equal(json_number_value(json_object_get(m, "expected_unseen")), 0.375, 1e-12);
    assert_int_equal(json_integer_value(json_object_get(m, "starts")), 20);
    json_decref(run);
    r.expected_unseen = NAN;
    run = run_of(&r);
    assert_true(json_is_null(json_object_get(json_object_get(run, "modes"), "expected_unseen")));
    json_decref(run);
}

static void texts_that_are_not_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *in_file;
    } texts[] = {{"caf\xe9", "bytes:caf%E9"},
                 {"caf\xc3\xa9 100%", "caf\xc3\xa9 100%"},
                 {"\xc3\xa9\xe9%E9", "bytes:\xc3\xa9%E9%25E9"},
                 {"bytes:", "bytes:bytes:"},
                 {"\xed\xa0\x80\xc0\xaf", "bytes:%ED%A0%80%C0%AF"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *text = json_text(texts[i].bytes), *object = json_pack("{s:[o]}", "path", text),
               *plain = json_pack("{s:[s]}", "path", texts[i].in_file);
        char *written = dump_json(object, JSON_COMPACT), *expected = json_dumps(plain, JSON_COMPACT);
        json_t *back = json_loads(written, 0, NULL);
        assert_string_equal(json_string_value(text), texts[i].bytes); /* untouched by writing */
        assert_string_equal(written, expected);
        assert_int_equal(unescape_json(back), 0);
        assert_true(json_equal(back, object));
        json_decref(object);
        json_decref(plain);
        json_decref(back);
        free(written);
        free(expected);
    }
    json_t *odd = json_pack("[s,s,s]", "bytes:%0", "bytes:%00x", "bytes:%zz%"); /* nobody writes these */
    assert_int_equal(unescape_json(odd), 0);
    assert_string_equal(json_string_value(json_array_get(odd, 0)), "%0");
    assert_string_equal(json_string_value(json_array_get(odd, 1)), "%00x");
    assert_string_equal(json_string_value(json_array_get(odd, 2)), "%zz%");
    json_decref(odd);
}

static void broken_run_json(void **state)
{
    (void)state;
    static const char *const texts[] = {"",         "{",
                                        "[1]",      "{\"a\":1,\"a\":2}",
                                        "nonsense", "{\"a\":1e999}",
                                        "{}",       "{\"version\": 1}"};
    failure f;
    json_t *run = NULL;
    assert_int_equal(read_run(dir, &run, &f), EX_NOINPUT);
    assert_non_null(strstr(f.text, "is not a run directory"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put(RUN_FILE, texts[i]);
        assert_int_equal(read_run(dir, &run, &f), EX_DATAERR);
        assert_non_null(strstr(f.text, RUN_FILE));
    }
    drop(RUN_FILE);
    put(CHECKPOINT_FILE, "x");
    assert_int_equal(read_run(dir, &run, &f), EX_NOINPUT);
    assert_non_null(strstr(f.text, "--resume"));
}

/* Each key that other commands rely on, missing or of another type. */
static void incomplete_run_json(void **state)
{
    (void)state;
    static const char *const paths[] = {"version",   "model",     "options",     "stop",   "evidence",
                                        "particles", "posterior", "diagnostics", "verdict"};
    failure f;
    wvgd_results r = example();
    json_t *whole = run_of(&r), *back = NULL;
    for (size_t i = 0; i < 2 * (sizeof paths / sizeof *paths); i++) {
        json_t *run = json_copy(whole);
        if (i % 2)
            json_object_set_new(run, paths[i / 2], json_integer(3));
        else
            json_object_del(run, paths[i / 2]);
        put_run(run);
        assert_int_equal(read_run(dir, &back, &f), EX_DATAERR);
        assert_non_null(strstr(f.text, paths[i / 2]));
        json_decref(run);
    }
    json_decref(whole);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_spelled_as_printf_does),
        TEST(old_file_stays_until_the_new_one_is_whole),
        TEST(devices_are_written_not_replaced),
        TEST(links_stay_links),
        TEST(impossible_places),
        TEST(names_in_csv),
        TEST(when_a_directory_may_be_used),
        TEST(one_process_at_a_time),
        TEST(files_of_a_run_come_together),
        TEST(what_was_begun_is_completed),
        TEST(lists_of_others_are_refused),
        TEST(a_new_run_waits_beside_the_old_one),
        TEST(leftovers_go_and_others_stay),
        TEST(long_names),
        TEST(places_that_are_not_files),
        TEST(files_that_belong_to_a_run),
        TEST(checkpoint_comes_back),
        TEST(damaged_checkpoints_are_refused),
        TEST(numbers_come_back_bit_for_bit),
        TEST(moments_and_quantiles_of_weighted_draws),
        TEST(quantiles_are_where_the_weight_is),
        TEST(known_moments_are_taken),
        TEST(constant_and_discrete_quantities),
        TEST(modes_are_listed),
        TEST(verdict_is_that_of_the_results),
        TEST(modes_that_may_be_missing),
        TEST(texts_that_are_not_utf8),
        TEST(broken_run_json),
        TEST(incomplete_run_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
