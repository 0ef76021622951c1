/* The byte layout of a device's report about its worker group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/worker_group.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const char *const state_names[FED_WORKER_STATES] = {"well", "slow", "stuck", "stopped",
                                                           "dead"};

const char *fed_worker_state_name(fed_worker_state state) {
    return state < FED_WORKER_STATES ? state_names[state] : "?";
}

static bool is_named(const fed_worker_group *m) {
    bool named = false;
    for (uint32_t k = 0; k < m->count; k++) {
        named = named || m->worker[k].computes_on[0] != '\0';
    }
    return named;
}

static void worker_write(fed_writer *w, const fed_worker *m, bool named) {
    fed_write_u32(w, m->rank);
    fed_write_u8(w, (uint8_t)m->state);
    fed_write_u32(w, m->pid);
    fed_write_u32(w, m->waits_for);
    fed_write_u64(w, m->step);
    fed_write_f32(w, m->compute_ms);
    fed_write_str(w, m->phase);
    fed_write_str(w, m->host);
    fed_write_u64(w, m->sent_bytes);
    fed_write_u64(w, m->received_bytes);
    if (named) {
        fed_write_str(w, m->computes_on);
    }
}

void fed_worker_group_write(fed_writer *w, const fed_worker_group *m) {
    const bool named = is_named(m);
    fed_write_u8(w, named ? FED_WORKER_GROUP_LAYOUT_NAMED : FED_WORKER_GROUP_LAYOUT);
    fed_write_u64(w, m->task);
    fed_write_u32(w, m->round);
    fed_write_u32(w, m->size);
    fed_write_f32(w, m->exposed);
    fed_write_str(w, m->link);
    fed_write_str(w, m->collective);
    fed_write_str(w, m->sync);
    fed_write_str(w, m->codec);
    fed_write_str(w, m->pull);
    fed_write_str(w, m->verdict);
    fed_write_varint(w, m->count);
    for (uint32_t k = 0; k < m->count; k++) {
        worker_write(w, &m->worker[k], named);
    }
}

static bool worker_read(fed_reader *r, uint32_t size, bool named, fed_worker *m) {
    m->rank = fed_read_u32(r);
    m->state = (fed_worker_state)fed_read_u8(r);
    m->pid = fed_read_u32(r);
    m->waits_for = fed_read_u32(r);
    m->step = fed_read_u64(r);
    m->compute_ms = fed_read_f32(r);
    fed_read_str(r, m->phase, sizeof m->phase);
    fed_read_str(r, m->host, sizeof m->host);
    m->sent_bytes = fed_read_u64(r);
    m->received_bytes = fed_read_u64(r);
    if (named) {
        fed_read_str(r, m->computes_on, sizeof m->computes_on);
    }
    return m->rank < size && m->state < FED_WORKER_STATES && isfinite(m->compute_ms) &&
           m->compute_ms >= 0 && (m->waits_for == FED_WORKER_GROUP_NOBODY || m->waits_for < size);
}

static bool head_read(fed_reader *r, bool *named, fed_worker_group *m) {
    const uint8_t layout = fed_read_u8(r);
    *named = layout == FED_WORKER_GROUP_LAYOUT_NAMED;
    if (!*named && layout != FED_WORKER_GROUP_LAYOUT && r->status == FED_OK) {
        r->status = FED_EVERSION; /* stop here: the rest may differ in another layout */
    }
    m->task = fed_read_u64(r);
    m->round = fed_read_u32(r);
    m->size = fed_read_u32(r);
    m->exposed = fed_read_f32(r);
    fed_read_str(r, m->link, sizeof m->link);
    fed_read_str(r, m->collective, sizeof m->collective);
    fed_read_str(r, m->sync, sizeof m->sync);
    fed_read_str(r, m->codec, sizeof m->codec);
    fed_read_str(r, m->pull, sizeof m->pull);
    fed_read_str(r, m->verdict, sizeof m->verdict);
    const uint64_t count = fed_read_varint(r);
    m->count = count <= FED_WORKER_GROUP_WORKERS ? (uint32_t)count : 0;
    return count <= FED_WORKER_GROUP_WORKERS && count <= m->size && m->size >= 1 &&
           m->size <= FED_WORKER_GROUP_RANKS && m->exposed >= 0 && m->exposed <= 1;
}

/* Read a message into a worker group that is all 0. */
static fed_status worker_group_fill(fed_reader *r, fed_worker_group *m) {
    bool named = false;
    bool allowed = head_read(r, &named, m);
    for (uint32_t k = 0; k < m->count && allowed && r->status == FED_OK; k++) {
        allowed = worker_read(r, m->size, named, &m->worker[k]) &&
                  (k == 0 || m->worker[k].rank > m->worker[k - 1].rank);
    }
    if ((!allowed || named != is_named(m)) && r->status == FED_OK) {
        r->status = FED_EFORMAT;
    }
    return r->status;
}

fed_status fed_worker_group_read(fed_reader *r, fed_worker_group *m) {
    fed_worker_group *t = calloc(1, sizeof *t); /* too large for a small stack */
    FED_REQUIRE(t != NULL, FED_ENOMEM);
    const fed_status status = worker_group_fill(r, t);
    if (status == FED_OK) {
        *m = *t;
    }
    free(t);
    return status;
}
