/* The records between failure detector and member: read as written, and refused if malformed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedclient/datacenter/control/records.h"

static const feddc_record each[] = {
    {.kind = FEDDC_RECORD_JOIN, .join = {.requested = 3, .pid = 4711, .host = "node-b"}},
    {.kind = FEDDC_RECORD_HEARTBEAT,
     .heartbeat = {1203, FEDDC_BACKWARD, 99, {1202, 5, 2}, 0.25F, 0.5F},
     .sent_us = 123456789},
    {.kind = FEDDC_RECORD_MEET,
     .completed = 17,
     .address = "10.0.0.1:4000",
     .why = "rank 2 is gone"},
    {.kind = FEDDC_RECORD_DIGEST, .completed = 100, .digest = UINT64_MAX - 1},
    {.kind = FEDDC_RECORD_BYE, .why = ""},
    {.kind = FEDDC_RECORD_PONG, .sent_us = 5, .detector_us = 6},
    {.kind = FEDDC_RECORD_ASK},
    {.kind = FEDDC_RECORD_OVER, .generation = 2, .why = "worker 1 died"},
    {.kind = FEDDC_RECORD_WORKER_GROUP, .generation = 2, .rank = 1, .size = 3, .secret = {9, 8}},
    {.kind = FEDDC_RECORD_END, .left_out = true, .why = "it was stopped"},
};

enum { KINDS = sizeof each / sizeof each[0] };

static size_t bytes_of(const feddc_record *record, uint8_t bytes[FEDDC_RECORD_UP]) {
    fed_writer w;
    fed_writer_fixed(&w, bytes, FEDDC_RECORD_UP);
    feddc_record_write(&w, record);
    assert_fed_ok(w.status);
    return w.len;
}

static fed_status read_bytes(const uint8_t *bytes, size_t len, feddc_record *record) {
    fed_reader r;
    fed_reader_init(&r, bytes, len);
    return feddc_record_read(&r, record);
}

FED_TEST(what_is_written_is_read) {
    for (size_t k = 0; k < KINDS; k++) {
        uint8_t bytes[FEDDC_RECORD_UP], again[FEDDC_RECORD_UP];
        feddc_record back;
        size_t len = bytes_of(&each[k], bytes);
        assert_fed_ok(read_bytes(bytes, len, &back));
        assert_int_equal(back.kind, each[k].kind);
        assert_int_equal(bytes_of(&back, again), len);
        assert_memory_equal(again, bytes, len);
    }
    feddc_record heartbeat;
    uint8_t bytes[FEDDC_RECORD_UP];
    assert_fed_ok(read_bytes(bytes, bytes_of(&each[1], bytes), &heartbeat));
    assert_int_equal(heartbeat.heartbeat.waits.waits_for, 2);
    assert_true(heartbeat.heartbeat.step_s == 0.5F);
}

/* Members that compute on their CPU, or are of an earlier build, leave out computes_on. */
FED_TEST(what_a_member_computes_on_may_be_missing) {
    static const feddc_record named = {.kind = FEDDC_RECORD_JOIN,
                                       .join = {.host = "b", .computes_on = "cuda:0 H100"}};
    uint8_t bytes[FEDDC_RECORD_UP];
    feddc_record back;
    const size_t len = bytes_of(&named, bytes);
    assert_fed_ok(read_bytes(bytes, len, &back));
    assert_string_equal(back.join.computes_on, "cuda:0 H100");
    assert_fed_status(read_bytes(bytes, len - 1, &back), FED_EFORMAT);
    assert_fed_ok(read_bytes(bytes, len - 12, &back));
    assert_string_equal(back.join.host, "b");
    assert_string_equal(back.join.computes_on, "");
}

FED_TEST(the_longest_join_fits_in_a_record) {
    feddc_record join = {.kind = FEDDC_RECORD_JOIN, .join = {.host = "b"}}, back;
    uint8_t bytes[FEDDC_RECORD_UP];
    memset(join.join.settings, 's', sizeof join.join.settings - 1);
    assert_fed_ok(read_bytes(bytes, bytes_of(&join, bytes), &back));
    assert_string_equal(back.join.settings, join.join.settings);
    assert_string_equal(back.join.computes_on, "");
    memset(join.join.host, 'h', sizeof join.join.host - 1);
    memset(join.join.computes_on, 'c', sizeof join.join.computes_on - 1);
    const size_t len = bytes_of(&join, bytes);
    assert_fed_ok(read_bytes(bytes, len, &back));
    assert_string_equal(back.join.computes_on, join.join.computes_on);
    assert_string_equal(back.join.settings, join.join.settings);
    assert_fed_status(read_bytes(bytes, len - 1, &back), FED_EFORMAT);
}

FED_TEST(what_is_cut_or_longer_is_refused) {
    for (size_t k = 0; k < KINDS; k++) {
        uint8_t bytes[FEDDC_RECORD_UP + 1] = {0};
        feddc_record back;
        size_t len = bytes_of(&each[k], bytes);
        for (size_t n = 0; n < len; n++) {
            assert_fed_status(read_bytes(bytes, n, &back), FED_EFORMAT);
        }
        bytes[len] = 0;
        fed_status longer = each[k].kind == FEDDC_RECORD_WORKER_GROUP ? FED_OK : FED_EFORMAT;
        assert_fed_status(read_bytes(bytes, len + 1, &back), longer);
    }
}

FED_TEST(impossible_values_are_refused) {
    feddc_record record = each[1], back;
    uint8_t bytes[FEDDC_RECORD_UP];
    record.heartbeat.phase = FEDDC_PHASES;
    assert_fed_status(read_bytes(bytes, bytes_of(&record, bytes), &back), FED_EFORMAT);
    record = each[1];
    record.heartbeat.step_s = -1;
    assert_fed_status(read_bytes(bytes, bytes_of(&record, bytes), &back), FED_EFORMAT);
    record = each[8];
    record.rank = 3;
    assert_fed_status(read_bytes(bytes, bytes_of(&record, bytes), &back), FED_EFORMAT);
    record.size = FEDDC_RANKS + 1;
    assert_fed_status(read_bytes(bytes, bytes_of(&record, bytes), &back), FED_EFORMAT);
    for (int kind = 0; kind < 256; kind++) {
        bool known = (kind >= FEDDC_RECORD_JOIN && kind <= FEDDC_RECORD_BYE) ||
                     (kind >= FEDDC_RECORD_PONG && kind <= FEDDC_RECORD_END);
        bytes[0] = (uint8_t)kind;
        if (!known) {
            assert_fed_status(read_bytes(bytes, 1, &back), FED_EFORMAT);
        }
    }
}

FED_TEST(the_longest_roster_fits_in_a_record) {
    feddc_rank_row row = {.worker = 1, .completed = 2}, back;
    memset(row.address, 'x', sizeof row.address - 1);
    fed_writer w;
    fed_writer_growing(&w);
    feddc_rank_row_write(&w, &row);
    assert_fed_ok(w.status);
    assert_true(w.len * FEDDC_RANKS + FEDDC_RECORD_UP < FEDDC_RECORD_DOWN);
    fed_reader r;
    fed_reader_init(&r, w.data, w.len);
    assert_fed_ok(feddc_rank_row_read(&r, &back));
    assert_string_equal(back.address, row.address);
    fed_writer_free(&w);
}
