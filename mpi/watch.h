/* watch.h - a process that looks after another one, and says how it has died. */
#ifndef WV_MPI_WATCH_H
#define WV_MPI_WATCH_H

/* Returns in a new process, which is to do the work. The one that called stays behind until that has ended, says why if
 * it was killed or failed on another rank than 0, and ends with its code; with 70 if it was killed. */
void watch_begin(void);

/* The work: its rank. What ranks other than 0 print is not seen, but for the last line if they fail. */
void watch_rank(int rank);

/* The work: MPI has been ended. If the process fails before, the whole job ends with its code. */
void watch_done(void);
#endif
