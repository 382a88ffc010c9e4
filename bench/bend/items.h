/* items.h - an item-response model of 200 dimensions; its truth is in items.txt. */
#ifndef BEND_ITEMS_H
#define BEND_ITEMS_H
#include "targets.h"

void bend_items(bend_target *t);

/* Finds the truth by long chains and bridge sampling, and writes it to this file; prints the error of the log
 * evidence. */
void bend_items_refer(const char *path);
#endif
