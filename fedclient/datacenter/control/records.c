/* Write and read the records between failure detector and member. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/records.h"

#include <math.h>

static void write_join(fed_writer *w, const feddc_join *join) {
    const bool says = join->settings[0] != '\0';
    fed_write_u32(w, join->requested);
    fed_write_u32(w, join->pid);
    fed_write_str(w, join->host);
    if (says || join->computes_on[0] != '\0') {
        fed_write_str(w, join->computes_on);
    }
    if (says) {
        fed_write_str(w, join->settings);
    }
}

static bool read_join(fed_reader *r, feddc_join *join) {
    join->requested = fed_read_u32(r);
    join->pid = fed_read_u32(r);
    fed_read_str(r, join->host, sizeof join->host);
    if (fed_reader_left(r) == 0) {
        return true;
    }
    fed_read_str(r, join->computes_on, sizeof join->computes_on);
    if (fed_reader_left(r) == 0) {
        return join->computes_on[0] != '\0';
    }
    fed_read_str(r, join->settings, sizeof join->settings);
    return join->settings[0] != '\0';
}

static void write_heartbeat(fed_writer *w, const feddc_heartbeat *heartbeat) {
    fed_write_u32(w, heartbeat->step);
    fed_write_u8(w, heartbeat->phase);
    fed_write_u32(w, heartbeat->marks);
    fed_write_u32(w, heartbeat->waits.step);
    fed_write_u32(w, heartbeat->waits.bucket);
    fed_write_u32(w, heartbeat->waits.waits_for);
    fed_write_f32(w, heartbeat->compute_s);
    fed_write_f32(w, heartbeat->step_s);
}

static void read_heartbeat(fed_reader *r, feddc_heartbeat *heartbeat) {
    heartbeat->step = fed_read_u32(r);
    heartbeat->phase = fed_read_u8(r);
    heartbeat->marks = fed_read_u32(r);
    heartbeat->waits.step = fed_read_u32(r);
    heartbeat->waits.bucket = fed_read_u32(r);
    heartbeat->waits.waits_for = fed_read_u32(r);
    heartbeat->compute_s = fed_read_f32(r);
    heartbeat->step_s = fed_read_f32(r);
}

static bool heartbeat_is_sane(const feddc_heartbeat *heartbeat) {
    return heartbeat->phase < FEDDC_PHASES && isfinite(heartbeat->compute_s) &&
           isfinite(heartbeat->step_s) && !signbit(heartbeat->compute_s) &&
           !signbit(heartbeat->step_s);
}

void feddc_record_write(fed_writer *w, const feddc_record *record) {
    fed_write_u8(w, (uint8_t)record->kind);
    switch (record->kind) {
    case FEDDC_RECORD_JOIN:
        write_join(w, &record->join);
        break;
    case FEDDC_RECORD_HEARTBEAT:
        write_heartbeat(w, &record->heartbeat);
        fed_write_u64(w, record->sent_us);
        break;
    case FEDDC_RECORD_MEET:
        fed_write_u32(w, record->completed);
        fed_write_str(w, record->address);
        fed_write_str(w, record->why);
        break;
    case FEDDC_RECORD_DIGEST:
        fed_write_u32(w, record->completed);
        fed_write_u64(w, record->digest);
        break;
    case FEDDC_RECORD_BYE:
        fed_write_str(w, record->why);
        break;
    case FEDDC_RECORD_PONG:
        fed_write_u64(w, record->sent_us);
        fed_write_u64(w, record->detector_us);
        break;
    case FEDDC_RECORD_ASK:
        break;
    case FEDDC_RECORD_OVER:
        fed_write_u32(w, record->generation);
        fed_write_str(w, record->why);
        break;
    case FEDDC_RECORD_WORKER_GROUP:
        fed_write_u32(w, record->generation);
        fed_write_u32(w, record->rank);
        fed_write_u32(w, record->size);
        fed_write_bytes(w, record->secret, sizeof record->secret);
        fed_write_str(w, record->why);
        break;
    case FEDDC_RECORD_END:
        fed_write_u8(w, record->left_out);
        fed_write_str(w, record->why);
        break;
    }
}

static void read_worker_group(fed_reader *r, feddc_record *record) {
    record->generation = fed_read_u32(r);
    record->rank = fed_read_u32(r);
    record->size = fed_read_u32(r);
    const uint8_t *secret = fed_read_bytes(r, sizeof record->secret);
    for (size_t i = 0; secret != NULL && i < sizeof record->secret; i++) {
        record->secret[i] = secret[i];
    }
    fed_read_str(r, record->why, sizeof record->why);
}

/* Read the fields of a member's record. false: not a member's kind, or a value is not allowed. */
static bool read_up(fed_reader *r, feddc_record *record) {
    switch (record->kind) {
    case FEDDC_RECORD_JOIN:
        return read_join(r, &record->join);
    case FEDDC_RECORD_HEARTBEAT:
        read_heartbeat(r, &record->heartbeat);
        record->sent_us = fed_read_u64(r);
        return heartbeat_is_sane(&record->heartbeat);
    case FEDDC_RECORD_MEET:
        record->completed = fed_read_u32(r);
        fed_read_str(r, record->address, sizeof record->address);
        fed_read_str(r, record->why, sizeof record->why);
        return true;
    case FEDDC_RECORD_DIGEST:
        record->completed = fed_read_u32(r);
        record->digest = fed_read_u64(r);
        return true;
    case FEDDC_RECORD_BYE:
        fed_read_str(r, record->why, sizeof record->why);
        return true;
    default:
        return false;
    }
}

/* Read the fields of a failure detector's record. false: not its kind, or a value is not
 * allowed. */
static bool read_down(fed_reader *r, feddc_record *record) {
    switch (record->kind) {
    case FEDDC_RECORD_PONG:
        record->sent_us = fed_read_u64(r);
        record->detector_us = fed_read_u64(r);
        return true;
    case FEDDC_RECORD_ASK:
        return true;
    case FEDDC_RECORD_OVER:
        record->generation = fed_read_u32(r);
        fed_read_str(r, record->why, sizeof record->why);
        return true;
    case FEDDC_RECORD_WORKER_GROUP:
        read_worker_group(r, record);
        return record->size > 0 && record->size <= FEDDC_RANKS && record->rank < record->size;
    case FEDDC_RECORD_END: {
        uint8_t left_out = fed_read_u8(r);
        record->left_out = left_out != 0;
        fed_read_str(r, record->why, sizeof record->why);
        return left_out <= 1;
    }
    default:
        return false;
    }
}

fed_status feddc_record_read(fed_reader *r, feddc_record *record) {
    *record = (feddc_record){.kind = (feddc_record_kind)fed_read_u8(r)};
    bool good = record->kind < FEDDC_RECORD_PONG ? read_up(r, record) : read_down(r, record);
    FED_REQUIRE(r->status == FED_OK, r->status);
    FED_REQUIRE(good, FED_EFORMAT);
    return record->kind == FEDDC_RECORD_WORKER_GROUP ? FED_OK : fed_reader_end(r);
}

void feddc_rank_row_write(fed_writer *w, const feddc_rank_row *row) {
    fed_write_u32(w, row->worker);
    fed_write_u32(w, row->completed);
    fed_write_str(w, row->address);
}

fed_status feddc_rank_row_read(fed_reader *r, feddc_rank_row *row) {
    row->worker = fed_read_u32(r);
    row->completed = fed_read_u32(r);
    fed_read_str(r, row->address, sizeof row->address);
    return r->status;
}
