/* stan_toolchain.c - finding compilers. Each toolchain is a list of parts; it is complete if none is missing. */
#include "stan_toolchain.h"
#include "signals.h"
#include "stan_cache.h"
#include "stan_process.h"
#include "text.h"
#include "say.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sysexits.h>
#include <unistd.h>

#ifndef WVGD_DATA_FROM_BIN
#define WVGD_DATA_FROM_BIN "../share"
#endif

static bool is_file(const char *path)
{
    struct stat about;
    return path && !stat(path, &about) && S_ISREG(about.st_mode) && !access(path, R_OK);
}

/* found: taken; NULL if it is missing. */
static void add_part(stan_toolchain *t, const char *what, const char *remedy, char *found)
{
    if (t->parts < STAN_PARTS)
        t->part[t->parts++] = (stan_part){what, remedy, found};
    else
        free(found);
    t->complete = t->complete && found;
}

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

void free_toolchain(stan_toolchain *t)
{
    char *texts[] = {t->version,  t->identity, t->make,  t->root, t->rscript,
                     t->compiler, t->headers,  t->eigen, t->bh,   t->support};
    for (size_t i = 0; i < t->parts; i++)
        free(t->part[i].found);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    *t = (stan_toolchain){0};
}

/* ---- lines of output --------------------------------------------------------------------------------------------- */
/* What follows "KEY" and a blank or tab in a line of its own, without quotes; free() it. NULL: there is none. */
static char *value_of(const char *output, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = output; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (!strncmp(line, key, length) && strchr(" \t\n", line[length])) {
            const char *from = line + length + strspn(line + length, " \t\"");
            return strndup(from, strcspn(from, "\"\r\n"));
        }
    return NULL;
}

/* Output of a program; NULL if it could not be run or did not end well. Interruptions come back in *f. */
static char *output_of(const char *const *argv, failure *f)
{
    process_end end;
    if (run_process(argv, NULL, &end, f)) {
        f->code = f->code == EXIT_INTERRUPTED ? f->code : 0;
        return NULL;
    }
    if (end.status) {
        free(end.output);
        return NULL;
    }
    return end.output;
}

/* ---- our own files ----------------------------------------------------------------------------------------------- */
static char *find_support(void)
{
    const char *given = getenv("WVGD_STAN_DIR");
    char program[4096], *found = NULL;
    if (given && *given)
        return strdup(given);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    static const char *const places[] = {WVGD_DATA_FROM_BIN, "share"}; /* installed; in the build tree */
    for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
        char *path = make_text("%s/%s/wvgd/stan", program, places[i]),
             *shim = path ? make_text("%s/shim.cpp", path) : NULL;
        if (is_file(shim))
            found = realpath(path, NULL);
        free(path);
        free(shim);
    }
    return found;
}

static char *support_file(const stan_toolchain *t, const char *name)
{
    char *path = t->support ? make_text("%s/%s", t->support, name) : NULL;
    if (is_file(path))
        return path;
    free(path);
    return NULL;
}

/* ---- Debian's Stan ----------------------------------------------------------------------------------------------- */
static const char packages[] = "Debian package r-cran-rstan, with all it depends on";

static void find_r(stan_toolchain *t, failure *f)
{
    char *script = support_file(t, "stanc.R");
    const char *argv[] = {t->rscript, "--vanilla", script, NULL};
    char *output = t->rscript && script ? output_of(argv, f) : NULL;
    char *rstan = value_of(output, "rstan"), *headers = value_of(output, "StanHeaders");
    t->headers = value_of(output, "StanHeaders-path");
    t->eigen = value_of(output, "RcppEigen-path");
    t->bh = value_of(output, "BH-path");
    char *library = t->headers ? make_text("%s/lib/libStanHeaders.a", t->headers) : NULL;
    bool right = headers && !strncmp(headers, "2.21.", 5);
    add_part(t, "rstan", packages, copy(rstan));
    if (headers && !right)
        say("warning: cannot use StanHeaders %s: the shim is written for 2.21", headers);
    add_part(t, "StanHeaders 2.21", "Debian package r-cran-stanheaders",
             right && is_file(library) ? copy(headers) : NULL);
    free(library);
    free(rstan);
    free(headers);
    free(output);
    free(script);
}

static char *with_suffix(const char *path, const char *suffix)
{
    return path ? make_text("%s%s", path, suffix) : NULL;
}

static void find_headers(stan_toolchain *t, failure *f)
{
    char *probe = support_file(t, "probe.hpp"), *eigen = with_suffix(t->eigen, "/include"),
         *bh = with_suffix(t->bh, "/include");
    const char *argv[] = {t->compiler, "-E",          "-P",  "-isystem", eigen ? eigen : ".",
                          "-isystem",  bh ? bh : ".", probe, NULL};
    char *output = t->compiler && probe ? output_of(argv, f) : NULL;
    char *version = value_of(output, "found compiler"), *jansson = value_of(output, "found jansson"),
         *tbb = value_of(output, "found tbb");
    add_part(t, "g++", "Debian package g++", version ? make_text("%s  %s", version, t->compiler) : NULL);
    add_part(t, "Boost", "Debian package r-cran-bh", value_of(output, "found boost"));
    char *has_eigen = value_of(output, "found eigen");
    add_part(t, "Eigen", "Debian package r-cran-rcppeigen", has_eigen ? copy(eigen) : NULL);
    add_part(t, "TBB", "Debian package libtbb-dev", tbb ? copy("found") : NULL);
    add_part(t, "Jansson", "Debian package libjansson-dev", jansson ? copy("found") : NULL);
    free(has_eigen);
    free(version);
    free(jansson);
    free(tbb);
    free(output);
    free(probe);
    free(eigen);
    free(bh);
}

static void describe_debian(stan_toolchain *t)
{
    struct utsname machine;
    size_t size = 0;
    FILE *s = open_memstream(&t->identity, &size);
    if (!s)
        return;
    fprintf(s, "debian %s", uname(&machine) ? "" : machine.machine);
    for (size_t i = 0; i < t->parts; i++)
        fprintf(s, "; %s %s", t->part[i].what, t->part[i].found ? t->part[i].found : "");
    if (fclose(s)) {
        free(t->identity);
        t->identity = NULL;
    }
    t->version = copy("Stan 2.21 (rstan)");
}

static void find_debian(stan_toolchain *t, failure *f)
{
    static const char *const files[] = {"shim.cpp", "program.hpp", "stanc.R", "probe.hpp"};
    *t = (stan_toolchain){.name = "Debian's Stan", .complete = true};
    t->support = find_support();
    t->rscript = find_program("Rscript");
    t->compiler = find_program("g++");
    bool all = true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = support_file(t, files[i]);
        all = all && path;
        free(path);
    }
    add_part(t, "Rscript", "Debian package r-base-core", copy(t->rscript));
    if (all) /* they look for the rest */
        find_r(t, f);
    if (all && !f->code)
        find_headers(t, f);
    describe_debian(t); /* not where the shim lies: its content is what counts */
    add_part(t, "shim of wvgd", "installed with wvgd as share/wvgd/stan; WVGD_STAN_DIR names another directory",
             all ? copy(t->support) : NULL);
}

/* ---- BridgeStan -------------------------------------------------------------------------------------------------- */
/* "2.5.0" from src/version.hpp, or NULL. */
static char *bridgestan_version(const char *root)
{
    char *path = make_text("%s/src/version.hpp", root), *text = NULL;
    size_t size = 0;
    failure unused;
    unsigned number[3];
    static const char *const names[] = {"BRIDGESTAN_MAJOR", "BRIDGESTAN_MINOR", "BRIDGESTAN_PATCH"};
    bool all = is_file(path) && !read_text(path, &text, &size, &unused);
    for (size_t i = 0; i < 3 && all; i++) {
        const char *at = strstr(text, names[i]);
        all = at && sscanf(at + strlen(names[i]), "%u", &number[i]) == 1;
    }
    free(text);
    free(path);
    return all ? make_text("%u.%u.%u", number[0], number[1], number[2]) : NULL;
}

/* path: of the command line or the environment, or NULL. */
static void find_bridgestan(stan_toolchain *t, const char *path, failure *f)
{
    *t = (stan_toolchain){.name = "BridgeStan", .bridgestan = true, .complete = true};
    char *makefile = NULL, *version = NULL;
    t->root = path && *path ? realpath(path, NULL) : NULL;
    t->make = find_program("make");
    if (t->root) {
        makefile = make_text("%s/Makefile", t->root);
        version = bridgestan_version(t->root);
    }
    add_part(t, "its directory",
             path && *path ? "this directory has no BridgeStan Makefile"
                           : "set it with --bridgestan DIR or the environment variable BRIDGESTAN",
             is_file(makefile) ? copy(t->root) : NULL);
    add_part(t, "make", "Debian package make", copy(t->make));
    t->version = version ? make_text("BridgeStan %s", version) : copy("BridgeStan");
    if (t->complete) {
        content_key key = begin_key();
        static const char *const files[] = {"Makefile", "make/local", "src/version.hpp", "stan/src/stan/version.hpp"};
        for (size_t i = 0; i < sizeof files / sizeof *files && !f->code; i++) {
            char *file = make_text("%s/%s", t->root, files[i]);
            add_to_key(&key, files[i]);
            if (is_file(file))
                add_file_to_key(&key, file, f);
            free(file);
        }
        char text[KEY_TEXT];
        show_key(&key, text);
        t->identity = make_text("bridgestan %s %s", t->root, text);
        t->complete = t->identity != NULL;
    }
    free(makefile);
    free(version);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */
static const char *bridgestan_path(const stan_wish *wish)
{
    return wish->bridgestan ? wish->bridgestan : getenv("BRIDGESTAN");
}

/* "make, g++": what is missing. */
static void list_missing(const stan_toolchain *t, char *text, size_t size)
{
    size_t at = 0;
    *text = '\0';
    for (size_t i = 0; i < t->parts; i++)
        if (!t->part[i].found && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", t->part[i].what);
}

static int refuse_toolchain(const stan_toolchain *t, const char *path, failure *f)
{
    char missing[200];
    list_missing(t, missing, sizeof missing);
    if (t->bridgestan && path && !t->part[0].found)
        return fail(f, EX_UNAVAILABLE, "%s is not a BridgeStan directory: it has no Makefile (see wvgd stan --doctor)",
                    path);
    return fail(f, EX_UNAVAILABLE, "%s is not complete; missing: %s (see wvgd stan --doctor)", t->name, missing);
}

int find_toolchain(const stan_wish *wish, stan_toolchain *t, failure *f)
{
    const char *path = bridgestan_path(wish), *name = wish->toolchain ? wish->toolchain : "auto";
    bool wanted = !strcmp(name, "bridgestan") || (!strcmp(name, "auto") && wish->bridgestan);
    f->code = 0;
    if (wanted || (!strcmp(name, "auto") && path && *path)) {
        find_bridgestan(t, path, f);
        if (t->complete || f->code)
            return f->code;
        int code = refuse_toolchain(t, path, f);
        free_toolchain(t);
        if (wanted)
            return code;
        say("warning: cannot use BRIDGESTAN: %s", f->text);
        f->code = 0;
    }
    find_debian(t, f);
    if (!f->code && !t->complete)
        refuse_toolchain(t, NULL, f);
    return f->code;
}

static void print_toolchain(FILE *s, const stan_toolchain *t)
{
    fprintf(s, "%s: %s", t->name, t->complete ? "works, " : "not complete");
    put_foreign(s, t->complete ? t->version : "");
    for (size_t i = 0; i < t->parts; i++) {
        fprintf(s, "\n  %-18s %s", t->part[i].what, t->part[i].found ? "" : "missing: ");
        put_foreign(s, t->part[i].found ? t->part[i].found : t->part[i].remedy);
    }
    putc('\n', s);
}

int examine_toolchains(const stan_wish *wish, FILE *stream, failure *f)
{
    stan_toolchain bridgestan, debian;
    char *cache = NULL;
    f->code = 0;
    find_bridgestan(&bridgestan, bridgestan_path(wish), f);
    find_debian(&debian, f);
    bool works = bridgestan.complete || debian.complete;
    print_toolchain(stream, &bridgestan);
    putc('\n', stream);
    print_toolchain(stream, &debian);
    putc('\n', stream);
    failure why = {0};
    bool no_cache = open_cache(&cache, &why) != 0;
    fputs("Cache: ", stream);
    put_foreign(stream, no_cache ? why.text : cache);
    putc('\n', stream);
    if (works)
        fprintf(stream, "Stan programs are compiled with %s.\n", bridgestan.complete ? bridgestan.name : debian.name);
    else if (debian.part[debian.parts - 1].found) /* the shim */
        fputs("On Debian: apt-get install --no-install-recommends r-cran-rstan r-cran-stanheaders r-cran-bh "
              "r-cran-rcppeigen g++ libjansson-dev\n",
              stream);
    free(cache);
    free_toolchain(&bridgestan);
    free_toolchain(&debian);
    if (f->code)
        return f->code;
    return works ? 0
                 : fail(f, EX_UNAVAILABLE,
                        "no toolchain for Stan programs is complete: the list above shows what is missing");
}
