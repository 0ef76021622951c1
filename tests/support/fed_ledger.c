/* A ledger of acknowledged updates. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_ledger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedcodec/envelope.h"

void fed_ledger_free(fed_ledger *ledger) {
    for (size_t k = 0; k < ledger->count; k++) {
        free(ledger->entries[k].body);
    }
    free(ledger->entries);
    *ledger = (fed_ledger){0};
}

fed_status fed_ledger_add(fed_ledger *ledger, uint32_t client, const uint8_t *body, size_t len,
                          fed_error *err) {
    fed_ledger_entry e = {.client = client, .len = len};
    fed_reader r;
    fed_reader_init(&r, body, len);
    FED_TRY(fed_update_read(&r, &e.head));
    e.head_len = r.pos;
    e.round = e.head.round;
    e.weight = 1;
    for (size_t k = 0; k < ledger->count; k++) {
        const fed_ledger_entry *old = &ledger->entries[k];
        if (old->client == client && old->head.lease == e.head.lease) {
            bool same = old->len == len && memcmp(old->body, body, len) == 0;
            return same
                       ? FED_OK
                       : fed_fail(err, FED_ESTATE,
                                  "client %u: two updates were acknowledged for one lease", client);
        }
    }
    fed_ledger_entry *grown = realloc(ledger->entries, (ledger->count + 1) * sizeof *grown);
    FED_REQUIRE(grown != NULL, FED_ENOMEM);
    ledger->entries = grown;
    e.body = malloc(len);
    FED_REQUIRE(e.body != NULL, FED_ENOMEM);
    memcpy(e.body, body, len);
    grown[ledger->count++] = e;
    return FED_OK;
}

static fed_status decode(const fed_ledger_entry *e, const fed_layout *layout, float *x,
                         fed_error *err) {
    return fedcodec_envelope_decode(e->body + e->head_len, e->len - e->head_len, layout, x, err);
}

fed_status fed_ledger_sum(const fed_ledger *ledger, const fed_layout *layout, uint32_t client,
                          double *sum, fed_error *err) {
    float *x = malloc(layout->size * sizeof *x);
    fed_status status = x == NULL ? FED_ENOMEM : FED_OK;
    for (size_t k = 0; k < ledger->count && status == FED_OK; k++) {
        if (ledger->entries[k].client != client) {
            continue;
        }
        status = decode(&ledger->entries[k], layout, x, err);
        for (size_t i = 0; i < layout->size && status == FED_OK; i++) {
            sum[i] += (double)x[i];
        }
    }
    free(x);
    return status;
}

/** The weight is that of FedBuff, 1 / sqrt(1 + staleness), in units of 1/64. */
fed_status fed_ledger_place(fed_ledger *ledger, uint64_t lease, uint32_t round) {
    for (size_t k = 0; k < ledger->count; k++) {
        fed_ledger_entry *e = &ledger->entries[k];
        if (e->head.lease == lease) {
            e->round = round;
            e->weight = (uint32_t)lround(64 / sqrt(1 + round - e->head.round));
            return FED_OK;
        }
    }
    return FED_ENOTFOUND;
}

size_t fed_ledger_round(const fed_ledger *ledger, uint32_t round) {
    size_t count = 0;
    for (size_t k = 0; k < ledger->count; k++) {
        count += ledger->entries[k].round == round ? 1 : 0;
    }
    return count;
}

/** sum += samples * weight * rint(x * 2^30); *divisor += samples * weight. */
static void add(const fed_ledger_entry *e, const float *x, size_t n, int64_t *sum,
                uint64_t *divisor) {
    const int64_t factor = (int64_t)e->head.samples * e->weight;
    for (size_t i = 0; i < n; i++) {
        sum[i] += factor * (int64_t)rint(ldexp((double)x[i], 30));
    }
    *divisor += (uint64_t)factor;
}

fed_status fed_ledger_apply(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                            float *values, fed_error *err) {
    size_t n = layout->size;
    float *x = malloc(n * sizeof *x);
    int64_t *sum = calloc(n, sizeof *sum);
    uint64_t divisor = 0;
    fed_status status = x == NULL || sum == NULL ? FED_ENOMEM : FED_OK;
    for (size_t k = 0; k < ledger->count && status == FED_OK; k++) {
        if (ledger->entries[k].round == round) {
            status = decode(&ledger->entries[k], layout, x, err);
        }
        if (ledger->entries[k].round == round && status == FED_OK) {
            add(&ledger->entries[k], x, n, sum, &divisor);
        }
    }
    for (size_t i = 0; i < n && status == FED_OK && divisor > 0; i++) {
        values[i] += (float)((double)sum[i] / ldexp((double)divisor, 30));
    }
    free(x);
    free(sum);
    return status;
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

fed_status fed_ledger_median(const fed_ledger *ledger, const fed_layout *layout, uint32_t round,
                             float *values, fed_error *err) {
    const size_t n = layout->size, rows = fed_ledger_round(ledger, round);
    float *x = malloc((rows + 1) * n * sizeof *x), *column = malloc((rows + 1) * sizeof *column);
    size_t row = 0;
    fed_status status = x == NULL || column == NULL ? FED_ENOMEM : FED_OK;
    for (size_t k = 0; k < ledger->count && status == FED_OK; k++) {
        if (ledger->entries[k].round == round) {
            status = decode(&ledger->entries[k], layout, x + n * row++, err);
        }
    }
    for (size_t i = 0; i < n && status == FED_OK && rows > 0; i++) {
        for (size_t k = 0; k < rows; k++) {
            column[k] = x[k * n + i];
        }
        qsort(column, rows, sizeof *column, by_value);
        values[i] += (column[(rows - 1) / 2] + column[rows / 2]) / 2;
    }
    free(x);
    free(column);
    return status;
}
