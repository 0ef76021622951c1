/* Custom metrics: names and numbers that a trainer reports beside loss and accuracy
 * (docs/protocol.md#custom-metrics). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_OWN_METRICS_H
#define FED_OWN_METRICS_H

#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"

FED_API_BEGIN

enum {
    FED_OWN_METRICS = 16,    /* the most metrics of one update, or of one evaluation */
    FED_OWN_NAME = 32,       /* bytes of a name, with its NUL */
    FED_OWN_ENVELOPE = 0xfe, /* an envelope's first byte, with which no list begins */
    FED_OWN_BYTES = 1 + FED_OWN_METRICS * (FED_OWN_NAME + 8) /* the most bytes of a list */
};

/** One metric. The name has 1 to 31 letters, digits, '_', '-', '.' and '/'. The value is finite. */
typedef struct fed_own_metric {
    char name[FED_OWN_NAME];
    double value;
} fed_own_metric;

/** A list of metrics. No name occurs twice. */
typedef struct fed_own_metrics {
    uint32_t count;
    fed_own_metric items[FED_OWN_METRICS];
} fed_own_metrics;

/**
 * Set a metric. A name that is set already gets the new value.
 *
 * Errors  FED_EINVAL the name is not allowed, the value is NaN or infinite, or the list is full.
 *                    The list stays as it was, and *err says what to do
 */
fed_status fed_own_metrics_set(fed_own_metrics *m, const char *name, double value,
                               fed_error *err) FED_CHECKED;

/** Append a list to a message: its count as one byte; then each name as a string, and each value as
 * the 8 bytes of an IEEE binary64. An empty list has no bytes. */
void fed_own_metrics_write(fed_writer *w, const fed_own_metrics *m);

/** Read a list. It is empty if no bytes are left, or if an envelope follows. FED_EFORMAT: a name
 * occurs twice, or a count, a name or a value is not allowed. *m is set only after a whole list
 * was read. */
fed_status fed_own_metrics_read(fed_reader *r, fed_own_metrics *m) FED_CHECKED;

FED_API_END

#endif
