/* Check, write and read lists of custom metrics. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/own_metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool name_allowed(const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-./";
    const size_t len = strspn(name, allowed);
    return len > 0 && len < FED_OWN_NAME && name[len] == '\0';
}

fed_status fed_own_metrics_set(fed_own_metrics *m, const char *name, double value, fed_error *err) {
    if (!name_allowed(name)) {
        return fed_fail(err, FED_EINVAL,
                        "metric \"%.40s\": a name has 1 to %d letters, digits, _, -, . and /", name,
                        FED_OWN_NAME - 1);
    }
    if (!isfinite(value)) {
        return fed_fail(err, FED_EINVAL,
                        "metric \"%s\" is %g: report a finite number, or leave the metric out",
                        name, value);
    }
    uint32_t k = 0;
    while (k < m->count && strcmp(m->items[k].name, name) != 0) {
        k++;
    }
    if (k == FED_OWN_METRICS) {
        return fed_fail(err, FED_EINVAL,
                        "metric \"%s\" is one too many: a round takes %d; leave some out", name,
                        FED_OWN_METRICS);
    }
    snprintf(m->items[k].name, sizeof m->items[k].name, "%s", name);
    m->items[k].value = value;
    m->count += k == m->count;
    return FED_OK;
}

void fed_own_metrics_write(fed_writer *w, const fed_own_metrics *m) {
    if (m->count == 0) {
        return;
    }
    fed_write_u8(w, (uint8_t)m->count);
    for (uint32_t k = 0; k < m->count; k++) {
        fed_write_str(w, m->items[k].name);
        fed_write_f64(w, m->items[k].value);
    }
}

static bool fill(fed_reader *r, fed_own_metrics *m) {
    const uint8_t count = fed_read_u8(r);
    for (uint32_t k = 0; k < count && m->count == k; k++) {
        char name[FED_OWN_NAME];
        fed_read_str(r, name, sizeof name);
        const double value = fed_read_f64(r);
        if (r->status != FED_OK || fed_own_metrics_set(m, name, value, NULL) != FED_OK) {
            return false;
        }
    }
    return r->status == FED_OK && count > 0 && m->count == count;
}

fed_status fed_own_metrics_read(fed_reader *r, fed_own_metrics *m) {
    FED_TRY(r->status);
    fed_own_metrics read = {.count = 0};
    const bool none = fed_reader_left(r) == 0 || r->data[r->pos] == FED_OWN_ENVELOPE;
    if (!none && !fill(r, &read)) {
        r->status = FED_EFORMAT;
        return r->status;
    }
    *m = read;
    return FED_OK;
}
