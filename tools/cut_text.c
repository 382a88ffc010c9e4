/* cut_text.c - text in a terminal. */
#include "cut_text.h"
#include "text.h"
#include <langinfo.h>
#include <string.h>

/* Columns of text as it is shown, taking each character for one. */
static int columns(const char *text)
{
    int n = 0;
    bool plain;
    for (size_t length; *text; text += length) {
        length = read_character(text, &plain);
        n += plain ? 1 : 4 * (int)length; /* \xNN */
    }
    return n;
}

int put_cut(FILE *stream, const char *text, int most)
{
    int wide = columns(text), shown = 0;
    const char *ellipsis = strcmp(nl_langinfo(CODESET), "UTF-8") ? "." : "\xe2\x80\xa6";
    for (char character[5]; *text;) {
        text += show_character(text, character);
        if (wide > most && shown + columns(character) > most - 1) {
            fputs(ellipsis, stream);
            return shown + 1;
        }
        shown += columns(character);
        fputs(character, stream);
    }
    return shown;
}
