/* stan_csv.c - the comment lines that readers of Stan CSV look for, and rows of draws. */
#include "stan_csv.h"
#include "text.h"
#include "write.h"
#include "wvgd.h"

/* Text in a comment stays in its line. */
static void put_comment(FILE *stream, const char *key, const char *text)
{
    fprintf(stream, "# %s = ", key);
    while (*text)
        text += put_safe(stream, text);
    putc('\n', stream);
}

void put_stan_head(FILE *stream, const stan_csv_head *head)
{
    /* whose layout this is */
    fputs("# stan_version_major = 2\n# stan_version_minor = 33\n# stan_version_patch = 0\n", stream);
    put_comment(stream, "model", head->model);
    fputs("# method = pathfinder\n#   pathfinder\n", stream);
    fprintf(stream,
            "#     num_psis_draws = %zu\n#     num_paths = %zu\n#     save_single_paths = 0\n#     num_draws = %zu\n",
            head->draws, head->cells, head->draws);
    fprintf(stream, "#     num_samples = %zu\n#     num_warmup = 0\n#     save_warmup = 0\n#     thin = 1\n",
            head->draws); /* rstan wants these of any method */
    fprintf(stream, "# id = 1\n# random\n#   seed = %llu\n", (unsigned long long)head->seed);
    put_comment(stream, "written_by", "wvgd " WVGD_VERSION);
    put_comment(stream, "kind", head->kind);
    fputs("# the head is that of the method pathfinder of CmdStan, so that programs read the file; the draws are no "
          "chain\n",
          stream);
    fputs("lp__,lp_approx__,path__,log_weight__", stream);
    for (size_t i = 0; i < head->columns; i++) {
        putc(',', stream);
        put_name(stream, head->names[i]);
    }
    putc('\n', stream);
}

void put_stan_draw(FILE *stream, const stan_csv_draw *draw, size_t columns, const double *values)
{
    put_number(stream, draw->log_p);
    putc(',', stream);
    put_number(stream, draw->log_q);
    fprintf(stream, ",%zu,", draw->cell + 1);
    put_number(stream, draw->log_weight);
    for (size_t i = 0; i < columns; i++) {
        putc(',', stream);
        put_number(stream, values[i]);
    }
    putc('\n', stream);
}
