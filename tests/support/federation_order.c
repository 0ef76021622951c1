/* For asynchronous rounds: finds the round in which each update counted, from the order in which
 * updates came. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "federation.h"

void federation_order_counted(federation *f, uint64_t lease) {
    federation_order *o = &f->order;
    if (!f->setup->counts_any_round) {
        return;
    }
    for (size_t k = 0; k < o->count; k++) {
        if (o->lease[k] == lease) {
            return;
        }
    }
    if (o->count == FEDERATION_COUNTED) {
        federation_break(f, "D2: more than %d updates counted", FEDERATION_COUNTED);
        return;
    }
    o->lease[o->count++] = lease;
}

void federation_order_lost(federation *f, uint64_t lease) {
    if (f->setup->counts_any_round && f->order.unsure == 0) {
        f->order.unsure = lease;
    }
}

static size_t counted(const json_t *status) {
    size_t k = 0, sum = 0;
    json_t *row = NULL;
    json_array_foreach(json_object_get(status, "rounds"), k, row) {
        sum += (size_t)json_integer_value(json_object_get(row, "updates"));
    }
    const json_t *open = json_object_get(status, "round");
    return sum + (size_t)json_integer_value(json_object_get(open, "received"));
}

static json_t *ask_status(federation *f) {
    static const uint8_t nobody[FED_SHA256_SIZE];
    fed_writer request, answer;
    fed_writer_growing(&request);
    fed_writer_growing(&answer);
    fed_write_u8(&request, FEDERATION_ASK);
    fed_write_u8(&request, 1);
    fed_write_u8(&request, 0);
    fed_write_bytes(&request, nobody, sizeof nobody);
    fed_write_str(&request, "GET");
    fed_write_str(&request, "/v1/status");
    for (int k = 0; k < 4; k++) {
        fed_write_str(&request, "");
    }
    json_t *json = NULL;
    if (federation_ask(f, &request, &answer)) {
        char header[80];
        fed_reader r;
        fed_reader_init(&r, answer.data, answer.len);
        (void)fed_read_u32(&r);
        fed_read_str(&r, header, sizeof header);
        fed_read_str(&r, header, sizeof header);
        json = json_loadb((const char *)answer.data + r.pos, fed_reader_left(&r), 0, NULL);
    }
    fed_writer_free(&request);
    fed_writer_free(&answer);
    return json;
}

/** Is a round closing? Until its commit, the status does not show the next round's updates. */
static bool closes(const json_t *status) {
    const json_t *open = json_object_get(status, "round");
    return json_integer_value(json_object_get(open, "closing_ms")) != 0;
}

void federation_order_settle(federation *f) {
    federation_order *o = &f->order;
    if (o->unsure == 0) {
        return;
    }
    json_t *status = ask_status(f);
    while (status != NULL && closes(status)) {
        json_decref(status);
        status = ask_status(f);
    }
    if (status == NULL) {
        return;
    }
    if (counted(status) > o->count) {
        federation_order_counted(f, o->unsure);
    }
    o->unsure = 0;
    json_decref(status);
}

void federation_order_place(federation *f, const json_t *status) {
    const json_t *rounds = json_object_get(status, "rounds");
    size_t next = 0;
    for (size_t k = json_array_size(rounds); f->setup->counts_any_round && k-- > 0;) {
        const json_t *row = json_array_get(rounds, k); /* newest first */
        uint32_t round = (uint32_t)json_integer_value(json_object_get(row, "number"));
        size_t updates = (size_t)json_integer_value(json_object_get(row, "updates"));
        for (; updates > 0; updates--, next++) {
            if (next >= f->order.count ||
                fed_ledger_place(&f->ledger, f->order.lease[next], round) != FED_OK) {
                federation_break(f, "D1: round %u counted an update that was not acknowledged",
                                 round);
                return;
            }
        }
    }
}
