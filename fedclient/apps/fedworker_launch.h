/* fedworker launch: start a job of MPI under a judge, and again with those who are left. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_FEDWORKER_LAUNCH_H
#define FEDCLIENT_APPS_FEDWORKER_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"
#include "feddc/link.h"

/** What --help says of it. */
extern const char fedworker_launch_usage[];

/**
 * Run the command: argv[0] is "launch", its options follow, then "--" and the job's command. The
 * job's processes find the judge by fedworker_launched. After a verdict the job is ended, and
 * started again without those who failed, as long as --min are left.
 *
 * code    the exit status to end with, where FED_OK is returned
 * Errors  FED_EINVAL the command line; FED_EIO the job ended: the sentence is the verdict
 */
fed_status fedworker_launch(int argc, char **argv, int *code, fed_error *err) FED_CHECKED;

/** This process belongs to a job of fedworker launch: where its judge listens, and the gang's
 * secret. It is enough if rank 0 knows them and tells the others. */
bool fedworker_launched(char address[128], uint8_t secret[FEDDC_SECRET]);

#endif
