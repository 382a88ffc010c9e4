/* table.c - reads the text files of tests/data and data. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

FILE *table_open(const char *path)
{
    char full[1024];
    int length = snprintf(full, sizeof full, "%s/%s", WVGD_SOURCE_DIR, path);
    return length > 0 && (size_t)length < sizeof full ? fopen(full, "r") : NULL;
}

bool table_next(FILE *file, char line[TABLE_LINE])
{
    while (fgets(line, TABLE_LINE, file))
        if (line[0] != '#')
            return true;
    return false;
}

const char *table_numbers(const char *text, size_t n, double *value)
{
    for (size_t i = 0; i < n; i++) {
        char *end;
        value[i] = strtod(text, &end);
        if (end == text)
            return NULL;
        text = end + (*end == ',');
    }
    return text;
}

const char *table_find(const char *name, const char *key, char line[TABLE_LINE])
{
    char path[256];
    const char *rest = NULL;
    snprintf(path, sizeof path, "tests/data/%s", name);
    FILE *file = table_open(path);
    if (!file)
        return NULL;
    while (!rest && table_next(file, line))
        if (strncmp(line, key, strlen(key)) == 0)
            rest = line + strlen(key);
    fclose(file);
    return rest;
}
