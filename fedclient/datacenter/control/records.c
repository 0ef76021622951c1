/* The records between judge and member. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/records.h"

#include <math.h>

static void write_beat(fed_writer *w, const feddc_beat *beat) {
    fed_write_u32(w, beat->step);
    fed_write_u8(w, beat->phase);
    fed_write_u32(w, beat->marks);
    fed_write_u32(w, beat->waits.step);
    fed_write_u32(w, beat->waits.bucket);
    fed_write_u32(w, beat->waits.waits_for);
    fed_write_f32(w, beat->compute_s);
    fed_write_f32(w, beat->step_s);
}

static void read_beat(fed_reader *r, feddc_beat *beat) {
    beat->step = fed_read_u32(r);
    beat->phase = fed_read_u8(r);
    beat->marks = fed_read_u32(r);
    beat->waits.step = fed_read_u32(r);
    beat->waits.bucket = fed_read_u32(r);
    beat->waits.waits_for = fed_read_u32(r);
    beat->compute_s = fed_read_f32(r);
    beat->step_s = fed_read_f32(r);
}

static bool beat_is_sane(const feddc_beat *beat) {
    return beat->phase < FEDDC_PHASES && isfinite(beat->compute_s) && isfinite(beat->step_s) &&
           !signbit(beat->compute_s) && !signbit(beat->step_s);
}

void feddc_record_write(fed_writer *w, const feddc_record *record) {
    fed_write_u8(w, (uint8_t)record->kind);
    switch (record->kind) {
    case FEDDC_RECORD_JOIN:
        fed_write_u32(w, record->join.wish);
        fed_write_u32(w, record->join.pid);
        fed_write_str(w, record->join.host);
        if (record->join.computes_on[0] != '\0') {
            fed_write_str(w, record->join.computes_on);
        }
        break;
    case FEDDC_RECORD_BEAT:
        write_beat(w, &record->beat);
        fed_write_u64(w, record->sent_us);
        break;
    case FEDDC_RECORD_MEET:
        fed_write_u32(w, record->whole);
        fed_write_str(w, record->address);
        fed_write_str(w, record->why);
        break;
    case FEDDC_RECORD_DIGEST:
        fed_write_u32(w, record->whole);
        fed_write_u64(w, record->digest);
        break;
    case FEDDC_RECORD_BYE:
        fed_write_str(w, record->why);
        break;
    case FEDDC_RECORD_PONG:
        fed_write_u64(w, record->sent_us);
        fed_write_u64(w, record->judge_us);
        break;
    case FEDDC_RECORD_ASK:
        break;
    case FEDDC_RECORD_OVER:
        fed_write_u32(w, record->generation);
        fed_write_str(w, record->why);
        break;
    case FEDDC_RECORD_GANG:
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

static void read_gang(fed_reader *r, feddc_record *record) {
    record->generation = fed_read_u32(r);
    record->rank = fed_read_u32(r);
    record->size = fed_read_u32(r);
    const uint8_t *secret = fed_read_bytes(r, sizeof record->secret);
    for (size_t i = 0; secret != NULL && i < sizeof record->secret; i++) {
        record->secret[i] = secret[i];
    }
    fed_read_str(r, record->why, sizeof record->why);
}

/* The fields of a member's record. false: this kind is none of a member's. */
static bool read_up(fed_reader *r, feddc_record *record) {
    switch (record->kind) {
    case FEDDC_RECORD_JOIN:
        record->join.wish = fed_read_u32(r);
        record->join.pid = fed_read_u32(r);
        fed_read_str(r, record->join.host, sizeof record->join.host);
        if (fed_reader_left(r) == 0) {
            return true;
        }
        fed_read_str(r, record->join.computes_on, sizeof record->join.computes_on);
        return record->join.computes_on[0] != '\0';
    case FEDDC_RECORD_BEAT:
        read_beat(r, &record->beat);
        record->sent_us = fed_read_u64(r);
        return beat_is_sane(&record->beat);
    case FEDDC_RECORD_MEET:
        record->whole = fed_read_u32(r);
        fed_read_str(r, record->address, sizeof record->address);
        fed_read_str(r, record->why, sizeof record->why);
        return true;
    case FEDDC_RECORD_DIGEST:
        record->whole = fed_read_u32(r);
        record->digest = fed_read_u64(r);
        return true;
    case FEDDC_RECORD_BYE:
        fed_read_str(r, record->why, sizeof record->why);
        return true;
    default:
        return false;
    }
}

/* The same of the judge's. */
static bool read_down(fed_reader *r, feddc_record *record) {
    switch (record->kind) {
    case FEDDC_RECORD_PONG:
        record->sent_us = fed_read_u64(r);
        record->judge_us = fed_read_u64(r);
        return true;
    case FEDDC_RECORD_ASK:
        return true;
    case FEDDC_RECORD_OVER:
        record->generation = fed_read_u32(r);
        fed_read_str(r, record->why, sizeof record->why);
        return true;
    case FEDDC_RECORD_GANG:
        read_gang(r, record);
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
    return record->kind == FEDDC_RECORD_GANG ? FED_OK : fed_reader_end(r);
}

void feddc_rank_row_write(fed_writer *w, const feddc_rank_row *row) {
    fed_write_u32(w, row->worker);
    fed_write_u32(w, row->whole);
    fed_write_str(w, row->address);
}

fed_status feddc_rank_row_read(fed_reader *r, feddc_rank_row *row) {
    row->worker = fed_read_u32(r);
    row->whole = fed_read_u32(r);
    fed_read_str(r, row->address, sizeof row->address);
    return r->status;
}
