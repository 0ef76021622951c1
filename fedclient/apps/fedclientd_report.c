/* Says why fedclientd, or fedworker as a device, ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "fedclient/apps/fedclientd.h"

void fedclientd_say_why(const fed_log *log, const char *program, const char *why) {
    if (log->write_about != NULL) {
        fed_logf(log, FED_LOG_ERROR, "%s", why);
    } else {
        fprintf(stderr, "%s: %s\n", program, why);
    }
}
