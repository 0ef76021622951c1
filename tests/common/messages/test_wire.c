/* Wire messages: their exact bytes, messages cut at every byte, values that are not allowed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/version.h"
#include "fed/wire.h"

static const fed_task sample_task = {
    .id = 0x0102030405060708,
    .model = "input 784 | dense 10",
    .codec_up = "sbc:p=0.01",
    .small_tensor = 256,
    .local_steps = 10,
    .batch = 8,
    .optimizer = "sgd",
    .learning_rate = 0.5f,
    .seed = 7,
};

#define TASK_BYTES                                                                                 \
    "\x08\x07\x06\x05\x04\x03\x02\x01"                                                             \
    "\x14input 784 | dense 10"                                                                     \
    "\x0asbc:p=0.01"                                                                               \
    "\x00\x01\x00\x00"                                                                             \
    "\x0a\x00\x00\x00"                                                                             \
    "\x08\x00\x00\x00"                                                                             \
    "\x03sgd"                                                                                      \
    "\x00\x00\x00\x3f"                                                                             \
    "\x07\x00\x00\x00\x00\x00\x00\x00"

/* Messages of protocol 1 must keep their bytes, because devices in use still speak protocol 1. */
static const fed_checkin sample_checkin = {
    .protocol = 1, .role = FED_ROLE_EVALUATE, .hold_ms = 30000, .held = {{5, 258}}};

static const char checkin_bytes[] = "\x01\x01"
                                    "\x30\x75\x00\x00"
                                    "\x05\x00\x00\x00\x00\x00\x00\x00"
                                    "\x02\x01\x00";

static const fed_checkin sample_checkin_2 = {
    .hold_ms = 30000, .held = {{5, 258}}, .capabilities = FED_CAN_PATCH, .samples = 600};

static const char checkin_2_bytes[] = "\x02\x00"
                                      "\x30\x75\x00\x00"
                                      "\x05\x00\x00\x00\x00\x00\x00\x00"
                                      "\x02\x01\x00\x00"
                                      "\x02\x00\x00\x00"
                                      "\x58\x02\x00";

static const fed_checkin sample_checkin_slots = {
    .held = {{5, 258}, {9, 3}, {7, 0}}, .capabilities = FED_CAN_TASKS, .samples = 600, .slots = 4};

static const char checkin_slots_bytes[] = "\x02\x00"
                                          "\x00\x00\x00\x00"
                                          "\x05\x00\x00\x00\x00\x00\x00\x00"
                                          "\x02\x01\x00\x00"
                                          "\x00\x02\x00\x00"
                                          "\x58\x02\x00\x00"
                                          "\x04\x02"
                                          "\x09\x00\x00\x00\x00\x00\x00\x00"
                                          "\x03\x00\x00\x00"
                                          "\x07\x00\x00\x00\x00\x00\x00\x00"
                                          "\x00\x00\x00\x00";

static const fed_assignment sample_wait = {
    .action = FED_ACTION_WAIT, .reason = FED_WAIT_REPORTED, .retry_ms = 1000};

static const char wait_bytes[] = "\x00\x02\xe8\x03\x00";

static const fed_part sample_part = {
    .kind = FED_PART_DELTA,
    .from = 3,
    .to = 4,
    .envelope = (const uint8_t *)"\xde\xad\xbe\xef",
    .envelope_len = 4,
};

static const char part_bytes[] = "\x02"
                                 "\x03\x00\x00\x00"
                                 "\x04\x00\x00\x00"
                                 "\x04\xde\xad\xbe\xef";

static const fed_address sample_address = {.key = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                                   23, 24, 25, 26, 27, 28, 29, 30, 31, 32},
                                           .len = 0x0102030405060708};

static const char address_bytes[] =
    "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
    "\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x20"
    "\x08\x07\x06\x05\x04\x03\x02\x01";

static const fed_update sample_update = {
    .task = 9, .round = 2, .lease = 0xfffffffffffffffe, .samples = 600, .loss = -2.0f};

static const char update_bytes[] = "\x09\x00\x00\x00\x00\x00\x00\x00"
                                   "\x02\x00\x00\x00"
                                   "\xfe\xff\xff\xff\xff\xff\xff\xff"
                                   "\x58\x02\x00\x00"
                                   "\x00\x00\x00\xc0";

static const fed_piece sample_piece = {.task = 9,
                                       .round = 3,
                                       .lease = 0x0a0b0c0d0e0f1011,
                                       .digest = 0x1122334455667788,
                                       .total = 3000000,
                                       .offset = 1048576};
static const char piece_bytes[] = "\x09\x00\x00\x00\x00\x00\x00\x00"
                                  "\x03\x00\x00\x00"
                                  "\x11\x10\x0f\x0e\x0d\x0c\x0b\x0a"
                                  "\x88\x77\x66\x55\x44\x33\x22\x11"
                                  "\xc0\xc6\x2d\x00\x00\x00\x00\x00"
                                  "\x00\x00\x10\x00\x00\x00\x00\x00";

static const fed_decline sample_decline = {
    .task = 9, .round = 3, .lease = 0x0a0b0c0d0e0f1011, .reason = "no such data"};

static const char decline_bytes[] = "\x09\x00\x00\x00\x00\x00\x00\x00"
                                    "\x03\x00\x00\x00"
                                    "\x11\x10\x0f\x0e\x0d\x0c\x0b\x0a"
                                    "\x0cno such data";

static const fed_metric sample_metric = {
    .task = 9, .version = 3, .samples = 10000, .correct = 9876, .loss = 0.25f};

static const char metric_bytes[] = "\x09\x00\x00\x00\x00\x00\x00\x00"
                                   "\x03\x00\x00\x00"
                                   "\x10\x27\x00\x00"
                                   "\x94\x26\x00\x00"
                                   "\x00\x00\x80\x3e";

static fed_assignment sample_train(void) {
    return (fed_assignment){
        .action = FED_ACTION_TRAIN,
        .round = 3,
        .version = 2,
        .digest = 0x1122334455667788,
        .lease = 0x99,
        .deadline_ms = 600000,
        .task = sample_task,
    };
}

static const char train_bytes[] = "\x01"
                                  "\x03\x00\x00\x00"
                                  "\x02\x00\x00\x00"
                                  "\x88\x77\x66\x55\x44\x33\x22\x11"
                                  "\x99\x00\x00\x00\x00\x00\x00\x00"
                                  "\xc0\x27\x09\x00" TASK_BYTES;

static const char train_2_bytes[] = "\x01"
                                    "\x03\x00\x00\x00"
                                    "\x02\x00\x00\x00"
                                    "\x88\x77\x66\x55\x44\x33\x22\x11"
                                    "\x99\x00\x00\x00\x00\x00\x00\x00"
                                    "\xc0\x27\x09\x00" TASK_BYTES "\x01\x00\x00";

static const char train_slots_bytes[] = "\x01"
                                        "\x03\x00\x00\x00"
                                        "\x02\x00\x00\x00"
                                        "\x88\x77\x66\x55\x44\x33\x22\x11"
                                        "\x99\x00\x00\x00\x00\x00\x00\x00"
                                        "\xc0\x27\x09\x00" TASK_BYTES "\x00\x02\x00\x00"
                                        "\x0b\x00\x00\x00\x00\x00\x00\x00";

static const char task_bytes[] = TASK_BYTES;

static void write_task(fed_writer *w) {
    fed_task_write(w, &sample_task);
}

static void write_checkin(fed_writer *w) {
    fed_checkin_write(w, &sample_checkin);
}

static void write_checkin_2(fed_writer *w) {
    fed_checkin_write(w, &sample_checkin_2);
}

static void write_checkin_slots(fed_writer *w) {
    fed_checkin_write(w, &sample_checkin_slots);
}

static void write_train_slots(fed_writer *w) {
    fed_assignment train = sample_train();
    train.capabilities = FED_CAN_TASKS;
    train.replaces = 11;
    fed_assignment_write(w, 2, &train);
}

static void write_wait(fed_writer *w) {
    fed_assignment_write(w, 1, &sample_wait);
}

static void write_train(fed_writer *w) {
    fed_assignment train = sample_train();
    fed_assignment_write(w, 1, &train);
}

static void write_train_2(fed_writer *w) {
    fed_assignment train = sample_train();
    train.capabilities = FED_CAN_PIECES;
    fed_assignment_write(w, 2, &train);
}

static void write_part(fed_writer *w) {
    fed_part_write(w, &sample_part);
}

static void write_address(fed_writer *w) {
    fed_address_write(w, &sample_address);
}

static void write_update(fed_writer *w) {
    fed_update_write(w, &sample_update);
}

static void write_piece(fed_writer *w) {
    fed_piece_write(w, &sample_piece);
}

static void write_decline(fed_writer *w) {
    fed_decline_write(w, &sample_decline);
}

static void write_metric(fed_writer *w) {
    fed_metric_write(w, &sample_metric);
}

typedef union any_message {
    uint8_t bytes[sizeof(fed_assignment)];
    fed_task task;
    fed_checkin checkin;
    fed_assignment assignment;
    fed_part part;
    fed_address address;
    fed_update update;
    fed_piece piece;
    fed_decline decline;
    fed_metric metric;
} any_message;

static fed_status read_task(fed_reader *r, any_message *m) {
    return fed_task_read(r, &m->task);
}

static fed_status read_checkin(fed_reader *r, any_message *m) {
    return fed_checkin_read(r, &m->checkin);
}

static fed_status read_assignment(fed_reader *r, any_message *m) {
    return fed_assignment_read(r, 1, &m->assignment);
}

static fed_status read_assignment_2(fed_reader *r, any_message *m) {
    return fed_assignment_read(r, 2, &m->assignment);
}

static fed_status read_part(fed_reader *r, any_message *m) {
    return fed_part_read(r, &m->part);
}

static fed_status read_address(fed_reader *r, any_message *m) {
    return fed_address_read(r, &m->address);
}

static fed_status read_update(fed_reader *r, any_message *m) {
    return fed_update_read(r, &m->update);
}

static fed_status read_piece(fed_reader *r, any_message *m) {
    return fed_piece_read(r, &m->piece);
}

static fed_status read_decline(fed_reader *r, any_message *m) {
    return fed_decline_read(r, &m->decline);
}

static fed_status read_metric(fed_reader *r, any_message *m) {
    return fed_metric_read(r, &m->metric);
}

static const struct {
    const char *name;
    const char *golden;
    size_t len;
    void (*write)(fed_writer *w);
    fed_status (*read)(fed_reader *r, any_message *m);
} messages[] = {
    {"task", task_bytes, sizeof task_bytes - 1, write_task, read_task},
    /* Without a "- 1", the closing NUL of the literal is the message's last byte. */
    {"checkin", checkin_bytes, sizeof checkin_bytes, write_checkin, read_checkin},
    {"checkin 2", checkin_2_bytes, sizeof checkin_2_bytes, write_checkin_2, read_checkin},
    {"checkin slots", checkin_slots_bytes, sizeof checkin_slots_bytes - 1, write_checkin_slots,
     read_checkin},
    {"train slots", train_slots_bytes, sizeof train_slots_bytes - 1, write_train_slots,
     read_assignment_2},
    {"train 2", train_2_bytes, sizeof train_2_bytes, write_train_2, read_assignment_2},
    {"wait", wait_bytes, sizeof wait_bytes, write_wait, read_assignment},
    {"train", train_bytes, sizeof train_bytes - 1, write_train, read_assignment},
    {"part", part_bytes, sizeof part_bytes - 1, write_part, read_part},
    {"address", address_bytes, sizeof address_bytes - 1, write_address, read_address},
    {"update", update_bytes, sizeof update_bytes - 1, write_update, read_update},
    {"piece", piece_bytes, sizeof piece_bytes - 1, write_piece, read_piece},
    {"decline", decline_bytes, sizeof decline_bytes - 1, write_decline, read_decline},
    {"metric", metric_bytes, sizeof metric_bytes - 1, write_metric, read_metric},
};

enum { MESSAGES = sizeof messages / sizeof messages[0] };

FED_TEST(test_each_message_has_its_golden_bytes) {
    for (size_t i = 0; i < MESSAGES; i++) {
        uint8_t bytes[1000];
        fed_writer w;
        fed_writer_fixed(&w, bytes, sizeof bytes);
        messages[i].write(&w);
        assert_fed_ok(w.status);
        if (w.len != messages[i].len || memcmp(bytes, messages[i].golden, w.len) != 0) {
            fail_msg("the bytes of %s differ", messages[i].name);
        }
    }
}

FED_TEST(test_each_message_is_read_back_and_leaves_what_follows) {
    for (size_t i = 0; i < MESSAGES; i++) {
        uint8_t bytes[1000] = {0};
        memcpy(bytes, messages[i].golden, messages[i].len);
        fed_reader r;
        fed_reader_init(&r, bytes, messages[i].len + 3);
        any_message m;
        assert_fed_ok(messages[i].read(&r, &m));
        assert_int_equal(fed_reader_left(&r), 3);
    }
}

FED_TEST(test_a_message_cut_anywhere_is_refused_and_changes_nothing) {
    for (size_t i = 0; i < MESSAGES; i++) {
        for (size_t len = 0; len < messages[i].len; len++) {
            /* A copy without spare bytes, so that a sanitizer finds a read past its end. */
            uint8_t *bytes = malloc(len + 1);
            memcpy(bytes, messages[i].golden, len);
            uint8_t *exact = realloc(bytes, len > 0 ? len : 1);
            fed_reader r;
            fed_reader_init(&r, exact, len);
            any_message m, before;
            memset(&m, 0xa5, sizeof m);
            before = m;
            fed_status status = messages[i].read(&r, &m);
            if (status != FED_EFORMAT || r.status != FED_EFORMAT) {
                fail_msg("the message %s, cut to %zu bytes, gave %s", messages[i].name, len,
                         fed_status_name(status));
            }
            assert_memory_equal(&m, &before, sizeof m);
            free(exact);
        }
    }
}

FED_TEST(test_a_task_comes_back_as_it_was) {
    fed_reader r;
    fed_reader_init(&r, task_bytes, sizeof task_bytes - 1);
    fed_task task;
    assert_fed_ok(fed_task_read(&r, &task));
    assert_fed_ok(fed_reader_end(&r));
    assert_true(task.id == sample_task.id);
    assert_string_equal(task.model, sample_task.model);
    assert_string_equal(task.codec_up, sample_task.codec_up);
    assert_int_equal(task.small_tensor, 256);
    assert_int_equal(task.local_steps, 10);
    assert_int_equal(task.batch, 8);
    assert_string_equal(task.optimizer, "sgd");
    assert_true(task.learning_rate == 0.5f);
    assert_true(task.seed == 7);
}

/* A peer without the capability gets the same bytes as from releases without the field. */
FED_TEST(test_fields_that_need_a_capability_travel_only_with_it) {
    static const uint32_t named[] = {0,
                                     FED_CAN_APP,
                                     FED_CAN_URL,
                                     FED_CAN_APP | FED_CAN_URL,
                                     FED_CAN_URL | FED_CAN_PRIVATE_LAYERS,
                                     FED_CAN_APP | FED_CAN_VARIATES};
    size_t before = 0;
    for (size_t k = 0; k < sizeof named / sizeof named[0]; k++) {
        uint8_t bytes[1000];
        fed_assignment train = sample_train(), got;
        fed_writer w;
        fed_reader r;
        train.capabilities = named[k];
        snprintf(train.task.app, sizeof train.task.app, "{}");
        snprintf(train.task.downloads, sizeof train.task.downloads, "http://c/");
        snprintf(train.task.private_layers, sizeof train.task.private_layers, "bn");
        snprintf(train.task.codec_variates, sizeof train.task.codec_variates, "eden");
        fed_writer_fixed(&w, bytes, sizeof bytes);
        fed_assignment_write(&w, 2, &train);
        before = k == 0 ? w.len : before;
        assert_int_equal(w.len, before + (named[k] & FED_CAN_APP ? 3 : 0) +
                                    (named[k] & FED_CAN_URL ? 10 : 0) +
                                    (named[k] & FED_CAN_PRIVATE_LAYERS ? 3 : 0) +
                                    (named[k] & FED_CAN_VARIATES ? 5 : 0));
        fed_reader_init(&r, bytes, w.len);
        assert_fed_ok(fed_assignment_read(&r, 2, &got));
        assert_fed_ok(fed_reader_end(&r));
        assert_string_equal(got.task.app, named[k] & FED_CAN_APP ? "{}" : "");
        assert_string_equal(got.task.downloads, named[k] & FED_CAN_URL ? "http://c/" : "");
        assert_string_equal(got.task.private_layers, named[k] & FED_CAN_PRIVATE_LAYERS ? "bn" : "");
        assert_string_equal(got.task.codec_variates, named[k] & FED_CAN_VARIATES ? "eden" : "");
    }
}

FED_TEST(test_an_assignment_to_train_comes_back_as_it_was) {
    fed_reader r;
    fed_reader_init(&r, train_bytes, sizeof train_bytes - 1);
    fed_assignment m;
    assert_fed_ok(fed_assignment_read(&r, 1, &m));
    assert_int_equal(m.action, FED_ACTION_TRAIN);
    assert_int_equal(m.round, 3);
    assert_int_equal(m.version, 2);
    assert_true(m.digest == 0x1122334455667788);
    assert_true(m.lease == 0x99);
    assert_int_equal(m.deadline_ms, 600000);
    assert_string_equal(m.task.model, sample_task.model);
    assert_int_equal(m.retry_ms, 0);
}

FED_TEST(test_the_smaller_messages_come_back_as_they_were) {
    fed_reader r;
    fed_checkin checkin;
    fed_reader_init(&r, checkin_bytes, sizeof checkin_bytes);
    assert_fed_ok(fed_checkin_read(&r, &checkin));
    assert_int_equal(checkin.protocol, 1);
    assert_int_equal(checkin.role, FED_ROLE_EVALUATE);
    assert_int_equal(checkin.hold_ms, 30000);
    assert_true(checkin.held[0].task == 5);
    assert_int_equal(checkin.held[0].version, 258);
    assert_int_equal(checkin.slots, 1);
    assert_int_equal(checkin.samples, 0);
    fed_reader_init(&r, checkin_2_bytes, sizeof checkin_2_bytes);
    assert_fed_ok(fed_checkin_read(&r, &checkin));
    assert_int_equal(checkin.protocol, 2);
    assert_int_equal(checkin.capabilities, FED_CAN_PATCH);
    assert_int_equal(checkin.samples, 600);

    fed_assignment wait;
    fed_reader_init(&r, wait_bytes, sizeof wait_bytes);
    assert_fed_ok(fed_assignment_read(&r, 1, &wait));
    assert_int_equal(wait.action, FED_ACTION_WAIT);
    assert_int_equal(wait.reason, FED_WAIT_REPORTED);
    assert_int_equal(wait.retry_ms, 1000);

    fed_part part;
    fed_reader_init(&r, part_bytes, sizeof part_bytes - 1);
    assert_fed_ok(fed_part_read(&r, &part));
    assert_int_equal(part.kind, FED_PART_DELTA);
    assert_int_equal(part.from, 3);
    assert_int_equal(part.to, 4);
    assert_ptr_equal(part.envelope, part_bytes + 10);
    assert_true(part.envelope_len == 4);

    fed_update update;
    fed_reader_init(&r, update_bytes, sizeof update_bytes - 1);
    assert_fed_ok(fed_update_read(&r, &update));
    assert_true(update.task == 9 && update.lease == 0xfffffffffffffffe);
    assert_int_equal(update.round, 2);
    assert_int_equal(update.samples, 600);
    assert_true(update.loss == -2.0f);

    fed_decline decline;
    fed_reader_init(&r, decline_bytes, sizeof decline_bytes - 1);
    assert_fed_ok(fed_decline_read(&r, &decline));
    assert_true(decline.task == 9 && decline.lease == 0x0a0b0c0d0e0f1011);
    assert_int_equal(decline.round, 3);
    assert_string_equal(decline.reason, "no such data");

    fed_metric metric;
    fed_reader_init(&r, metric_bytes, sizeof metric_bytes - 1);
    assert_fed_ok(fed_metric_read(&r, &metric));
    assert_true(metric.task == 9 && metric.version == 3);
    assert_int_equal(metric.samples, 10000);
    assert_int_equal(metric.correct, 9876);
    assert_true(metric.loss == 0.25f);
}

static fed_status read_patched(const char *which, size_t offset, const void *patch, size_t size) {
    for (size_t i = 0; i < MESSAGES; i++) {
        if (strcmp(messages[i].name, which) == 0) {
            uint8_t bytes[1000] = {0};
            memcpy(bytes, messages[i].golden, messages[i].len);
            memcpy(bytes + offset, patch, size);
            fed_reader r;
            fed_reader_init(&r, bytes, messages[i].len);
            any_message m;
            fed_status status = messages[i].read(&r, &m);
            assert_fed_status(r.status, status);
            return status;
        }
    }
    fail_msg("the table of messages has no \"%s\"", which);
    return FED_EINVAL;
}

FED_TEST(test_unknown_enum_values_are_refused) {
    assert_fed_status(read_patched("checkin", 1, "\x02", 1), FED_EFORMAT);
    assert_fed_status(read_patched("wait", 1, "\x06", 1), FED_OK);
    assert_fed_status(read_patched("wait", 1, "\x07", 1), FED_EFORMAT);
    assert_fed_status(read_patched("train", 0, "\x04", 1), FED_EFORMAT);
    assert_fed_status(read_patched("train", 0, "\xff", 1), FED_EFORMAT);
    assert_fed_status(read_patched("train", 0, "\x03", 1), FED_OK);
    assert_fed_status(read_patched("part", 0, "\x00", 1), FED_EFORMAT);
    assert_fed_status(read_patched("part", 0, "\x05", 1), FED_EFORMAT);
}

FED_TEST(test_a_list_of_tasks_comes_back_as_it_was) {
    fed_reader r;
    fed_checkin m;
    fed_reader_init(&r, checkin_slots_bytes, sizeof checkin_slots_bytes - 1);
    assert_fed_ok(fed_checkin_read(&r, &m));
    assert_int_equal(m.slots, 4);
    assert_int_equal(fed_checkin_count(&m), 3);
    assert_int_equal(fed_checkin_held(&m, 5)->version, 258);
    assert_int_equal(fed_checkin_held(&m, 9)->version, 3);
    assert_ptr_equal(fed_checkin_held(&m, 7), &m.held[2]);
    assert_null(fed_checkin_held(&m, 4));
    assert_null(fed_checkin_held(&m, 0));
    fed_assignment *work = calloc(1, sizeof *work);
    assert_non_null(work);
    fed_reader_init(&r, train_slots_bytes, sizeof train_slots_bytes - 1);
    assert_fed_ok(fed_assignment_read(&r, 2, work));
    assert_int_equal(work->replaces, 11);
    free(work);
}

/* Byte 26 is the number of slots. Byte 27 is the number of further tasks, which begin at byte
 * 28. */
FED_TEST(test_a_list_of_tasks_that_makes_no_sense_is_refused) {
    assert_fed_status(read_patched("checkin slots", 26, "\x03", 1), FED_OK);
    assert_fed_status(read_patched("checkin slots", 26, "\x08", 1), FED_OK);
    assert_fed_status(read_patched("checkin slots", 26, "\x00", 1), FED_EFORMAT); /* no slot */
    assert_fed_status(read_patched("checkin slots", 26, "\x09", 1), FED_EFORMAT);
    assert_fed_status(read_patched("checkin slots", 26, "\x02", 1), FED_EFORMAT); /* 3 tasks in 2 */
    assert_fed_status(read_patched("checkin slots", 27, "\xff", 1), FED_EFORMAT);
    assert_fed_status(read_patched("checkin slots", 28, "\x00", 1), FED_EFORMAT); /* no task */
    assert_fed_status(read_patched("checkin slots", 28, "\x05", 1), FED_EFORMAT); /* a task twice */
    assert_fed_status(read_patched("checkin slots", 40, "\x09", 1), FED_EFORMAT);
    assert_fed_status(read_patched("checkin slots", 6, "\x00", 1), FED_EFORMAT); /* no first task */
}

FED_TEST(test_another_protocol_version_is_told_apart_from_garbage) {
    assert_fed_status(read_patched("checkin", 0, "\x03", 1), FED_EVERSION);
    assert_fed_status(read_patched("checkin", 0, "\x00", 1), FED_EVERSION);
    static const uint8_t longer[] = {3};
    fed_reader r;
    fed_reader_init(&r, longer, sizeof longer); /* a later protocol, whose layout may differ */
    fed_checkin m;
    assert_fed_status(fed_checkin_read(&r, &m), FED_EVERSION);
}

FED_TEST(test_a_part_must_go_forward) {
    assert_fed_status(read_patched("part", 5, "\x03", 1), FED_EFORMAT);     /* delta 3 to 3 */
    assert_fed_status(read_patched("part", 5, "\x02", 1), FED_EFORMAT);     /* delta 3 to 2 */
    assert_fed_status(read_patched("part", 0, "\x01", 1), FED_EFORMAT);     /* snapshot 3 to 4 */
    assert_fed_status(read_patched("part", 0, "\x01\x04", 2), FED_OK);      /* snapshot 4 to 4 */
    assert_fed_status(read_patched("part", 0, "\x03", 1), FED_OK);          /* patch 3 to 4 */
    assert_fed_status(read_patched("part", 0, "\x03\x04", 2), FED_OK);      /* patch 4 to 4 */
    assert_fed_status(read_patched("part", 0, "\x03\x05", 2), FED_EFORMAT); /* patch 5 to 4 */
    assert_fed_status(read_patched("part", 0, "\x04", 1), FED_OK);          /* address 3 to 4 */
    assert_fed_status(read_patched("part", 0, "\x04\x05", 2), FED_EFORMAT); /* address 5 to 4 */
    static const char no_bytes[8] = "";
    assert_fed_status(read_patched("address", 32, no_bytes, 8), FED_EFORMAT);
}

FED_TEST(test_an_envelope_longer_than_what_is_left_is_refused) {
    static const uint8_t part[] = {2,    0,    0,    0,    0,    1,    0,    0,    0,   0xff,
                                   0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    fed_reader r;
    fed_reader_init(&r, part, sizeof part);
    fed_part m;
    assert_fed_status(fed_part_read(&r, &m), FED_EFORMAT);
}

FED_TEST(test_numbers_out_of_their_range_are_refused) {
    static const char nan_bits[] = "\x00\x00\xc0\x7f", inf_bits[] = "\x00\x00\x80\x7f";
    const size_t samples = 20, loss = 24, steps = 8 + 21 + 11 + 4, rate = steps + 8 + 4;
    assert_fed_status(read_patched("update", samples, "\0\0\0\0", 4), FED_EFORMAT);
    assert_fed_status(read_patched("update", loss, nan_bits, 4), FED_OK); /* no loss */
    assert_fed_status(read_patched("update", loss, inf_bits, 4), FED_EFORMAT);
    assert_fed_status(read_patched("piece", 36, "\xc1\xc6\x2d", 3), FED_EFORMAT); /* past the end */
    assert_fed_status(read_patched("piece", 36, "\xc0\xc6\x2d", 3), FED_OK);
    assert_fed_status(read_patched("metric", 12, "\0\0\0\0\0\0\0\0", 8), FED_EFORMAT);
    assert_fed_status(read_patched("metric", 16, "\x11\x27", 2),
                      FED_EFORMAT); /* 10001 correct of 10000 */
    assert_fed_status(read_patched("metric", 16, "\x10\x27", 2), FED_OK);
    assert_fed_status(read_patched("metric", 16, "\xff\xff\xff\xff", 4), FED_OK); /* no accuracy */
    assert_fed_status(read_patched("metric", 16, "\xfe\xff\xff\xff", 4), FED_EFORMAT);
    assert_fed_status(read_patched("metric", 20, nan_bits, 4), FED_OK);
    assert_fed_status(read_patched("metric", 20, inf_bits, 4), FED_EFORMAT);
    assert_fed_status(read_patched("task", 0, "\0\0\0\0\0\0\0\0", 8), FED_EFORMAT);
    assert_fed_status(read_patched("task", steps, "\0\0\0\0", 4), FED_EFORMAT);
    assert_fed_status(read_patched("task", steps + 4, "\0\0\0\0", 4), FED_EFORMAT);
    assert_fed_status(read_patched("task", rate, inf_bits, 4), FED_EFORMAT);
    assert_fed_status(read_patched("task", rate, "\0\0\0\0", 4), FED_EFORMAT);
    assert_fed_status(read_patched("task", rate, "\x00\x00\x00\xbf", 4), FED_EFORMAT);
}

FED_TEST(test_a_string_with_a_nul_or_without_room_is_refused) {
    assert_fed_status(read_patched("task", 12, "\0", 1), FED_EFORMAT);
    assert_fed_status(read_patched("decline", 22, "\0", 1), FED_EFORMAT);
    assert_fed_status(read_patched("decline", 20, "\x80\x02", 2), FED_EFORMAT); /* 256 bytes */
    assert_fed_status(read_patched("task", 8, "\xff\x7f", 2), FED_EFORMAT);
    fed_task task = sample_task;
    memset(task.model, 'm', sizeof task.model - 1);
    uint8_t bytes[sizeof task + 100];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_task_write(&w, &task);
    fed_reader r;
    fed_reader_init(&r, bytes, w.len);
    fed_task back;
    assert_fed_ok(fed_task_read(&r, &back));
    assert_string_equal(back.model, task.model);
}

/* Devices with FED_CAN_LONG read no more than FED_ASSIGNMENT_MOST bytes. */
FED_TEST(no_task_makes_a_longer_assignment_than_devices_read) {
    fed_assignment most = {.action = FED_ACTION_TRAIN,
                           .capabilities = FED_CAN_TASKS | fed_task_capabilities()};
    uint8_t bytes[FED_ASSIGNMENT_MOST];
    fed_writer w;
    memset(most.task.model, 'x', sizeof most.task.model - 1);
    memset(most.task.codec_up, 'x', sizeof most.task.codec_up - 1);
    memset(most.task.optimizer, 'x', sizeof most.task.optimizer - 1);
    memset(most.task.app, 'x', sizeof most.task.app - 1);
    memset(most.task.downloads, 'x', sizeof most.task.downloads - 1);
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_assignment_write(&w, FED_PROTOCOL, &most);
    assert_fed_ok(w.status);
    assert_true(w.len >= sizeof most.task.model + sizeof most.task.app);
}

static fed_assignment sample_private(void) {
    fed_assignment m = sample_train();
    m.capabilities = FED_CAN_PRIVATE;
    m.privacy = (fed_privacy){.clip = 0.5f,
                              .minimum = 20,
                              .goal = 400,
                              .cohort = 520,
                              .sigma2 = 6.25,
                              .epsilon = 8,
                              .delta = 1e-5f,
                              .participations = 10,
                              .apart = 3,
                              .helpers = 1};
    memset(m.privacy.helper_key[0], 4, FED_SEAL_KEY);
    return m;
}

static fed_status private_comes_back(const fed_assignment *m, size_t *len, fed_assignment *got) {
    uint8_t bytes[1000];
    fed_writer w;
    fed_reader r;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_assignment_write(&w, 2, m);
    assert_fed_ok(w.status);
    *len = w.len;
    fed_reader_init(&r, bytes, w.len);
    FED_TRY(fed_assignment_read(&r, 2, got));
    return fed_reader_end(&r);
}

FED_TEST(what_a_private_task_asks_travels_with_its_capability_only) {
    fed_assignment m = sample_private(), got;
    size_t with = 0, without = 0, open = 0;
    assert_fed_ok(private_comes_back(&m, &with, &got));
    assert_memory_equal(&got.privacy, &m.privacy, sizeof got.privacy);
    m.capabilities = 0;
    assert_fed_ok(private_comes_back(&m, &without, &got));
    assert_int_equal(with, without + 4 + 3 * 4 + 8 + 2 * 4 + 2 * 4 + 1 + FED_SEAL_KEY + 8);
    assert_true(got.privacy.clip == 0);
    m.capabilities = FED_CAN_PRIVATE;
    m.privacy.clip = 0;
    assert_fed_ok(private_comes_back(&m, &open, &got));
    assert_int_equal(open, without + 4);
    assert_int_equal(got.privacy.goal, 0);
}

FED_TEST(numbers_of_a_private_task_out_of_their_range_are_refused) {
    for (unsigned k = 0; k < 8; k++) {
        fed_assignment m = sample_private(), got;
        fed_privacy *p = &m.privacy;
        size_t len = 0;
        p->clip = k == 0 ? -1 : k == 1 ? NAN : p->clip;
        p->minimum = k == 2 ? 0 : k == 3 ? 401 : p->minimum;
        p->cohort = k == 4 ? 399 : p->cohort;
        p->sigma2 = k == 5 ? -1 : p->sigma2;
        p->delta = k == 6 ? 1 : p->delta;
        p->apart = k == 7 ? 0 : p->apart;
        assert_fed_status(private_comes_back(&m, &len, &got), FED_EFORMAT);
    }
}
