/* How much disk and memory a task takes: estimated before it is queued. */
#ifndef FEDSERVER_NEEDS_H
#define FEDSERVER_NEEDS_H

#include "fedserver/stores/store.h"

/** Estimate what a task takes while it runs. The model's part of the disk is what it comes to after
 * some rounds; updates are as large as their codec can make them. */
fed_status fedserver_needs_estimate(const fedserver_task *task, fedserver_needs *needs,
                                    fed_error *err) FED_CHECKED;

/** FED_ERANGE: the store can't hold such a model. FED_ENOSPC: so little is free in the directory
 * that the model's part does not fit. */
fed_status fedserver_needs_check(const fedserver_needs *needs, const char *directory,
                                 fed_error *err) FED_CHECKED;

#endif
