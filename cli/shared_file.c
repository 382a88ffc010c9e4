/* shared_file.c - looks for a file of the program's where an installed program has it, then where
 * the build tree does. */
#include "shared_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#ifndef WVGD_DATA_FROM_BIN
#define WVGD_DATA_FROM_BIN "../share"
#endif

char *find_shared(const char *name, failure *f)
{
    static const char *const places[] = {WVGD_DATA_FROM_BIN, "share"}; /* installed; in the build tree */
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        size_t size = strlen(program) + strlen(places[i]) + strlen(name) + sizeof "//wvgd/";
        char *path = malloc(size);
        if (!path) {
            fail(f, EX_SOFTWARE, "no memory to find %s", name);
            return NULL;
        }
        snprintf(path, size, "%s/%s/wvgd/%s", program, places[i], name);
        if (!access(path, R_OK))
            return path;
        free(path);
    }
    fail(f, EX_UNAVAILABLE, "cannot find %s, which belongs to wvgd: expected it in %s/%s/wvgd", name,
         slash ? program : "?", places[0]);
    return NULL;
}
