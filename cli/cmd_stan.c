/* cmd_stan.c - wvgd stan: compiles a Stan program, and fits it as wvgd fit does a shared object.
 * wvgd stan-compile: the first half. */
#include "commands.h"
#include "fit_options.h"
#include "fit_request.h"
#include "request.h"
#include "run_directory.h"
#include "run_record.h"
#include "stan_compile.h"
#include "text.h"
#include "write.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static const char stan_group[] = "Stan options:";

static const option_line compile_options[] = {
    {"bridgestan", 0, "DIR", NULL, "$BRIDGESTAN", "BridgeStan directory (version 2.0 or later) to compile with",
     stan_group},
    {"toolchain", 0, "auto|bridgestan|rstan", NULL, "auto",
     "compiler for Stan programs; auto: BridgeStan if its directory is given, otherwise Debian's rstan", stan_group},
    {"no-rewrite", 0, NULL, NULL, NULL,
     "reject syntax that the toolchain does not know instead of rewriting a copy of the program", stan_group},
};
enum { COMPILE_OPTIONS = sizeof compile_options / sizeof *compile_options };

/* Those of the compilation, then those of a fit but for what belongs to built-in models, which come last there. */
static bool stan_option(size_t i, option_line *line)
{
    static const option_line doctor = {"doctor",  0,
                                       NULL,      NULL,
                                       NULL,      "show which toolchains are installed and what is missing, then exit",
                                       stan_group};
    if (i <= COMPILE_OPTIONS) {
        *line = i ? compile_options[i - 1] : doctor;
        return true;
    }
    bool found = fit_option(i - COMPILE_OPTIONS - 1, line) && !is_model_option(line);
    if (found && !strcmp(line->name, "data"))
        line->help = "data file, JSON as for CmdStan";
    return found;
}

static bool stan_compile_option(size_t i, option_line *line)
{
    static const option_line table[] = {
        {"out", 'o', "FILE", NULL, NULL, "copy the shared object to FILE; otherwise print its path in the cache",
         stan_group},
        {"quiet", 'q', NULL, NULL, NULL, "show no progress and no hints on stderr; warnings remain", stan_group},
    };
    size_t own = sizeof table / sizeof *table;
    if (i >= own + COMPILE_OPTIONS)
        return false;
    *line = i < own ? table[i] : compile_options[i - own];
    return true;
}

/* What both commands take from the command line. */
static int read_request(const arguments *a, stan_request *request, failure *f)
{
    size_t which;
    *request = (stan_request){.path = a->words ? a->word[0] : NULL,
                              .wish = {given(a, "toolchain"), given(a, "bridgestan")},
                              .keep_syntax = given(a, "no-rewrite") != NULL,
                              .quiet = given(a, "quiet") != NULL};
    return given_choice(a, "toolchain", &which, f);
}

static int check_program(const arguments *a, failure *f)
{
    const char *path = a->words ? a->word[0] : "";
    size_t length = strlen(path);
    if (!length)
        return fail(f, EX_USAGE, "%s: PROGRAM.stan is missing: name a Stan program", a->command->name);
    if (length > 3 && !strcmp(path + length - 3, ".so"))
        return fail(f, EX_USAGE, "%s: %s is already compiled: use wvgd fit %s", a->command->name, path, path);
    return access(path, R_OK) ? fail(f, EX_NOINPUT, "cannot open %s: %s", path, strerror(errno)) : 0;
}

/* What would make the fit fail anyway is better known before the compiler runs. */
static int check_fit(arguments *a, failure *f)
{
    wvgd_request *q = NULL;
    a->object = a->word[0]; /* not known yet */
    int code = request_fit(a, &q, f);
    a->object = NULL;
    if (!code)
        code = check_request(q, f);
    const char *data = code ? NULL : requested(q, "data");
    if (data && access(data, R_OK))
        code = fail(f, EX_NOINPUT, "cannot open %s: %s", data, strerror(errno));
    if (!code)
        code = check_out(q, f);
    wvgd_request_free(q);
    return code;
}

static int run_stan(arguments *a, failure *f)
{
    stan_request request;
    char *object = NULL;
    int code = read_request(a, &request, f);
    if (!code && given(a, "doctor"))
        return examine_toolchains(&request.wish, stdout, f);
    if (!code && given(a, "resume") && !a->words)
        return fit_command.run(a, f);
    if (!code)
        code = check_program(a, f);
    if (!code && !given(a, "resume"))
        code = check_fit(a, f);
    if (!code)
        code = compile_stan(&request, &object, f);
    if (!code) {
        a->object = object;
        code = fit_command.run(a, f);
        a->object = NULL;
    }
    free(object);
    return code;
}

/* ---- wvgd stan-compile ------------------------------------------------------------------------------------------- */
static int copy_object(const char *from, const char *to, failure *f)
{
    whole_file w;
    FILE *in = fopen(from, "rb");
    char buffer[65536];
    if (!in)
        return fail(f, EX_NOINPUT, "cannot open %s: %s", from, strerror(errno));
    int code = begin_file(&w, to, f);
    if (!code) {
        for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
            fwrite(buffer, 1, n, w.stream);
        if (ferror(in)) {
            code = fail(f, EX_IOERR, "cannot read %s", from);
            abandon_file(&w);
        } else {
            code = finish_file(&w, f);
        }
    }
    fclose(in);
    return code;
}

static int run_stan_compile(arguments *a, failure *f)
{
    stan_request request;
    char *object = NULL;
    int code = read_request(a, &request, f);
    if (!code)
        code = check_program(a, f);
    if (!code)
        code = compile_stan(&request, &object, f);
    if (!code && given(a, "out"))
        code = copy_object(object, given(a, "out"), f);
    else if (!code && isatty(STDOUT_FILENO)) { /* elsewhere its bytes count */
        put_foreign(stdout, object);
        putchar('\n');
    } else if (!code)
        puts(object);
    free(object);
    return code;
}

const command stan_command = {
    "stan",
    "PROGRAM.stan [--data FILE.json] --out DIR\n--resume DIR [PROGRAM.stan]\n--doctor",
    "compile and fit a Stan program",
    "Compiles a Stan program and fits it as wvgd fit does, with the same options. The compiled program is cached in "
    "$XDG_CACHE_HOME/wvgd (or ~/.cache/wvgd) and compiled again only if the program or the compiler changes. draws.csv "
    "and the summary use the names of the program: parameters, transformed parameters and generated quantities. The "
    "data file is JSON, as for CmdStan. BridgeStan or Debian's r-cran-rstan compiles the program.",
    "# check the toolchain\nwvgd stan --doctor\n# compile (about 40 s the first time) and fit\nwvgd stan schools.stan "
    "--data schools.json --out schools\nwvgd summary schools\n# more cells, another seed; already compiled\nwvgd stan "
    "schools.stan --data schools.json --particles 10 --seed 2 --out schools10\n# continue a run that reached a "
    "limit\nwvgd stan --resume schools schools.stan --max-iter 10000\n# use your own BridgeStan, for newer Stan\nwvgd "
    "stan --bridgestan ~/bridgestan schools.stan --data schools.json --out new\n",
    stan_option,
    "PROGRAM",
    run_stan,
    "data out particles seed threads max-seconds evidence-se resume overwrite quiet doctor",
};

const command stan_compile_command = {
    "stan-compile",
    "PROGRAM.stan [-o MODEL.so]",
    "compile a Stan program to a shared object",
    "Compiles a Stan program to a shared object with BridgeStan's interface, for wvgd fit. Without -o, the object "
    "stays in the cache and its path is printed.",
    "wvgd stan-compile schools.stan -o schools.so\n"
    "wvgd fit ./schools.so --data schools.json --out schools\n",
    stan_compile_option,
    "PROGRAM",
    run_stan_compile,
    NULL,
};
