/* What the log's two writers to stderr share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LOG_STDERR_H
#define FED_LOG_STDERR_H

#include <stdbool.h>

#include "fed/log.h"

/** Is stderr systemd's journal? Compares it with the device and inode in JOURNAL_STREAM, since a
 * child process with another stderr inherits that variable too. */
bool fed_log_to_journal(void);

const char *fed_log_level_name(fed_log_level level);

/** The level's priority of syslog. */
int fed_log_priority(fed_log_level level);

#endif
