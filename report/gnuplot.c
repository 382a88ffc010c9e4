/* gnuplot.c - runs gnuplot on a script in memory (memfd_create), into memory: no file but the figure itself is
 * ever written, and nothing is left of a process that was killed. The palette is that of Okabe and Ito, with grey
 * instead of its yellow, which cannot be seen as a line on white. */
#define _GNU_SOURCE /* memfd_create, memmem */
#include "gnuplot.h"
#include "stan_process.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

static const char *const colours[FIGURE_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#e69f00",
                                                    "#56b4e9", "#cc79a7", "#777777", "#000000"};

/* One figure as two files. */
static const struct {
    const char *ending, *terminal, *font, *last; /* last: what stands near its end */
} formats[] = {{"svg", "svg", "Helvetica,14", "</svg>"}, {"png", "pngcairo", "Sans,11", "IEND"}};
enum { FORMATS = sizeof formats / sizeof *formats };

const char *figure_colour(size_t i)
{
    return colours[i % FIGURE_COLOURS];
}

bool has_gnuplot(void)
{
    char *program = find_program("gnuplot");
    free(program);
    return program != NULL;
}

/* ---- the script -------------------------------------------------------------------------------------------------- */
static void put_style(FILE *s, int drawing, size_t format, unsigned width, unsigned height)
{
    fprintf(s, "set terminal %s size %u,%u enhanced font '%s' background '#ffffff'\n", formats[format].terminal, width,
            height, formats[format].font);
    fprintf(s, "set output '/dev/fd/%d'\nset encoding utf8\nset datafile missing 'NaN'\n", drawing);
    for (size_t i = 0; i < FIGURE_COLOURS; i++)
        fprintf(s, "set linetype %zu linecolor rgb '%s' linewidth 2 pointtype 7 pointsize 0.6\n", i + 1, colours[i]);
    fputs("set border 3 linecolor rgb '#444444'\nset tics nomirror out scale 0.6 textcolor rgb '#222222'\n"
          "set grid ytics linecolor rgb '#dddddd' linewidth 1 dashtype 1\nset style fill solid 0.35 noborder\n"
          "set key top right samplen 2 spacing 1.1\n",
          s);
}

/* A file in memory, which programs that we start see as /dev/fd/N. NULL: impossible. */
static FILE *open_memory(void)
{
    int fd = memfd_create("wvgd-figure", 0);
    FILE *stream = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (fd >= 0 && !stream)
        close(fd);
    return stream;
}

/* The first line of what gnuplot says that is no blank and no copy of the script. */
static const char *first_complaint(char *output)
{
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, "line ") && strchr(line, ':'))
            return line;
    return "no reason given";
}

static int run_script(FILE *script, const char *name, failure *f)
{
    process_end end;
    char path[32], *program = find_program("gnuplot");
    if (!program)
        return fail(f, EX_UNAVAILABLE,
                    "gnuplot, which draws the figures, is not installed (Debian package gnuplot-nox)");
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(script));
    const char *argv[] = {program, path, NULL};
    int code = run_process(argv, NULL, &end, f);
    if (!code && end.status && end.status != 128 + SIGXFSZ) /* a limit on the size of files: keep_drawing sees it */
        code = fail(f, EX_SOFTWARE, "gnuplot cannot draw %s: %.300s", name, first_complaint(end.output));
    free(end.output);
    free(program);
    return code;
}

/* ---- what it has drawn ------------------------------------------------------------------------------------------- */
/* gnuplot does not tell of what it could not write. */
static bool is_whole(FILE *drawing, const char *last)
{
    char tail[32];
    if (fseek(drawing, 0, SEEK_END) || ftell(drawing) < (long)sizeof tail ||
        fseek(drawing, -(long)sizeof tail, SEEK_END) || fread(tail, 1, sizeof tail, drawing) != sizeof tail)
        return false;
    return memmem(tail, sizeof tail, last, strlen(last)) != NULL;
}

static int keep_drawing(file_set *set, FILE *drawing, const char *name, size_t format, failure *f)
{
    char file[100], buffer[2048];
    snprintf(file, sizeof file, "%.80s.%s", name, formats[format].ending);
    if (!is_whole(drawing, formats[format].last))
        return fail(f, EX_IOERR, "gnuplot did not finish drawing %s: is the file size limited?", file);
    FILE *stream = add_file(set, file, f);
    if (!stream)
        return f->code;
    rewind(drawing);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, drawing)) > 0;)
        fwrite(buffer, 1, n, stream);
    return 0;
}

static int draw_one(file_set *set, const char *name, size_t format, unsigned width, unsigned height, const char *script,
                    failure *f)
{
    FILE *text = open_memory(), *drawing = open_memory();
    int code = text && drawing ? 0 : fail(f, EX_SOFTWARE, "no memory for a figure: %s", strerror(errno));
    if (!code) {
        put_style(text, fileno(drawing), format, width, height);
        fputs(script, text);
        code = fflush(text) ? fail(f, EX_SOFTWARE, "no memory for a figure: %s", strerror(errno))
                            : run_script(text, name, f);
    }
    if (!code)
        code = keep_drawing(set, drawing, name, format, f);
    if (text)
        fclose(text);
    if (drawing)
        fclose(drawing);
    return code;
}

int add_figure(file_set *set, const char *name, unsigned width, unsigned height, const char *script, failure *f)
{
    int code = 0;
    for (size_t format = 0; format < FORMATS && !code; format++)
        code = draw_one(set, name, format, width, height, script, f);
    return code;
}

int draw_figure(const char *dir, const char *name, unsigned width, unsigned height, const char *script, failure *f)
{
    file_set set = {.dir = dir};
    int code = add_figure(&set, name, width, height, script, f);
    if (!code)
        return commit_files(&set, f);
    abandon_files(&set);
    return code;
}
