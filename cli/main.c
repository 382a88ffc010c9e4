/* main.c - the program but for where it begins (start.c, or mpi/start.c): finds the command, runs it, says in one line
 * why it failed. */
#define _GNU_SOURCE
#include "commands.h"
#include "help.h"
#include "other_ranks.h"
#include "program.h"
#include "say.h"
#include "suggest.h"
#include "text.h"
#include "wvgd.h"
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

const char *argp_program_version = "wvgd " WVGD_VERSION;

static const command *const commands[] = {&fit_command,      &svgd_command,    &summary_command, &sample_command,
                                          &quantize_command, &predict_command, &compare_command, &report_command,
                                          &models_command,   &options_command, &stan_command,    &stan_compile_command,
                                          &reproduce_command};
enum { COMMANDS = sizeof commands / sizeof *commands };

const command *describe_command(size_t i)
{
    return i < COMMANDS ? commands[i] : NULL;
}

static const command *find_command(const char *name, failure *f)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    refuse_command(name, f);
    return NULL;
}

/* Commands return. If the process ends while one runs, a model in a shared object has ended it, perhaps with a code
 * that means success. Processes that a model has started may end as they like. */
static pid_t running; /* this process while a command runs, else 0 */
const char *program_name = "wvgd";
program_ranks *other_ranks;

static void refuse_exit(void)
{
    if (running != getpid())
        return;
    static const char why[] =
        ": the model ended the program: code in its shared object called exit, which a model must not do\n";
    ssize_t written = write(STDERR_FILENO, program_name, strlen(program_name));
    written = write(STDERR_FILENO, why, sizeof why - 1);
    (void)written;
    syscall(SYS_exit_group, EX_SOFTWARE);
}

void guard_exit(bool on)
{
    running = on ? getpid() : 0;
}

/* Shared objects find the names of the program before those of the C library: their _exit(0) and _Exit(0), which run
 * nothing that atexit has noted, come here. */
__attribute__((visibility("default"))) void _exit(int status)
{
    if (!status)
        refuse_exit();
    for (;;)
        syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"))) void _Exit(int status)
{
    _exit(status);
}

/* argp ends the program by itself after --help and the like. */
static bool returned; /* from the command: main looks at the output */

static void check_output(void)
{
    static const char why[] = "wvgd: cannot write to stdout\n";
    if (returned || (!fflush(stdout) && !ferror(stdout)))
        return;
    ssize_t written = write(STDERR_FILENO, why, sizeof why - 1);
    (void)written;
    syscall(SYS_exit_group, EX_IOERR);
}

static int run_command(int argc, char **argv, failure *f)
{
    arguments a = {0};
    const command *c = find_command(argv[0], f);
    int code = c ? parse_arguments(c, argc, argv, &a, f) : f->code;
    if (!code) {
        guard_exit(true);
        code = c->run(&a, f);
        guard_exit(false);
    }
    free_arguments(&a);
    return code;
}

/* wvgd help COMMAND: what wvgd COMMAND --help prints. */
static int help_with(char *name, failure *f)
{
    char help[] = "--help", *argv[] = {name, help, NULL};
    return run_command(2, argv, f);
}

static int start(int argc, char **argv, failure *f)
{
    const char *first = argc > 1 ? argv[1] : NULL;
    if (!first)
        return fail(f, EX_USAGE, "no command given: see wvgd --help");
    bool help = !strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help") || !strcmp(first, "-help") ||
                !strcmp(first, "-?") || !strcmp(first, "--help-all");
    if (help && argc > 2)
        return help_with(argv[2], f);
    if (help)
        print_help(stdout);
    else if (!strcmp(first, "--version") || !strcmp(first, "-V"))
        puts(argp_program_version);
    else if (!strcmp(first, "--generate") && argc == 3)
        return generate(argv[2], stdout, f);
    else if (*first == '-')
        return fail(f, EX_USAGE, "unknown option %s before the command: see wvgd --help", first);
    else
        return run_command(argc - 1, argv + 1, f);
    return 0;
}

void prepare_program(void)
{
    setlocale(LC_CTYPE, ""); /* for the width of names */
    use_plain_numbers();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of write */
    atexit(check_output);
    atexit(refuse_exit);
    at_quick_exit(refuse_exit);
}

int run_program(int argc, char **argv)
{
    failure f = {0};
    int code = start(argc, argv, &f);
    returned = true;
    if ((fflush(stdout) || ferror(stdout)) && !code)
        code = fail(&f, EX_IOERR, "cannot write to stdout");
    if (code)
        say_lines(f.text);
    return code;
}
