/* When a Linux device may train: while it charges, on a network that costs nothing, unused. */
#ifndef FEDCLIENT_ELIGIBILITY_H
#define FEDCLIENT_ELIGIBILITY_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/** What must hold. Zeroed: nothing. */
typedef struct fedclient_conditions {
    bool charging;  /* external power, or no battery at all */
    bool unmetered; /* NetworkManager does not call the connection metered */
    bool idle;      /* systemd-logind says that nobody uses the device */
    char file[256]; /* this path exists: for what a script decides; "": no such condition */

    const char *power; /* the directory of power supplies; NULL: /sys/class/power_supply */

    /* the library's own: what busctl said last, and when (fed_clock_monotonic_ms) */
    char metered[16], unused[16];
    int64_t asked_ms; /* 0: never */
} fedclient_conditions;

/** Read "charging,unmetered,idle,file:PATH", any of them, separated by commas, into zeroed
 * conditions. FED_EINVAL an unknown word, or a path that is too long. */
fed_status fedclient_conditions_parse(const char *text, fedclient_conditions *conditions,
                                      fed_error *err) FED_CHECKED;

/**
 * Do all of them hold? For fedclient_options.may_train. Reads /sys each time; runs systemd's
 * program busctl for `unmetered` and `idle`, every 15 s at most. What can't be found out does not
 * hold. Errors FED_EBUSY one does not, and *err says which
 */
fed_status fedclient_conditions_hold(fedclient_conditions *conditions, fed_error *err) FED_CHECKED;

FED_API_END

#endif
