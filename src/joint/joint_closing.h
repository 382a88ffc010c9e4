/* joint_closing.h - the closing pass: fresh draws after the last iteration, so that all results describe one partition.
 */
#ifndef WV_JOINT_CLOSING_H
#define WV_JOINT_CLOSING_H
#include "wvgd.h"

/* Plans the first trial. */
void wv_joint_closing_begin(wvgd_fit *f);

/* Whether more draws are planned than a run should end with after a limit has struck. */
bool wv_joint_closing_long(const wvgd_fit *f);

/* One chunk of closing draws, of the trial or the final stage. complete: all draws of the stage are there. */
wvgd_status wv_joint_closing_ask(wvgd_fit *f, wvgd_error *error);
wvgd_status wv_joint_closing_tell(wvgd_fit *f, bool *complete, wvgd_error *error);

/* Results from the final draws of a fit that is done. */
void wv_joint_closing_finish(wvgd_fit *f);
#endif
