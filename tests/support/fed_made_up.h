/* A made-up log of a simulation, for tests of programs that read logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MADE_UP_H
#define FED_MADE_UP_H

#include "deploy/sim/report/sim_log.h"

/** Make a log. rate: a factor near 1 on bytes and learning. Free the log with sim_log_free. */
void fed_made_up_log(sim_log *log, size_t clients, size_t rounds, double rate);

#endif
