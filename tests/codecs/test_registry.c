/* The table of codecs: ids and names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include "fedcodec/codec_vtable.h"

static void ids_never_change(void) {
    static const struct {
        uint8_t id;
        const char *name;
    } pinned[] = {{1, "float32"},    {2, "3lc"},      {3, "sbc"},         {4, "float16"},
                  {5, "bfloat16"},   {6, "int8"},     {7, "stoch3"},      {8, "onebit"},
                  {9, "topk"},       {12, "twobit"},  {13, "inceptionn"}, {14, "trunc"},
                  {15, "randk"},     {16, "qsgd"},    {17, "natural"},    {18, "eden"},
                  {19, "threshold"}, {20, "powersgd"}}; /* add to it alone */
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        const fedcodec_vtable *codec = fedcodec_by_id(pinned[i].id);
        assert_non_null(codec);
        assert_string_equal(codec->name, pinned[i].name);
    }
}

static void each_codec_is_found_by_its_own_id(void) {
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        assert_ptr_equal(fedcodec_by_id(fedcodec_at(k)->id), fedcodec_at(k));
    }
}

static void names_differ(void) {
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        for (size_t j = 0; j < k; j++) {
            assert_string_not_equal(fedcodec_at(j)->name, fedcodec_at(k)->name);
        }
    }
}

static void an_unknown_id_is_no_codec(void) {
    assert_null(fedcodec_by_id(0));
    assert_null(fedcodec_by_id(255));
    assert_null(fedcodec_at(1000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(ids_never_change),
        fed_unit_test(each_codec_is_found_by_its_own_id),
        fed_unit_test(names_differ),
        fed_unit_test(an_unknown_id_is_no_codec),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
