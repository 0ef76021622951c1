/* Names and texts of the status codes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/status.h"

#include <stddef.h>

static const struct {
    const char *name, *text;
} statuses[] = {
    [FED_OK] = {"FED_OK", "success"},
    [FED_EINVAL] = {"FED_EINVAL", "invalid argument"},
    [FED_EFORMAT] = {"FED_EFORMAT", "malformed data"},
    [FED_ENOSPC] = {"FED_ENOSPC", "no space left"},
    [FED_ENOMEM] = {"FED_ENOMEM", "out of memory"},
    [FED_EIO] = {"FED_EIO", "input or output failed"},
    [FED_ENOTFOUND] = {"FED_ENOTFOUND", "not found"},
    [FED_EEXIST] = {"FED_EEXIST", "exists already"},
    [FED_EAUTH] = {"FED_EAUTH", "not authorised"},
    [FED_ETIMEOUT] = {"FED_ETIMEOUT", "timed out"},
    [FED_ENET] = {"FED_ENET", "network failure"},
    [FED_ESTATE] = {"FED_ESTATE", "not possible in this state"},
    [FED_ENONFINITE] = {"FED_ENONFINITE", "not a finite number"},
    [FED_ERANGE] = {"FED_ERANGE", "out of range"},
    [FED_EVERSION] = {"FED_EVERSION", "unsupported version"},
    [FED_EBUSY] = {"FED_EBUSY", "busy"},
    [FED_ECANCELED] = {"FED_ECANCELED", "canceled"},
    [FED_EDECLINED] = {"FED_EDECLINED", "declined"},
};

enum { STATUS_COUNT = sizeof statuses / sizeof statuses[0] };

const char *fed_status_name(fed_status status) {
    return (size_t)status < STATUS_COUNT ? statuses[status].name : "FED_?";
}

const char *fed_status_text(fed_status status) {
    return (size_t)status < STATUS_COUNT ? statuses[status].text : "unknown status";
}
