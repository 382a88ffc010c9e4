/* say.h - the program speaks to its user on stderr through these, so that nothing of what files, models and paths hold
 * reaches a terminal as a command. Results on stdout take put_foreign (text.h). */
#ifndef WV_SAY_H
#define WV_SAY_H

/* A line "wvgd: ...". */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Every line of a text as such a line. */
void say_lines(const char *text);

/* A line as it is. */
__attribute__((format(printf, 1, 2))) void say_plainly(const char *format, ...);
#endif
