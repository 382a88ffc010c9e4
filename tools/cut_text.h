/* cut_text.h - text from outside, as a terminal may show it. */
#ifndef WV_CUT_TEXT_H
#define WV_CUT_TEXT_H
#include <stdio.h>

/* Text in a terminal: control characters as '?', cut to `most` columns with an ellipsis. Returns the columns shown. */
int put_cut(FILE *stream, const char *text, int most);
#endif
