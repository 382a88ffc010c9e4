/* file_set.h - files that take their places together.
 *
 * Every file that the program writes goes this way, alone or with others (docs/formats.md, "How files are written"):
 *
 *     add_file       a new file beside its place, under a temporary name that nobody else has
 *     commit_files   checks that all was written, flushes it to the disk once, renames, flushes the directory
 *
 * Up to the renames everything is as it was. A set that is `whole` first leaves a list of its renames and removals in
 * the directory: if the process is killed between them, whoever comes next finds the list and completes it
 * (complete_files). What is left of a process that was killed before that is removed by the next writer. */
#ifndef WV_FILE_SET_H
#define WV_FILE_SET_H
#include "failure.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { SET_FILES = 20 };

typedef struct {
    FILE *stream; /* what is written; NULL: the file is there already, and moves */
    struct sink *sink;
    char *shown;     /* the path in messages */
    char *temporary; /* DIR/.NAME.wvgd-XXXXXXXXXXXXXXXX, where it is; NULL: a device, which is written directly */
    char *place;     /* DIR/NAME, where it goes */
} staged_file;

typedef struct {
    const char *dir;
    const char *shown; /* of a single file: its path in messages, if not DIR/NAME */
    bool whole;        /* all of them or none, even if the process is killed; the caller has locked the directory */
    bool passing;      /* it will do no harm if they are lost when the power fails: nothing is flushed */
    size_t files, removals;
    staged_file file[SET_FILES];
    const char *removal[SET_FILES]; /* names of files that go when these come */
} file_set;

/* Opens the file that will be DIR/NAME. NULL with *f filled: EX_CANTCREAT, or EX_IOERR when the disk is full. */
FILE *add_file(file_set *s, const char *name, failure *f);

/* A device or pipe that is written as it is. */
FILE *add_device(file_set *s, const char *path, failure *f);

/* With the others, DIR/FROM becomes DIR/NAME; DIR/NAME is removed. */
int add_move(file_set *s, const char *from, const char *name, failure *f);
void add_removal(file_set *s, const char *name);

/* Puts all in place. 0, or EX_IOERR with the old files untouched. Frees the set in any case. */
int commit_files(file_set *s, failure *f);

/* Removes what was written, and frees the set. */
void abandon_files(file_set *s);

/* The list of renames that a process has left, if it has; `may_change` says of which names it may speak. The directory
 * is locked. */
int complete_files(const char *dir, bool (*may_change)(const char *name), failure *f);
bool has_incomplete_files(const char *dir);

/* Is this what a file called `name` (NULL: any) is called before it is in place, or the list of renames? */
bool is_temporary(const char *file, const char *name);

/* Removes files in `dir` that processes which are gone have left of `name` (NULL: of any name). */
void remove_leftovers(const char *dir, const char *name);
#endif
