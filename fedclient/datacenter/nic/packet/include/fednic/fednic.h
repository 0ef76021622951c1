/* The software NIC: run it, or ask a running one for its report. For the program fednic. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FEDNIC_H
#define FEDNIC_FEDNIC_H

#include <stdbool.h>

#include "fed/bytes.h"
#include "fed/error.h"

FED_API_BEGIN

/* The NIC forwards frames between a TAP device, the host's interface, and the line: a packet socket
 * on a real interface without an address (INCEPTIONN, section VI). Linux only. See docs/nic.md. */

typedef struct fednic_options {
    const char *tun;     /* the host's interface, such as "nic0"; created if missing */
    const char *wire;    /* the line's interface, such as "eth0" */
    const char *control; /* path of the Unix socket that answers requests for reports */
    int e;               /* error bound 2^-e; e is 1 to 15 */
    bool bypass;         /* the kernel forwards unmarked frames itself: Linux 6.6 or later */
} fednic_options;

/** Called with a sentence for the user: the NIC is ready, or a warning. */
typedef void fednic_report_line(void *user, const char *sentence);

/**
 * Run the NIC in the caller's thread until `stop` is readable. The NIC works once `say` was called
 * with a sentence that begins with "ready". A line that goes down and up again does not end the
 * NIC.
 *
 * stop  a descriptor of the caller's, such as a signalfd
 *
 * Errors: FED_EINVAL a name or e is out of range, or wire is no Ethernet; FED_EAUTH root's rights
 * are missing; FED_EVERSION the kernel is too old for bypass;
 * FED_ENOTFOUND no /dev/net/tun, no such interface; FED_EBUSY another process uses the TAP device
 * or the control socket; FED_EIO a device failed, or is gone; FED_ENOMEM.
 */
fed_status fednic_run(const fednic_options *options, int stop, fednic_report_line *say, void *user,
                      fed_error *err) FED_CHECKED;

typedef enum fednic_format { FEDNIC_TABLE, FEDNIC_PROMETHEUS } fednic_format;

/** Ask the NIC behind a control socket for its report, and append the text. Errors: FED_ENOTFOUND
 * no NIC answers there; FED_EAUTH another user's socket; FED_ETIMEOUT no answer in five seconds;
 * FED_EINVAL the path is too long; FED_EIO; FED_ENOMEM. */
fed_status fednic_ask(const char *control, fednic_format format, fed_writer *text,
                      fed_error *err) FED_CHECKED;

FED_API_END

#endif
