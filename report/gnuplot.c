/* gnuplot.c - runs gnuplot on a script in the directory of the figure, under temporary names; what it has drawn
 * is flushed to the disk and renamed. The palette is that of Okabe and Ito, with grey instead of its yellow,
 * which cannot be seen as a line on white. */
#include "gnuplot.h"
#include "stan_process.h"
#include "write.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static const char *const colours[FIGURE_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#e69f00",
                                                    "#56b4e9", "#cc79a7", "#777777", "#000000"};

/* One figure as two files. */
static const struct {
    const char *ending, *terminal, *font;
} formats[] = {{"svg", "svg", "Helvetica,14"}, {"png", "pngcairo", "Sans,11"}};
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

static char *join(const char *dir, const char *name, const char *ending)
{
    size_t size = strlen(dir) + strlen(name) + strlen(ending) + 3;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s.%s", dir, name, ending);
    return path;
}

/* ---- the script -------------------------------------------------------------------------------------------------- */
static void put_style(FILE *s, const char *name, size_t format, unsigned width, unsigned height)
{
    fprintf(s, "set terminal %s size %u,%u enhanced font '%s' background '#ffffff'\n", formats[format].terminal, width,
            height, formats[format].font);
    fprintf(s, "set output '%s.%s.partial'\nset encoding utf8\nset datafile missing 'NaN'\n", name,
            formats[format].ending);
    for (size_t i = 0; i < FIGURE_COLOURS; i++)
        fprintf(s, "set linetype %zu linecolor rgb '%s' linewidth 2 pointtype 7 pointsize 0.6\n", i + 1, colours[i]);
    fputs("set border 3 linecolor rgb '#444444'\nset tics nomirror out scale 0.6 textcolor rgb '#222222'\n"
          "set grid ytics linecolor rgb '#dddddd' linewidth 1 dashtype 1\nset style fill solid 0.35 noborder\n"
          "set key top right samplen 2 spacing 1.1\n",
          s);
}

static int write_script(const char *dir, const char *name, size_t format, unsigned width, unsigned height,
                        const char *script, failure *f)
{
    whole_file w;
    char *path = join(dir, name, "gnuplot");
    int code = path ? begin_file(&w, path, f) : fail(f, EX_SOFTWARE, "no memory for a figure");
    if (!code) {
        put_style(w.stream, name, format, width, height);
        fputs(script, w.stream);
        code = finish_file(&w, f);
    }
    free(path);
    return code;
}

/* The first line of what gnuplot says that is no blank and no copy of the script. */
static const char *first_complaint(char *output)
{
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, "line ") && strchr(line, ':'))
            return line;
    return "it does not say why";
}

static int run_script(const char *dir, const char *name, failure *f)
{
    process_end end;
    char *program = find_program("gnuplot"), *script = join(".", name, "gnuplot");
    int code;
    if (!program)
        code = fail(f, EX_UNAVAILABLE, "there is no gnuplot, which draws the figures: Debian package gnuplot-nox");
    else if (!script)
        code = fail(f, EX_SOFTWARE, "no memory for a figure");
    else {
        const char *argv[] = {program, script, NULL};
        code = run_process(argv, dir, &end, f);
        if (!code && end.status)
            code = fail(f, EX_SOFTWARE, "gnuplot cannot draw %s: %.300s", name, first_complaint(end.output));
        free(end.output);
    }
    free(program);
    free(script);
    return code;
}

/* ---- what it has drawn ------------------------------------------------------------------------------------------- */
/* Flushes a file that gnuplot has written and gives it its name. */
static int keep_drawing(const char *partial, const char *path, failure *f)
{
    struct stat about;
    int fd = open(partial, O_RDONLY | O_CLOEXEC);
    bool whole = fd >= 0 && !fstat(fd, &about) && about.st_size > 0 && !fsync(fd);
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !whole)
        return fail(f, EX_IOERR, "%s: gnuplot has not written it whole", path);
    if (fd < 0)
        return fail(f, EX_CANTCREAT, "%s: gnuplot could not write it: %s", path, strerror(error));
    return rename(partial, path) ? fail(f, EX_IOERR, "%s: %s", path, strerror(errno)) : 0;
}

static int draw_one(const char *dir, const char *name, size_t format, unsigned width, unsigned height,
                    const char *script, failure *f)
{
    char ending[16];
    snprintf(ending, sizeof ending, "%s.partial", formats[format].ending);
    char *path = join(dir, name, formats[format].ending), *partial = join(dir, name, ending),
         *text = join(dir, name, "gnuplot");
    int code = path && partial && text ? write_script(dir, name, format, width, height, script, f)
                                       : fail(f, EX_SOFTWARE, "no memory for a figure");
    if (!code)
        code = run_script(dir, name, f);
    if (!code)
        code = keep_drawing(partial, path, f);
    if (code && partial)
        unlink(partial);
    if (text)
        unlink(text);
    free(path);
    free(partial);
    free(text);
    return code;
}

int draw_figure(const char *dir, const char *name, unsigned width, unsigned height, const char *script, failure *f)
{
    int code = 0;
    for (size_t format = 0; format < FORMATS && !code; format++)
        code = draw_one(dir, name, format, width, height, script, f);
    return code;
}
