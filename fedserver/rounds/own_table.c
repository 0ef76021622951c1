/* Sums up custom metrics by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/own_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static fedserver_own_metric *row_of(fedserver_own_table *table, const char *name) {
    uint32_t k = 0;
    while (k < table->count && strcmp(table->rows[k].name, name) < 0) {
        k++;
    }
    fedserver_own_metric *row = &table->rows[k];
    if (k < table->count && strcmp(row->name, name) == 0) {
        return row;
    }
    if (table->count == FEDSERVER_OWN_NAMES) {
        return NULL;
    }
    assert(table->count < FEDSERVER_OWN_NAMES);
    memmove(row + 1, row, (table->count - k) * sizeof *row);
    *row = (fedserver_own_metric){.reports = 0};
    snprintf(row->name, sizeof row->name, "%s", name);
    table->count++;
    return row;
}

/* The weighted mean of two means. Each is multiplied by a fraction first, so the sum can't
 * overflow. Rounding must not push the result beyond the reported values. */
static double merged_mean(const fedserver_own_metric *a, const fedserver_own_metric *b) {
    const double all = (double)a->samples + (double)b->samples;
    const double mean = a->mean * ((double)a->samples / all) + b->mean * ((double)b->samples / all);
    const double least = a->least < b->least ? a->least : b->least;
    const double most = a->most > b->most ? a->most : b->most;
    return mean < least ? least : mean > most ? most : mean;
}

void fedserver_own_add(fedserver_own_table *table, const fedserver_own_metric *more) {
    fedserver_own_metric *row = row_of(table, more->name);
    if (row == NULL) {
        table->dropped += more->reports;
        return;
    }
    if (row->reports == 0) {
        *row = *more;
        return;
    }
    row->mean = merged_mean(row, more);
    row->least = more->least < row->least ? more->least : row->least;
    row->most = more->most > row->most ? more->most : row->most;
    row->reports += more->reports;
    row->samples += more->samples;
}

void fedserver_own_count(fedserver_own_table *table, const fed_own_metrics *told,
                         uint32_t samples) {
    for (uint32_t k = 0; k < told->count; k++) {
        const double value = told->items[k].value;
        fedserver_own_metric one = {
            .reports = 1, .samples = samples, .mean = value, .least = value, .most = value};
        memcpy(one.name, told->items[k].name, sizeof one.name);
        fedserver_own_add(table, &one);
    }
}
