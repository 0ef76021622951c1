/* Range headers of requests: the bytes that they ask for, and texts that are not valid ranges. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedserver/routes/byte_range.h"

enum { TOTAL = 100 };
static const uint64_t tag = UINT64_C(0x0123456789abcdef);

static fedserver_range_kind read_range(const char *range, const char *if_range, uint64_t *first,
                                       uint64_t *len) {
    return fedserver_range_read(range, if_range, TOTAL, tag, first, len);
}

FED_TEST(ranges_are_cut_to_what_there_is) {
    static const struct {
        const char *text;
        uint64_t first, len;
    } cases[] = {{"bytes=0-", 0, 100},
                 {"bytes=40-", 40, 60},
                 {"bytes=99-", 99, 1},
                 {"bytes=10-19", 10, 10},
                 {"bytes=10-10", 10, 1},
                 {"BYTES=10-10", 10, 1},
                 {"bytes=0-99", 0, 100},
                 {"bytes=90-100000", 90, 10},
                 {"bytes=90-99999999999999999999999999", 90, 10},
                 {"bytes=-1", 99, 1},
                 {"bytes=-100", 0, 100},
                 {"bytes=-101", 0, 100},
                 {"bytes=-99999999999999999999999999", 0, 100}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        uint64_t first = 7777, len = 7777;
        assert_int_equal(read_range(cases[k].text, NULL, &first, &len), FEDSERVER_RANGE_PART);
        assert_int_equal(first, cases[k].first);
        assert_int_equal(len, cases[k].len);
    }
}

FED_TEST(what_begins_behind_the_end_is_no_part) {
    static const char *const cases[] = {"bytes=100-", "bytes=100-200", "bytes=-0",
                                        "bytes=99999999999999999999999999-"};
    uint64_t first, len;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_int_equal(read_range(cases[k], NULL, &first, &len), FEDSERVER_RANGE_NONE);
    }
    assert_int_equal(fedserver_range_read("bytes=0-", NULL, 0, tag, &first, &len),
                     FEDSERVER_RANGE_NONE);
    assert_int_equal(fedserver_range_read("bytes=-5", NULL, 0, tag, &first, &len),
                     FEDSERVER_RANGE_NONE);
}

FED_TEST(what_is_no_range_means_everything) {
    static const char *const cases[] = {
        "",           "bytes",      "bytes=",    "bytes=-",   "bytes=5",       "bytes=a-",
        "bytes=5-a",  "bytes=5-6-", "bytes=9-5", "bytes= 5-", "bytes=5 -",     "bytes=+5-",
        "bytes=5--1", "items=5-",   "bytes:5-",  "bytes=5-,", "bytes=5-6,7-8", "bytes=0-9,5-14",
        "bytes=0x5-", "5-",         "bytes=5-6 "};
    uint64_t first, len;
    assert_int_equal(read_range(NULL, NULL, &first, &len), FEDSERVER_RANGE_WHOLE);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        assert_int_equal(read_range(cases[k], NULL, &first, &len), FEDSERVER_RANGE_WHOLE);
    }
}

FED_TEST(a_range_of_other_bytes_means_everything) {
    uint64_t first, len;
    assert_int_equal(read_range("bytes=5-", "\"0123456789abcdef\"", &first, &len),
                     FEDSERVER_RANGE_PART);
    static const char *const others[] = {"", "\"0123456789abcdee\"", "0123456789abcdef",
                                         "W/\"0123456789abcdef\"", "Sat, 29 Oct 1994 19:43:31 GMT"};
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        assert_int_equal(read_range("bytes=5-", others[k], &first, &len), FEDSERVER_RANGE_WHOLE);
    }
}
