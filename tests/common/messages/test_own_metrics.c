/* Lists of custom metrics: the names and values that are allowed, their bytes, and lists that are
 * refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/own_metrics.h"

/* The bytes of a list of two metrics: "f1" is 0.75, "val/auc" is -2. */
static const char golden[] = "\x02"
                             "\x02"
                             "f1"
                             "\x00\x00\x00\x00\x00\x00\xe8\x3f"
                             "\x07val/auc"
                             "\x00\x00\x00\x00\x00\x00\x00\xc0";
enum { GOLDEN = sizeof golden - 1 };

static fed_own_metrics sample(void) {
    fed_own_metrics m = {.count = 0};
    assert_fed_ok(fed_own_metrics_set(&m, "f1", 0.75, NULL));
    assert_fed_ok(fed_own_metrics_set(&m, "val/auc", -2, NULL));
    return m;
}

static fed_status read_bytes(const void *bytes, size_t len, fed_own_metrics *m) {
    fed_reader r;
    fed_reader_init(&r, bytes, len);
    return fed_own_metrics_read(&r, m);
}

FED_TEST(a_name_that_is_set_again_has_the_new_value) {
    fed_own_metrics m = sample();
    assert_fed_ok(fed_own_metrics_set(&m, "f1", 0.5, NULL));
    assert_int_equal(m.count, 2);
    assert_true(m.items[0].value == 0.5 && m.items[1].value == -2);
}

FED_TEST(what_is_not_allowed_is_refused_with_a_sentence) {
    static const char *const names[] = {"", "two words", "gr\xc3\xb6\xc3\x9f\x65", "a,b",
                                        "abcdefghijklmnopqrstuvwxyz012345"};
    fed_own_metrics m = sample(), before = m;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        fed_error err = {0};
        assert_fed_status(fed_own_metrics_set(&m, names[k], 1, &err), FED_EINVAL);
        assert_fed_says(err, "a name has 1 to 31 letters, digits, _, -, . and /");
    }
    fed_error err = {0};
    assert_fed_status(fed_own_metrics_set(&m, "f1", (double)NAN, &err), FED_EINVAL);
    assert_fed_says(err, "metric \"f1\" is nan: report a finite number, or leave the metric out");
    assert_fed_status(fed_own_metrics_set(&m, "f1", -(double)INFINITY, &err), FED_EINVAL);
    assert_memory_equal(&m, &before, sizeof m);
}

FED_TEST(a_full_list_takes_no_other_name) {
    fed_own_metrics m = {.count = 0};
    fed_error err = {0};
    char name[16];
    for (int k = 0; k < FED_OWN_METRICS; k++) {
        snprintf(name, sizeof name, "m%d", k);
        assert_fed_ok(fed_own_metrics_set(&m, name, k, NULL));
    }
    assert_fed_status(fed_own_metrics_set(&m, "more", 1, &err), FED_EINVAL);
    assert_fed_says(err, "metric \"more\" is one too many: a round takes 16; leave some out");
    assert_fed_ok(fed_own_metrics_set(&m, "m3", 33, NULL));
    assert_true(m.count == FED_OWN_METRICS && m.items[3].value == 33);
}

FED_TEST(the_longest_list_fits_and_comes_back) {
    fed_own_metrics m = {.count = 0}, read;
    uint8_t bytes[FED_OWN_BYTES];
    fed_writer w;
    for (int k = 0; k < FED_OWN_METRICS; k++) {
        char name[FED_OWN_NAME];
        snprintf(name, sizeof name, "abcdefghijklmnopqrstuvwxyz-0.%02d", k);
        assert_fed_ok(fed_own_metrics_set(&m, name, 1e307 / (k - 7.5), NULL));
    }
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_own_metrics_write(&w, &m);
    assert_fed_ok(w.status);
    assert_int_equal(w.len, FED_OWN_BYTES);
    assert_fed_ok(read_bytes(bytes, w.len, &read));
    assert_memory_equal(&read, &m, sizeof m);
}

FED_TEST(a_list_has_its_golden_bytes_and_leaves_what_follows) {
    const fed_own_metrics m = sample();
    fed_own_metrics read;
    uint8_t bytes[GOLDEN + 1];
    fed_writer w;
    fed_reader r;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_own_metrics_write(&w, &m);
    assert_int_equal(w.len, GOLDEN);
    assert_memory_equal(bytes, golden, GOLDEN);
    bytes[GOLDEN] = 0xfe;
    fed_reader_init(&r, bytes, sizeof bytes);
    assert_fed_ok(fed_own_metrics_read(&r, &read));
    assert_int_equal(fed_reader_left(&r), 1);
    assert_true(read.count == 2 && read.items[1].value == -2);
    assert_string_equal(read.items[1].name, "val/auc");
}

FED_TEST(no_list_has_no_bytes) {
    const fed_own_metrics none = {.count = 0};
    fed_own_metrics read = sample();
    uint8_t byte;
    fed_writer w;
    fed_writer_fixed(&w, &byte, 1);
    fed_own_metrics_write(&w, &none);
    assert_int_equal(w.len, 0);
    assert_fed_ok(read_bytes("", 0, &read));
    assert_int_equal(read.count, 0);
    read = sample();
    assert_fed_ok(read_bytes("\xfe\xdc", 2, &read)); /* no list: an envelope follows at once */
    assert_int_equal(read.count, 0);
}

FED_TEST(a_cut_list_is_refused_and_changes_nothing) {
    fed_own_metrics read = sample(), before = read;
    for (size_t len = 1; len < GOLDEN; len++) {
        uint8_t *exact = malloc(len); /* so that a sanitizer sees a read past its end */
        assert_non_null(exact);
        memcpy(exact, golden, len);
        assert_fed_status(read_bytes(exact, len, &read), FED_EFORMAT);
        free(exact);
    }
    assert_memory_equal(&read, &before, sizeof read);
}

FED_TEST(lists_with_another_form_are_refused) {
    static const struct {
        const char *why, *bytes;
        size_t len;
    } wrong[] = {
        {"no metrics", "\x00", 1},
        {"a name twice",
         "\x02\x01"
         "a\0\0\0\0\0\0\0\0\x01"
         "a\0\0\0\0\0\0\0\0",
         21},
        {"an empty name", "\x01\x00\0\0\0\0\0\0\0\0", 10},
        {"a blank", "\x01\x01 \0\0\0\0\0\0\0\0", 11},
        {"infinity",
         "\x01\x01"
         "a\0\0\0\0\0\0\xf0\x7f",
         11},
        {"NaN",
         "\x01\x01"
         "a\x01\0\0\0\0\0\xf0\x7f",
         11},
    };
    uint8_t many[2 + 17 * 11];
    fed_own_metrics read;
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        if (read_bytes(wrong[k].bytes, wrong[k].len, &read) != FED_EFORMAT) {
            fail_msg("%s is taken", wrong[k].why);
        }
    }
    fed_writer w;
    fed_writer_fixed(&w, many, sizeof many);
    fed_write_u8(&w, 17);
    for (int k = 0; k < 17; k++) {
        const char name[2] = {(char)('a' + k), '\0'};
        fed_write_str(&w, name);
        fed_write_f64(&w, k);
    }
    assert_fed_ok(w.status);
    assert_fed_status(read_bytes(many, w.len, &read), FED_EFORMAT);
}
