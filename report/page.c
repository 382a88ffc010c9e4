/* page.c - the frame of the page, embedded by the assembler, and the data in it. In the data every character that
 * HTML could take for markup is written as \uXXXX. */
#include "page.h"
#include "json_bytes.h"
#include "write.h"
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#ifdef WVGD_PAGE
__asm__(".section .rodata\n"
        ".global wv_page_frame, wv_page_end\n"
        "wv_page_frame: .incbin \"" WVGD_PAGE "\"\n"
        "wv_page_end: .byte 0\n"
        ".previous\n");
extern const char wv_page_frame[], wv_page_end[];
#else
static const char wv_page_frame[] = "", *const wv_page_end = wv_page_frame;
#endif

static const char marker[] = "@@WVGD-DATA@@";

bool has_page(void)
{
    const char *begin = wv_page_frame;
    return wv_page_end > begin;
}

/* JSON in ASCII, inside a script element. */
static void put_inert(FILE *s, const char *json)
{
    for (; *json; json++)
        if (*json == '<' || *json == '>' || *json == '&')
            fprintf(s, "\\u%04x", (unsigned)*json);
        else
            putc(*json, s);
}

int write_page(const char *path, const json_t *data, failure *f)
{
    whole_file w;
    const char *at = has_page() ? strstr(wv_page_frame, marker) : NULL;
    if (!at)
        return fail(f, EX_UNAVAILABLE,
                    "this wvgd was built without the report page. To build it, install Node.js 18 or later (on Debian: "
                    "apt-get install nodejs), run cmake again and build; the first build needs the npm registry. wvgd "
                    "summary prints the same numbers, wvgd report --figures writes the main plots");
    char *json = dump_json(data, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    if (!json)
        return fail(f, EX_SOFTWARE, "no memory for the page");
    int code = begin_file(&w, path, f);
    if (!code) {
        fwrite(wv_page_frame, 1, (size_t)(at - wv_page_frame), w.stream);
        put_inert(w.stream, json);
        fwrite(at + strlen(marker), 1, (size_t)(wv_page_end - at) - strlen(marker), w.stream);
        code = finish_file(&w, f);
    }
    free(json);
    return code;
}
