/* The table of codecs: ids and names, which must not change. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fedcodec/codec_vtable.h"

FED_TEST(ids_never_change) {
    static const struct {
        uint8_t id;
        const char *name;
    } pinned[] = {{1, "float32"},    {2, "3lc"},      {3, "sbc"},         {4, "float16"},
                  {5, "bfloat16"},   {6, "int8"},     {7, "stoch3"},      {8, "onebit"},
                  {9, "topk"},       {12, "twobit"},  {13, "inceptionn"}, {14, "trunc"},
                  {15, "randk"},     {16, "qsgd"},    {17, "natural"},    {18, "eden"},
                  {19, "threshold"}, {20, "powersgd"}}; /* add new codecs here, and change nothing
                                                           else */
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        const fedcodec_vtable *codec = fedcodec_by_id(pinned[i].id);
        assert_non_null(codec);
        assert_string_equal(codec->name, pinned[i].name);
    }
}

FED_TEST(each_codec_is_found_by_its_own_id) {
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        assert_ptr_equal(fedcodec_by_id(fedcodec_at(k)->id), fedcodec_at(k));
    }
}

FED_TEST(names_differ) {
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        for (size_t j = 0; j < k; j++) {
            assert_string_not_equal(fedcodec_at(j)->name, fedcodec_at(k)->name);
        }
    }
}

FED_TEST(an_unknown_id_is_no_codec) {
    assert_null(fedcodec_by_id(0));
    assert_null(fedcodec_by_id(255));
    assert_null(fedcodec_at(1000));
}
