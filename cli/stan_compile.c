/* stan_compile.c - the steps of a compilation, in a temporary directory that goes away whatever happens,
 * and what compilers say in words of ours. */
#include "stan_compile.h"
#include "object_file.h"
#include "stan_cache.h"
#include "stan_process.h"
#include "stan_rewrite.h"
#include "stan_source.h"
#include "text.h"
#include "wvgd.h"
#include "say.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sysexits.h>
#include <unistd.h>

enum {
    SHOWN_LINES = 20, /* of a compiler's last words */
    STAN_REFUSES = 2  /* exit status of stanc.R */
};

typedef struct {
    const stan_request *request;
    stan_source source;
    stan_toolchain tools;
    char stem[48];       /* what the program is called: letters, digits and _ */
    char *cache, *place; /* the cache, and the temporary directory */
    char *key;           /* STEM-KEY: how files in the cache are called */
} job;

static int no_memory(failure *f)
{
    return fail(f, EX_SOFTWARE, "no memory to compile the Stan program");
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
/* The name of the file without .stan, as a name that C++ and make take. */
static void make_stem(const char *path, char stem[48])
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name), at = 0;
    if (length > 5 && !strcmp(name + length - 5, ".stan"))
        length -= 5;
    if (!length || !isalpha((unsigned char)*name))
        stem[at++] = 'm';
    for (size_t i = 0; i < length && at < 40; i++)
        stem[at++] = isalnum((unsigned char)name[i]) ? name[i] : '_';
    stem[at] = '\0';
}

/* Files of ours that a compiled program depends on. */
static const char *const shim_files[] = {"shim.cpp"}, *const program_files[] = {"shim.cpp", "program.hpp", "stanc.R"};

static const char *const compile_flags[] = {"-std=c++14",
                                            "-O2",
                                            "-fPIC",
                                            "-pthread",
                                            "-w",
                                            "-fvisibility=hidden",
                                            "-fno-gnu-unique",
                                            "-DSTAN_THREADS",
                                            "-DBOOST_DISABLE_ASSERTS",
                                            "-DBOOST_PHOENIX_NO_VARIADIC_EXPRESSION",
                                            "-DEIGEN_NO_DEBUG"};
static const char *const link_flags[] = {"-shared", "-pthread", "-Wl,--no-undefined", "-Wl,-Bsymbolic",
                                         "-Wl,--exclude-libs,ALL"};
enum {
    COMPILE_FLAGS = sizeof compile_flags / sizeof *compile_flags,
    LINK_FLAGS = sizeof link_flags / sizeof *link_flags
};

static int add_files(const job *j, content_key *key, size_t n, const char *const *files, failure *f)
{
    for (size_t i = 0; i < COMPILE_FLAGS; i++)
        add_to_key(key, compile_flags[i]);
    for (size_t i = 0; i < LINK_FLAGS; i++)
        add_to_key(key, link_flags[i]);
    for (size_t i = 0; i < n; i++) {
        char *path = make_text("%s/%s", j->tools.support, files[i]);
        int code = path ? add_file_to_key(key, path, f) : no_memory(f);
        free(path);
        if (code)
            return code;
    }
    return 0;
}

/* NAME-KEY: everything that the result depends on. */
static int make_key(job *j, failure *f)
{
    content_key key = begin_key();
    char text[KEY_TEXT];
    add_to_key(&key, WVGD_VERSION); /* how programs are rewritten */
    add_to_key(&key, j->tools.identity);
    add_to_key(&key, j->request->keep_syntax ? "as it is" : "rewritten if needed");
    add_to_key(&key, j->source.text);
    if (!j->tools.bridgestan && add_files(j, &key, sizeof program_files / sizeof *program_files, program_files, f))
        return f->code;
    show_key(&key, text);
    j->key = make_text("%s-%s", j->stem, text);
    return j->key ? 0 : no_memory(f);
}

/* ---- what compilers say ------------------------------------------------------------------------------------------ */
/* Indented, in lines as they are. */
static void put_lines(const char *text)
{
    bool start = true;
    char shown[5];
    while (*text) {
        if (start && *text != '\n')
            fputs("    ", stderr);
        start = *text == '\n';
        if (strchr("\n\t", *text))
            putc(*text++, stderr);
        else {
            text += show_character(text, shown);
            fputs(shown, stderr);
        }
    }
    if (!start)
        putc('\n', stderr);
}

static const char *last_lines(const char *text, size_t lines)
{
    const char *at = text + strlen(text);
    while (at > text && at[-1] == '\n')
        at--;
    for (; at > text && lines; at--)
        lines -= at[-1] == '\n';
    return at > text ? at + 1 : text;
}

static int refuse_step(const job *j, const char *what, const process_end *end, failure *f)
{
    put_lines(last_lines(end->output, SHOWN_LINES));
    return fail(f, EX_SOFTWARE, "%s: %s failed with status %d; its last lines are above", j->request->path, what,
                end->status);
}

/* "line 3, column 5" in Stan's text; column 0: it names only the line, where it stopped to understand anything. */
static bool find_place(const char *output, size_t *line, size_t *column)
{
    for (const char *at = output; (at = strstr(at, "line ")); at++)
        if (sscanf(at, "line %zu, column %zu", line, column) == 2)
            return true;
    const char *stopped = strstr(output, "STOPPED AT LINE ");
    *column = 0;
    return stopped && sscanf(stopped, "STOPPED AT LINE %zu", line) == 1;
}

/* What Stan has to say, in one line: its text without headings, and without the part of the
 * program between two rules of dashes. */
static void condense(const char *output, char *text, size_t size)
{
    static const char *const headings[] = {"SYNTAX ERROR", "error in '", "Syntax error in",  "Semantic error in",
                                           "make",         "Error in",   "Execution halted", "DIAGNOSTIC"};
    bool program = false;
    size_t at = 0;
    *text = '\0';
    for (const char *line = output; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t blanks = strspn(line, " \t"), length = strcspn(line + blanks, "\n");
        const char *words = line + blanks;
        bool rule = !strncmp(words, "-----", 5), heading = !length || *words == '\n' || rule;
        program ^= rule;
        for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
            heading = heading || !strncmp(words, headings[i], strlen(headings[i]));
        const char *place = strstr(words, " error in '");
        if (place && place < words + length)
            length = (size_t)(place - words);
        if (!program && !heading && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%.*s", at ? " " : "", (int)(length < 300 ? length : 300),
                                   words);
    }
    for (size_t end = strlen(text); end && strchr(" .", text[end - 1]);)
        text[--end] = '\0';
}

/* Why Stan may not know this, and what to do. */
static void advise(const job *j, const stan_rewriting *r, char *text, size_t size)
{
    *text = '\0';
    if (j->tools.bridgestan && r->old_arrays)
        snprintf(text, size,
                 ". This looks like old Stan syntax: current Stan needs array[N] real x, not real x[N] as in line %zu; "
                 "--toolchain rstan accepts it",
                 r->old_arrays);
    else if (!j->tools.bridgestan && *r->newer)
        snprintf(text, size,
                 ". This looks like newer Stan syntax: Stan 2.21 does not know %s (line %zu); BridgeStan compiles "
                 "newer programs: see wvgd stan --doctor",
                 r->newer, r->newer_line);
    else if (!j->tools.bridgestan && *r->changes && j->request->keep_syntax)
        snprintf(text, size,
                 ". This looks like newer Stan syntax (%s), but Stan 2.21 needs real x[N], not array[N] real x: leave "
                 "out --no-rewrite to have it rewritten",
                 r->changes);
}

static int refuse_program(const job *j, const char *output, const stan_rewriting *r, failure *f)
{
    size_t line = 0, column = 0;
    char says[350], advice[400];
    bool placed = find_place(output, &line, &column);
    const char *file = j->request->path;
    put_lines(last_lines(output, 2 * SHOWN_LINES));
    condense(output, says, sizeof says);
    advise(j, r, advice, sizeof advice);
    if (placed)
        file = locate_stan(&j->source, &line);
    if (placed && column)
        return fail(f, EX_DATAERR, "%s:%zu:%zu: Stan rejects the program: %s%s", file, line, column, says, advice);
    return placed ? fail(f, EX_DATAERR, "%s:%zu: Stan rejects the program: %s%s", file, line, says, advice)
                  : fail(f, EX_DATAERR, "%s: Stan rejects the program: %s%s", file, says, advice);
}

static void say_begin(const job *j)
{
    if (!j->request->quiet)
        say_plainly("compiling %s (about 40 s; later runs use the cache)", j->request->path);
}

/* ---- Debian's Stan ----------------------------------------------------------------------------------------------- */
/* Translates a text to STEM.cpp. *refused: Stan's message, to be freed, if it does not take the text; else NULL. */
static int translate(const job *j, const char *text, char **refused, failure *f)
{
    char *program = make_text("%s.stan", j->stem), *result = make_text("%s.cpp", j->stem),
         *script = make_text("%s/stanc.R", j->tools.support);
    const char *argv[] = {j->tools.rscript, "--vanilla", script, program, result, j->stem, NULL};
    process_end end = {0};
    *refused = NULL;
    int code = program && result && script ? keep_text(text, j->place, program, f) : no_memory(f);
    if (!code)
        code = run_process(argv, j->place, &end, f);
    if (!code && end.status == STAN_REFUSES) {
        *refused = end.output;
        end.output = NULL;
    } else if (!code && end.status)
        code = refuse_step(j, "rstan's stanc", &end, f);
    free(end.output);
    free(program);
    free(result);
    free(script);
    return code;
}

/* Does Stan get further in the second text before it refuses it? */
static bool is_later(const char *refused, const char *again)
{
    size_t line[2] = {0}, column[2] = {0};
    find_place(refused, &line[0], &column[0]);
    find_place(again, &line[1], &column[1]);
    return line[1] > line[0] || (line[1] == line[0] && column[1] > column[0]);
}

/* The program as it is, or rewritten if Stan does not take it so. */
static int translate_any(const job *j, failure *f)
{
    char *refused = NULL, *again = NULL, *name = NULL;
    int code = translate(j, j->source.text, &refused, f);
    if (code || !refused)
        return code;
    stan_rewriting r = rewrite_stan(j->source.text);
    if (r.text && !j->request->keep_syntax)
        code = translate(j, r.text, &again, f);
    if (!code && (again || !r.text || j->request->keep_syntax))
        code = refuse_program(j, again && is_later(refused, again) ? again : refused, &r, f);
    if (!code) {
        name = make_text("%s.stan", j->key);
        code = name ? keep_text(r.text, j->cache, name, f) : no_memory(f);
    }
    if (!code && !j->request->quiet)
        say_plainly("%s uses newer Stan syntax (%s): rewritten for Stan 2.21 as %s/%s", j->request->path, r.changes,
                    j->cache, name);
    free(name);
    free(r.text);
    free(refused);
    free(again);
    return code;
}

/* Runs g++ with the arguments first[firsts], and then those of `more` up to a NULL. */
static int run_compiler(const job *j, const char *const *first, size_t firsts, const char *const *more,
                        const char *what, failure *f)
{
    enum { MOST = 64 };
    const char *argv[MOST] = {j->tools.compiler};
    size_t n = 1;
    process_end end;
    for (size_t i = 0; i < firsts && n < MOST - 1; i++)
        argv[n++] = first[i];
    for (; *more && n < MOST - 1; more++)
        argv[n++] = *more;
    int code = run_process(argv, j->place, &end, f);
    if (!code && end.status)
        code = refuse_step(j, what, &end, f);
    free(end.output);
    return code;
}

/* Compiles `from` to `to`, with a header included first unless it is NULL. */
static int compile_file(const job *j, const char *from, const char *to, const char *header, const char *what,
                        failure *f)
{
    char *stan = make_text("%s/include/src", j->tools.headers), *math = make_text("%s/include", j->tools.headers);
    char *eigen = make_text("%s/include", j->tools.eigen),
         *bh = make_text("%s/include", j->tools.bh ? j->tools.bh : j->tools.headers);
    /* clang-format off */
    const char *more[] = {"-isystem", stan, "-isystem", math, "-isystem", eigen, "-isystem", bh,
                          "-c", from, "-o", to, header ? "-include" : NULL, header, NULL};
    /* clang-format on */
    int code = stan && math && eigen && bh ? run_compiler(j, compile_flags, COMPILE_FLAGS, more, what, f)
                                           : no_memory(f);
    free(stan);
    free(math);
    free(eigen);
    free(bh);
    return code;
}

/* The shim's object, compiled once: its path in the cache, to be freed. */
static int make_shim(const job *j, char **path, failure *f)
{
    content_key key = begin_key();
    char text[KEY_TEXT];
    *path = NULL;
    add_to_key(&key, j->tools.identity);
    if (add_files(j, &key, sizeof shim_files / sizeof *shim_files, shim_files, f))
        return f->code;
    show_key(&key, text);
    char *name = make_text("shim-%s.o", text), *from = make_text("%s/shim.cpp", j->tools.support),
         *to = make_text("%s/shim.o", j->place);
    char *kept = name ? make_text("%s/%s", j->cache, name) : NULL;
    int code = from && to && kept ? 0 : no_memory(f);
    if (!code && access(kept, R_OK)) {
        code = compile_file(j, from, "shim.o", NULL, "g++, compiling the shim,", f);
        if (!code)
            code = keep_file(to, j->cache, name, f);
    }
    free(name);
    free(from);
    free(to);
    if (code)
        free(kept);
    else
        *path = kept;
    return code;
}

static int build_with_debian(const job *j, failure *f)
{
    char *shim = NULL, *header = make_text("%s/program.hpp", j->tools.support),
         *library = make_text("%s/lib/libStanHeaders.a", j->tools.headers);
    char *from = make_text("%s.cpp", j->stem), *to = make_text("%s.o", j->stem);
    say_begin(j);
    int code = header && library && from && to ? translate_any(j, f) : no_memory(f);
    if (!code)
        code = make_shim(j, &shim, f);
    if (!code)
        code = compile_file(j, from, to, header, "g++, compiling the generated C++,", f);
    if (!code) {
        const char *more[] = {"-o", "result.so", to, shim, library, "-ljansson", "-ltbb", NULL};
        code = run_compiler(j, link_flags, LINK_FLAGS, more, "g++, linking,", f);
    }
    free(shim);
    free(header);
    free(library);
    free(from);
    free(to);
    return code;
}

/* ---- BridgeStan -------------------------------------------------------------------------------------------------- */
static int run_make(const job *j, const char *target, failure *f)
{
    const char *argv[] = {j->tools.make, "-C", j->tools.root, target, "STAN_THREADS=true", NULL};
    process_end end;
    size_t line, column;
    int code = run_process(argv, j->place, &end, f);
    if (!code && end.status && find_place(end.output, &line, &column)) {
        stan_rewriting r = rewrite_stan(j->source.text);
        code = refuse_program(j, end.output, &r, f);
        free(r.text);
    } else if (!code && end.status)
        code = refuse_step(j, "make in BridgeStan", &end, f);
    free(end.output);
    return code;
}

static int build_with_bridgestan(const job *j, failure *f)
{
    char *program = make_text("%s.stan", j->stem), *target = make_text("%s/%s_model.so", j->place, j->stem),
         *result = make_text("%s/result.so", j->place);
    char *lock_path = make_text("%s/bridgestan.lock", j->cache);
    int code = program && target && result && lock_path ? 0 : no_memory(f);
    int lock = code ? -1 : open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock >= 0)
        flock(lock, LOCK_EX); /* its own libraries are made only once, by one of us */
    if (!code)
        say_begin(j);
    if (!code)
        code = keep_text(j->source.text, j->place, program, f);
    if (!code)
        code = run_make(j, target, f);
    if (!code && rename(target, result))
        code = fail(f, EX_SOFTWARE, "%s: make in BridgeStan succeeded, but did not create %s_model.so",
                    j->request->path, j->stem);
    if (lock >= 0)
        close(lock);
    free(program);
    free(target);
    free(result);
    free(lock_path);
    return code;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
/* Compiles in a place of its own, and keeps the result as `name`. */
static int build(job *j, const char *name, failure *f)
{
    int code = make_workplace(&j->place, f);
    if (!code)
        code = j->tools.bridgestan ? build_with_bridgestan(j, f) : build_with_debian(j, f);
    if (!code) {
        char *result = make_text("%s/result.so", j->place);
        code = result ? check_object(result, f) : no_memory(f);
        if (!code)
            code = keep_file(result, j->cache, name, f);
        free(result);
    }
    remove_workplace(j->place);
    return code;
}

int compile_stan(const stan_request *request, char **object, failure *f)
{
    job j = {.request = request};
    char *name = NULL, *path = NULL;
    failure damaged;
    *object = NULL;
    make_stem(request->path, j.stem);
    int code = read_stan(request->path, &j.source, f);
    if (!code)
        code = find_toolchain(&request->wish, &j.tools, f);
    if (!code)
        code = open_cache(&j.cache, f);
    if (!code)
        code = make_key(&j, f);
    if (!code) {
        name = make_text("%s.so", j.key);
        path = name ? make_text("%s/%s", j.cache, name) : NULL;
        code = path ? 0 : no_memory(f);
    }
    if (!code && check_object(path, &damaged))
        code = build(&j, name, f);
    if (code)
        free(path);
    else
        *object = path;
    free(name);
    free(j.key);
    free(j.place);
    free(j.cache);
    free_toolchain(&j.tools);
    free_stan(&j.source);
    return code;
}
