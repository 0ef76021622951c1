/* The message about a worker group: its exact bytes, every cut of it, values not allowed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/worker_group.h"

static const fed_worker_group sample = {
    .task = 9,
    .round = 3,
    .size = 4,
    .exposed = 0.25f,
    .link = "tcp",
    .collective = "owners",
    .sync = "ssgd",
    .codec = "3lc:s=1.75",
    .pull = "float32",
    .verdict = "worker 3 died",
    .count = 2,
    .worker = {{.rank = 0,
                .pid = 4711,
                .waits_for = 3,
                .step = 1203,
                .compute_ms = 12.5f,
                .phase = "exchange",
                .host = "a",
                .sent_bytes = 258,
                .received_bytes = 259},
               {.rank = 3,
                .state = FED_WORKER_DEAD,
                .waits_for = FED_WORKER_GROUP_NOBODY,
                .step = 1202,
                .phase = "backward"}},
};

#define HEAD                                                                                       \
    "\x01"                                                                                         \
    "\x09\x00\x00\x00\x00\x00\x00\x00"                                                             \
    "\x03\x00\x00\x00"                                                                             \
    "\x04\x00\x00\x00"                                                                             \
    "\x00\x00\x80\x3e"                                                                             \
    "\x03tcp"                                                                                      \
    "\x06owners"                                                                                   \
    "\x04ssgd"                                                                                     \
    "\x0a"                                                                                         \
    "3lc:s=1.75"                                                                                   \
    "\x07"                                                                                         \
    "float32"                                                                                      \
    "\x0dworker 3 died"                                                                            \
    "\x02"

static const char golden[] = HEAD "\x00\x00\x00\x00"
                                  "\x00"
                                  "\x67\x12\x00\x00"
                                  "\x03\x00\x00\x00"
                                  "\xb3\x04\x00\x00\x00\x00\x00\x00"
                                  "\x00\x00\x48\x41"
                                  "\x08"
                                  "exchange"
                                  "\x01"
                                  "a"
                                  "\x02\x01\x00\x00\x00\x00\x00\x00"
                                  "\x03\x01\x00\x00\x00\x00\x00\x00"
                                  "\x03\x00\x00\x00"
                                  "\x04"
                                  "\x00\x00\x00\x00"
                                  "\xff\xff\xff\xff"
                                  "\xb2\x04\x00\x00\x00\x00\x00\x00"
                                  "\x00\x00\x00\x00"
                                  "\x08"
                                  "backward"
                                  "\x00"
                                  "\x00\x00\x00\x00\x00\x00\x00\x00"
                                  "\x00\x00\x00\x00\x00\x00\x00";

/* The literal's closing NUL is the message's last byte. */
enum { GOLDEN = sizeof golden, WORKERS_AT = sizeof HEAD - 1 };

FED_TEST(test_it_has_its_golden_bytes_and_comes_back_as_it_was) {
    uint8_t bytes[FED_WORKER_GROUP_BYTES];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_worker_group_write(&w, &sample);
    assert_fed_ok(w.status);
    assert_int_equal(w.len, GOLDEN);
    assert_memory_equal(bytes, golden, GOLDEN);
    fed_reader r;
    fed_reader_init(&r, bytes, w.len + 3);
    fed_worker_group back;
    assert_fed_ok(fed_worker_group_read(&r, &back));
    assert_int_equal(fed_reader_left(&r), 3);
    assert_memory_equal(&back, &sample, sizeof back);
}

/* A message that names what workers compute on has another layout. */
FED_TEST(test_what_workers_compute_on_has_a_layout_of_its_own) {
    uint8_t bytes[FED_WORKER_GROUP_BYTES];
    fed_worker_group named = sample, back;
    fed_writer w;
    fed_reader r;
    strcpy(named.worker[1].computes_on, "cuda:0 H100");
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_worker_group_write(&w, &named);
    assert_fed_ok(w.status);
    assert_int_equal(w.len, GOLDEN + 1 + 12);
    assert_int_equal(bytes[0], FED_WORKER_GROUP_LAYOUT_NAMED);
    assert_memory_equal(bytes + 1, golden + 1, WORKERS_AT - 1);
    assert_memory_equal(bytes + GOLDEN + 1,
                        "\x0b"
                        "cuda:0 H100",
                        12);
    for (size_t len = 0; len <= w.len; len++) {
        fed_reader_init(&r, bytes, len);
        assert_fed_status(fed_worker_group_read(&r, &back), len < w.len ? FED_EFORMAT : FED_OK);
    }
    assert_memory_equal(&back, &named, sizeof back);
    bytes[GOLDEN + 1] = 0; /* without any name, the message must have the older layout */
    fed_reader_init(&r, bytes, w.len - 11);
    assert_fed_status(fed_worker_group_read(&r, &back), FED_EFORMAT);
}

FED_TEST(test_cut_anywhere_it_is_refused_and_changes_nothing) {
    for (size_t len = 0; len < GOLDEN; len++) {
        uint8_t *exact = malloc(len > 0 ? len : 1);
        memcpy(exact, golden, len);
        fed_reader r;
        fed_reader_init(&r, exact, len);
        fed_worker_group m, before;
        memset(&m, 0xa5, sizeof m);
        before = m;
        assert_fed_status(fed_worker_group_read(&r, &m), FED_EFORMAT);
        assert_memory_equal(&m, &before, sizeof m);
        free(exact);
    }
}

static fed_status read_patched(size_t offset, const void *patch, size_t size) {
    uint8_t bytes[GOLDEN];
    memcpy(bytes, golden, GOLDEN);
    memcpy(bytes + offset, patch, size);
    fed_reader r;
    fed_reader_init(&r, bytes, GOLDEN);
    fed_worker_group m;
    return fed_worker_group_read(&r, &m);
}

FED_TEST(test_values_that_are_not_allowed_are_refused) {
    enum { SIZE = 13, EXPOSED = 17, COUNT = WORKERS_AT - 1, RANK = WORKERS_AT, STATE = RANK + 4 };
    enum { WAITS = STATE + 5, COMPUTE = WAITS + 12, SECOND = GOLDEN - 51 };
    static const char nan_bits[] = "\x00\x00\xc0\x7f";
    assert_fed_status(read_patched(SIZE, "\x00", 1), FED_EFORMAT);         /* no worker */
    assert_fed_status(read_patched(SIZE, "\x01", 1), FED_EFORMAT);         /* fewer than listed */
    assert_fed_status(read_patched(SIZE, "\x03", 1), FED_EFORMAT);         /* rank 3 of 3 */
    assert_fed_status(read_patched(SIZE, "\x01\x00\x01", 3), FED_EFORMAT); /* 65,537 workers */
    assert_fed_status(read_patched(SIZE, "\x00\x00\x01", 3), FED_OK);
    assert_fed_status(read_patched(EXPOSED, nan_bits, 4), FED_EFORMAT);
    assert_fed_status(read_patched(EXPOSED, "\x00\x00\x00\xbf", 4), FED_EFORMAT); /* -0.5 */
    assert_fed_status(read_patched(EXPOSED, "\x00\x00\x00\x40", 4), FED_EFORMAT); /* 2 */
    assert_fed_status(read_patched(COUNT, "\x03", 1), FED_EFORMAT);
    assert_fed_status(read_patched(RANK, "\x04", 1), FED_EFORMAT);
    assert_fed_status(read_patched(STATE, "\x05", 1), FED_EFORMAT);
    assert_fed_status(read_patched(WAITS, "\x04", 1), FED_EFORMAT);
    assert_fed_status(read_patched(COMPUTE, nan_bits, 4), FED_EFORMAT);
    assert_fed_status(read_patched(COMPUTE, "\x00\x00\x48\xc1", 4), FED_EFORMAT);
    assert_int_equal(golden[SECOND], 3);
    assert_fed_status(read_patched(SECOND, "\x00", 1), FED_EFORMAT); /* rank 0 again */
    assert_fed_status(read_patched(SECOND, "\x01", 1), FED_OK);
}

FED_TEST(test_another_layout_is_told_apart_from_garbage) {
    assert_fed_status(read_patched(0, "\x03", 1), FED_EVERSION);
    fed_reader r;
    fed_reader_init(&r, "\x03", 1);
    fed_worker_group m;
    assert_fed_status(fed_worker_group_read(&r, &m), FED_EVERSION);
}

FED_TEST(test_a_string_with_a_nul_or_without_room_is_refused) {
    assert_fed_status(read_patched(22, "\0", 1), FED_EFORMAT);   /* the link has no name */
    assert_fed_status(read_patched(21, "\x10", 1), FED_EFORMAT); /* the link's name has 16 bytes */
}

FED_TEST(test_the_largest_worker_group_fits) {
    fed_worker_group *m = calloc(1, sizeof *m);
    fed_worker_group *back = calloc(1, sizeof *back);
    assert_non_null(m);
    assert_non_null(back);
    *m = sample;
    m->size = FED_WORKER_GROUP_RANKS;
    m->count = FED_WORKER_GROUP_WORKERS;
    memset(m->verdict, 'v', sizeof m->verdict - 1);
    for (uint32_t k = 0; k < m->count; k++) {
        m->worker[k] = (fed_worker){.rank = 1000 * k, .state = (fed_worker_state)(k % 5)};
        memset(m->worker[k].phase, 'p', sizeof m->worker[k].phase - 1);
        memset(m->worker[k].host, 'h', sizeof m->worker[k].host - 1);
        memset(m->worker[k].computes_on, 'c', sizeof m->worker[k].computes_on - 1);
    }
    uint8_t bytes[FED_WORKER_GROUP_BYTES];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_worker_group_write(&w, m);
    assert_fed_ok(w.status);
    fed_reader r;
    fed_reader_init(&r, bytes, w.len);
    assert_fed_ok(fed_worker_group_read(&r, back));
    assert_fed_ok(fed_reader_end(&r));
    assert_memory_equal(m, back, sizeof *m);
    free(m);
    free(back);
}

FED_TEST(test_each_state_has_a_name) {
    assert_string_equal(fed_worker_state_name(FED_WORKER_WELL), "well");
    assert_string_equal(fed_worker_state_name(FED_WORKER_DEAD), "dead");
    assert_string_equal(fed_worker_state_name((fed_worker_state)FED_WORKER_STATES), "?");
}
