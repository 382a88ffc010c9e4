/* status.c - exit codes of sysexits.h and statuses of the library, one for the other. */
#include "status.h"
#include "wvgd_tools.h"
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const struct {
    int exit;
    wvgd_status status;
} pairs[] = {{EX_USAGE, WVGD_E_ARGUMENT},   {EX_DATAERR, WVGD_E_DATA},
             {EX_NOINPUT, WVGD_E_NO_INPUT}, {EX_UNAVAILABLE, WVGD_E_UNAVAILABLE},
             {EX_SOFTWARE, WVGD_E_MODEL},   {EX_CANTCREAT, WVGD_E_CREATE},
             {EX_IOERR, WVGD_E_IO},         {EX_TEMPFAIL, WVGD_E_STATE}};

int wvgd_exit_code(wvgd_status status)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].status == status)
            return pairs[i].exit;
    return status == WVGD_OK ? 0 : EX_SOFTWARE;
}

wvgd_status pass_failure(wvgd_error *error, const failure *f)
{
    wvgd_status status = WVGD_E_MODEL;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].exit == f->code)
            status = pairs[i].status;
    if (error) {
        error->code = status;
        snprintf(error->text, sizeof error->text, "%s", f->text);
    }
    return status;
}

void name_options(failure *f)
{
    char *to = f->text;
    bool command = false;
    for (const char *at = f->text; *at; at++) {
        bool begins = at == f->text || strchr(" \n('", at[-1]);
        command = (command && !strchr(":,;\n", *at)) || (begins && !strncmp(at, "wvgd ", 5));
        if (begins && !command && !strncmp(at, "--", 2) && at[2] >= 'a' && at[2] <= 'z')
            at += 2;
        *to++ = *at;
    }
    *to = '\0';
}

bool lacks(wvgd_error *error, const char *function, const char *name, const void *argument)
{
    failure f;
    if (argument)
        return false;
    fail(&f, EX_USAGE, "%s: the argument %s is NULL", function, name);
    pass_failure(error, &f);
    return true;
}
