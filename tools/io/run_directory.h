/* run_directory.h - the directory that a run lives in (docs/formats.md): its files, when it may be
 * used, and the checkpoint. Functions return 0, or an exit code with *f filled. Everything that is
 * read may have been written by anybody. */
#ifndef WV_RUN_DIRECTORY_H
#define WV_RUN_DIRECTORY_H
#include "failure.h"
#include "file_set.h"
#include "wvgd.h"
#include "write.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define RUN_FILE "run.json"
#define DRAWS_FILE "draws.csv"
#define PARTICLES_FILE "particles.csv"
#define TRACE_FILE "trace.csv"
#define HISTORY_FILE "history.csv"
#define CHECKPOINT_FILE "checkpoint" /* the state to go on from */
/* the closed state, where it is another one: of a run that ended before it had converged */
#define RESULT_FILE "result"
#define NEXT_FILE "checkpoint.next" /* the checkpoint of a run that takes the place of the others when it has ended */

/* DIR/FILE, to be freed; NULL without memory. */
char *run_path(const char *dir, const char *file);

/* May a new run be written here? EX_CANTCREAT if not: something else is there, or a run and not `overwrite`. */
int check_run_directory(const char *dir, bool overwrite, failure *f);

/* Makes the directory, or takes an existing one, and locks it against other processes as long as *lock (a
 * descriptor) is open. `made` says whether it is new. What a killed process has left is completed or removed. */
int make_run_directory(const char *dir, bool overwrite, int *lock, bool *made, failure *f);
int lock_run_directory(const char *dir, int *lock, failure *f);

/* Ends the lock also where processes that were forked meanwhile have the descriptor, too. */
void unlock_run_directory(int lock);

/* Completes what a process was about to put in place when it was killed. For those who only read. */
int settle_run(const char *dir, failure *f);

/* Of which run.json there is. Who reads several files of a run, one after another, takes it before and after: if
 * they differ, another process has put a new run in place meanwhile. */
typedef struct {
    ino_t file;
    off_t size;
    time_t second;
    long nanosecond;
} run_stamp;
run_stamp stamp_of_run(const char *dir);
bool same_stamp(const run_stamp *a, const run_stamp *b);

/* Which file is the checkpoint of a run that goes on, and of one that begins. If another run is there, it stays until
 * the new one has ended. */
const char *file_to_resume(const char *dir);
const char *file_to_begin(const char *dir);

/* Removes the checkpoint `file` of a run that came to nothing, and the directory if `made`. */
void discard_run(const char *dir, const char *file, bool made);

/* The files of a run to be written: add them with the functions below, then commit_files. The directory is locked. */
file_set set_of_run(const char *dir);

/* Is this the path, links followed, of a file that a run directory has or may get? */
bool belongs_to_run(const char *path);

/* begin_file (write.h), but EX_CANTCREAT for such a file. */
int begin_other_file(whole_file *w, const char *path, failure *f);

/* A checkpoint: what was asked, as JSON, and the bytes of wvgd_save. */
int write_checkpoint(file_set *s, const char *file, const json_t *asked, const void *state, size_t size, failure *f);
int read_checkpoint(const char *dir, const char *file, json_t **asked, void **state, size_t *size, failure *f);
bool has_run_file(const char *dir, const char *file);

/* Is there a run in dir? EX_NOINPUT: it does not exist, or is something else. */
int find_run(const char *dir, failure *f);

/* run.json. Reading checks that what other commands need is there: EX_DATAERR if not. */
int write_run(file_set *s, const json_t *run, failure *f);
int read_run(const char *dir, json_t **run, failure *f);

/* particles.csv and trace.csv. names: [D] of the coordinates. */
int write_particles(file_set *set, const wvgd_results *r, const char *const *names, failure *f);
int write_trace(file_set *set, size_t rows, size_t N, const wvgd_trace_row *row, const double *beta, failure *f);

/* A number that changes with the content of a file: FNV-1a. */
int hash_file(const char *path, uint64_t *hash, failure *f);
uint64_t hash_text(const char *text);
#endif
