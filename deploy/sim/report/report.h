/* The HTML page that shows one run, or compares several. It needs no other file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_REPORT_H
#define FEDSIM_REPORT_H

#include "deploy/sim/report/results.h"

/** Write the page, atomically. count is at least 1. If title is NULL or "", it is made from the
 * runs. */
fed_status sim_report_write(const char *path, const char *title, const sim_result *runs,
                            size_t count, fed_error *err) FED_CHECKED;

#endif
