/* When a Linux device may train: while it charges, on an unmetered network, while it is idle. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_ELIGIBILITY_H
#define FEDCLIENT_ELIGIBILITY_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/** The conditions that must hold. Zeroed: no condition. */
typedef struct fedclient_conditions {
    bool charging;  /* external power, a charging or full battery, or no battery */
    bool unmetered; /* NetworkManager says that the connection is not metered */
    bool idle;      /* systemd-logind says that nobody uses the device */
    char file[256]; /* this path must exist, so that a script can decide; "": no such condition */

    const char *power; /* the directory of power supplies; NULL: /sys/class/power_supply */

    /* For the library only: busctl's last answers, and their time (fed_clock_monotonic_ms). */
    char metered[16], unused[16];
    int64_t asked_ms; /* 0: not asked yet */
} fedclient_conditions;

/** Read any of "charging,unmetered,idle,file:PATH", separated by commas, into zeroed conditions.
 * FED_EINVAL: an unknown word, or a path that is too long. */
fed_status fedclient_conditions_parse(const char *text, fedclient_conditions *conditions,
                                      fed_error *err) FED_CHECKED;

/** For fedclient_options.may_train. For `charging` reads /sys at each call; for `unmetered` and
 * `idle` runs systemd's busctl, every 15 s at most. Without an answer from busctl the condition
 * does not hold. FED_EBUSY: a condition does not hold, and *err says which. */
fed_status fedclient_conditions_hold(fedclient_conditions *conditions, fed_error *err) FED_CHECKED;

FED_API_END

#endif
