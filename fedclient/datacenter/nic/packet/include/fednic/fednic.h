/* The software NIC as a whole: what the program fednic runs, and asks a running one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_FEDNIC_H
#define FEDNIC_FEDNIC_H

#include <stdbool.h>

#include "fed/bytes.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * The NIC stands between a TAP device, which is the host's interface, and the line: a packet
 * socket on a real interface without an address of its own (INCEPTIONN, section VI). Linux only.
 * docs/nic.md is its user's page.
 */

typedef struct fednic_options {
    const char *tun;     /* the host's interface, such as "nic0"; it is made if it is not there */
    const char *wire;    /* the line's interface, such as "eth0" */
    const char *control; /* path of the socket that reports are asked from */
    int e;               /* the bound is 2^-e, 1 to 15 */
    bool bypass;         /* the kernel forwards unmarked frames itself: Linux 6.6 or later */
} fednic_options;

/** What a run has to say to a person: that it is ready, or a warning. A sentence each. */
typedef void fednic_report_line(void *user, const char *sentence);

/**
 * Be the NIC until `stop` is readable. Everything is in place when *say is called with a sentence
 * that begins with "ready". A line that goes down and comes up again ends nothing.
 *
 * stop  a descriptor of the caller's, such as a signalfd
 *
 * Errors: FED_EINVAL a name or e is out of range; FED_EAUTH root's rights are missing;
 * FED_ENOTFOUND no /dev/net/tun, no such interface; FED_EBUSY the TAP or the control socket is
 * another one's; FED_EIO a device failed, or is gone; FED_ENOMEM. The thread is the caller's.
 */
fed_status fednic_run(const fednic_options *options, int stop, fednic_report_line *say, void *user,
                      fed_error *err) FED_CHECKED;

typedef enum fednic_format { FEDNIC_TABLE, FEDNIC_PROMETHEUS } fednic_format;

/** Ask the NIC behind a control socket for its report, and append the text. Errors: FED_ENOTFOUND
 * none runs there; FED_EAUTH it is another user's; FED_ETIMEOUT no answer in five seconds;
 * FED_EIO; FED_ENOMEM. */
fed_status fednic_ask(const char *control, fednic_format format, fed_writer *text,
                      fed_error *err) FED_CHECKED;

FED_API_END

#endif
