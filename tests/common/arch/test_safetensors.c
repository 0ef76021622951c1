/* The safetensors header: writing it, reading it, and the headers that are refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "common/arch/safetensors.h"

static fed_status parse(const char *text, uint64_t data_bytes, fed_safetensors *header,
                        fed_error *err) {
    /* A copy without the NUL, so that a sanitizer sees a read past its end. */
    size_t len = strlen(text);
    uint8_t *exact = malloc(len > 0 ? len : 1);
    memcpy(exact, text, len);
    fed_status status = fed_safetensors_parse("x.st", exact, len, data_bytes, header, err);
    free(exact);
    return status;
}

#define W(name, begin, end)                                                                        \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"

FED_TEST(test_a_written_header_has_its_golden_text) {
    fed_layout layout;
    fed_layout_init(&layout);
    assert_fed_ok(fed_layout_add(&layout, "a.weight", 2, (uint32_t[]){3, 2}));
    assert_fed_ok(fed_layout_add(&layout, "say \"b\\\"", 0, NULL));
    static const char *const metadata[] = {"format", "pt", "note", "line\n\"two\"", NULL};
    fed_writer w;
    fed_writer_growing(&w);
    fed_safetensors_header_write(&w, &layout, metadata);
    static const char golden[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"line\\u000a\\\"two\\\"\"},"
        "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
        "\"say \\\"b\\\\\\\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[24,28]}}";
    assert_fed_ok(w.status);
    assert_int_equal(w.len % 8, 0);
    assert_true(w.len - (sizeof golden - 1) < 8);
    assert_memory_equal(w.data, golden, sizeof golden - 1);
    for (size_t i = sizeof golden - 1; i < w.len; i++) {
        assert_int_equal(w.data[i], ' ');
    }

    fed_safetensors back;
    fed_error err = {0};
    assert_fed_ok_err(fed_safetensors_parse("x", w.data, w.len, 28, &back, &err));
    assert_fed_ok_err(fed_layout_match(&layout, &back.layout, &err));
    assert_string_equal(fed_safetensors_note(&back, "format"), "pt");
    fed_safetensors_free(&back);
    fed_layout_free(&layout);
    fed_writer_free(&w);
}

FED_TEST(test_any_legal_spelling_is_read) {
    static const char *const good[] = {
        "{" W("a", "0", "8") "," W("b", "8", "16") "}",
        "{" W("b", "8", "16") "," W("a", "0",
                                    "8") "}", /* any order: tensors are sorted by their data */
        "{\"__metadata__\":{}," W("a", "0", "8") "," W("b", "8", "16") "}",
        "{" W("a", "0", "8") ",\"__metadata__\":{\"k\":\"\\u00fc\\\\\\u0000\xc3\xbc\"}," W(
            "b", "8", "16") "}      ",
        "{ \"a\" : { \"shape\" : [ 2 ] ,\n\t\"data_offsets\" : [ 0 , 8 ] , \"dtype\" : \"F32\" }\r"
        "," W("b", "8", "16") " } ",
        "{" W("\\u0061", "0", "8") "," W("b", "8", "16") "}",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fed_safetensors header;
        fed_error err = {0};
        assert_fed_ok_err(parse(good[i], 16, &header, &err));
        assert_int_equal(header.layout.count, 2);
        assert_string_equal(header.layout.tensors[0].name, "a");
        assert_int_equal(header.layout.tensors[1].offset, 2);
        assert_int_equal(header.layout.size, 4);
        fed_safetensors_free(&header);
    }
}

FED_TEST(test_a_model_without_tensors_is_read) {
    fed_safetensors header;
    fed_error err = {0};
    assert_fed_ok_err(parse("{}", 0, &header, &err));
    assert_int_equal(header.layout.count, 0);
    assert_null(fed_safetensors_note(&header, "format"));
    fed_safetensors_free(&header);
}

FED_TEST(test_each_tensor_has_its_own_type) {
    fed_safetensors header;
    fed_error err = {0};
    assert_fed_ok_err(parse("{\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
                            "\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[4,8]}}",
                            16, &header, &err));
    static const fed_safetensors_type types[] = {FED_SAFETENSORS_F16, FED_SAFETENSORS_BF16,
                                                 FED_SAFETENSORS_OTHER};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(header.places[i].type, types[i]);
        assert_int_equal(header.places[i].begin, 4 * i);
        assert_int_equal(header.layout.tensors[i].offset, 2 * i);
    }
    assert_string_equal(header.places[2].word, "I64");
    fed_safetensors_free(&header);
}

FED_TEST(test_metadata_that_can_be_shown_is_kept) {
    fed_safetensors header;
    fed_error err = {0};
    assert_fed_ok_err(
        parse("{\"__metadata__\":{\"a\":\"1 \\\"2\\\"\",\"bell\":\"\\u0007\","
              "\"no\\u0000\":\"x\",\"umlaut\":\"\xc3\xbc\",\"e\":\"\",\"last\":\"z\"}}",
              0, &header, &err));
    assert_string_equal(fed_safetensors_note(&header, "a"), "1 \"2\"");
    assert_string_equal(fed_safetensors_note(&header, "e"), "");
    assert_string_equal(fed_safetensors_note(&header, "last"), "z");
    assert_null(fed_safetensors_note(&header, "bell"));
    assert_null(fed_safetensors_note(&header, "no"));
    assert_null(fed_safetensors_note(&header, "umlaut"));
    assert_null(fed_safetensors_note(&header, "1 \"2\"")); /* this text is a value, not a key */
    fed_safetensors_free(&header);
}

static void check_refused(const char *text, uint64_t data_bytes, const char *words) {
    fed_safetensors header = {.layout = {.size = 77}};
    fed_error err = {0};
    fed_status status = parse(text, data_bytes, &header, &err);
    if (status != FED_EFORMAT || strstr(err.text, words) == NULL) {
        fail_msg("%.100s: %s (%s), not \"%s\"", text, fed_status_name(status), err.text, words);
    }
    assert_memory_equal(err.text, "x.st: ", 6);
    assert_int_equal(header.layout.size, 77);
}

FED_TEST(test_what_is_not_the_json_of_a_header_is_refused) {
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "byte 0 of the header: expected '{'"},
        {" {}", "byte 0 of the header: expected '{'"}, /* the '{' must be the first byte */
        {"[]", "expected '{'"},
        {"{", "expected a string"},
        {"{}{}", "more text"},
        {"{},", "more text"},
        {"{" W("a", "0", "8"), "expected ',' or '}'"},
        {"{" W("a", "0", "8") ",}", "expected a string"},
        {"{" W("a", "0", "8") W("b", "8", "16") "}", "expected ',' or '}'"},
        {"{\"a\"}", "expected ':'"},
        {"{\"a\":5}", "expected '{'"},
        {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[", "expected '{'"},
        {"{\"a\":{\"a\":{\"a\":{\"a\":{", "unknown or repeated key"},
        {"{\"a", "unterminated"},
        {"{\"a\n\":{}}", "unterminated"},
        {"{\"a\\", "unknown escape"},
        {"{\"a\\x\":{}}", "unknown escape"},
        {"{\"a\\u00", "four hex digits"},
        {"{\"a\\u00g0\":{}}", "four hex digits"},
        {"{\"a\\u0000\":{}}", "printable ASCII"},
        {"{\"a\\n\":{}}", "printable ASCII"},
        {"{\"\xc3\xbc\":{}}", "printable ASCII"},
        {"{'a':{}}", "expected a string"},
        {"{null:{}}", "expected a string"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_refused(bad[i].text, 8, bad[i].words);
    }
}

FED_TEST(test_a_header_that_is_not_utf8_is_refused) {
    static const char *const wrong[] = {
        "\xff",     "\x80",     "\xc3",
        "\xe2\x82", "\xc0\x80", "\xed\xa0\x80"}; /* the last one is half a pair */
    static const char *const places[] = {
        "{\"__metadata__\":{\"k%s\":\"v\"}}",
        "{\"__metadata__\":{\"k\":\"v%s\"}}",
        "{\"__metadata__\":{\"k\":\"\\u0000%s\"}}",
        "{\"k%s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
        "{}%s",
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            char text[128], words[64];
            const int at = (int)(strstr(places[i], "%s") - places[i]);
            snprintf(text, sizeof text, "%.*s%s%s", at, places[i], wrong[k], places[i] + at + 2);
            snprintf(words, sizeof words, "byte %d of the header: not UTF-8", at);
            check_refused(text, 4, words);
        }
    }
}

#define ENTRY(fields) "{\"a\":{" fields "}}"
#define DTYPE         "\"dtype\":\"F32\""
#define SHAPE         "\"shape\":[2]"
#define OFFSETS       "\"data_offsets\":[0,8]"

FED_TEST(test_a_tensor_with_wrong_fields_is_refused) {
    static const struct {
        const char *text, *words;
    } bad[] = {
        {ENTRY(""), "expected a string"},
        {ENTRY(DTYPE "," SHAPE), "expected dtype, shape and data_offsets"},
        {ENTRY(DTYPE "," SHAPE "," OFFSETS "," DTYPE), "expected '}'"},
        {ENTRY(DTYPE "," SHAPE "," SHAPE), "unknown or repeated key"},
        {ENTRY(DTYPE "," SHAPE ",\"offset\":[0,8]"), "unknown or repeated key"},
        {ENTRY(DTYPE "," SHAPE ",\"a_very_long_key_of_a_tensor\":[0,8]"), "too long"},
        {ENTRY("\"dtype\":\"F16\"," SHAPE "," OFFSETS), "must be bytes 0 to 4, not 0 to 8"},
        {ENTRY("\"dtype\":\"f32\"," SHAPE "," OFFSETS), "unknown dtype"},
        {ENTRY("\"dtype\":32," SHAPE "," OFFSETS), "expected a string"},
        {ENTRY(DTYPE ",\"shape\":2," OFFSETS), "expected '['"},
        {ENTRY(DTYPE ",\"shape\":[2,]," OFFSETS), "expected a whole number"},
        {ENTRY(DTYPE ",\"shape\":[2 2]," OFFSETS), "expected ',' or ']'"},
        {ENTRY(DTYPE ",\"shape\":[-2]," OFFSETS), "expected a whole number"},
        {ENTRY(DTYPE ",\"shape\":[+2]," OFFSETS), "expected a whole number"},
        {ENTRY(DTYPE ",\"shape\":[2.0]," OFFSETS), "expected ',' or ']'"},
        {ENTRY(DTYPE ",\"shape\":[2e0]," OFFSETS), "expected ',' or ']'"},
        {ENTRY(DTYPE ",\"shape\":[02]," OFFSETS), "expected a whole number"},
        {ENTRY(DTYPE ",\"shape\":[\"2\"]," OFFSETS), "expected a whole number"},
        {ENTRY(DTYPE ",\"shape\":[[2]]," OFFSETS), "expected a whole number"},
        {ENTRY(DTYPE ",\"shape\":[4294967298]," OFFSETS), "dimension too large"},
        {ENTRY(DTYPE ",\"shape\":[18446744073709551618]," OFFSETS), "number too large"},
        {ENTRY(DTYPE ",\"shape\":[1,1,1,1,1,1,1,1,2]," OFFSETS), "too many numbers"},
        {ENTRY(DTYPE ",\"shape\":[0]," OFFSETS), "empty or too large"},
        {ENTRY(DTYPE ",\"shape\":[4294967295,4294967295,4294967295]," OFFSETS), "too large"},
        {ENTRY(DTYPE "," SHAPE ",\"data_offsets\":[]"), "[begin, end]"},
        {ENTRY(DTYPE "," SHAPE ",\"data_offsets\":[0]"), "[begin, end]"},
        {ENTRY(DTYPE "," SHAPE ",\"data_offsets\":[8,0]"), "[begin, end]"},
        {ENTRY(DTYPE "," SHAPE ",\"data_offsets\":[0,8,9]"), "too many numbers"},
        {"{" W("", "0", "8") "}", "no name"},
        {"{" W("a", "0", "8") "," W("a", "8", "16") "}", "a name that is taken"},
        {"{" W("0123456789012345678901234567890123456789012345678901234567890123"
               "0123456789012345678901234567890123456789012345678901234567890123",
               "0", "8") "}",
         "too long"},
        {"{\"__metadata__\":{\"a\":1}," W("a", "0", "8") "}", "expected a string"},
        {"{\"__metadata__\":{\"a\":{}}," W("a", "0", "8") "}", "expected a string"},
        {"{\"__metadata__\":[]," W("a", "0", "8") "}", "expected '{'"},
        {"{\"__metadata__\":{},\"__metadata__\":{}," W("a", "0", "8") "}", "twice"},
        {"{\"__metadata__\":{\"a\":\"b\",}," W("a", "0", "8") "}", "expected a string"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_refused(bad[i].text, 8, bad[i].words);
    }
}

FED_TEST(test_offsets_must_cover_the_data_exactly_once) {
    static const struct {
        const char *text;
        uint64_t data_bytes;
        const char *words;
    } bad[] = {
        {"{}", 8, "take 0 bytes, but 8 follow"},
        {"{" W("a", "0", "8") "}", 16, "take 8 bytes, but 16 follow"},
        {"{" W("a", "0", "8") "}", 7, "take 8 bytes, but 7 follow"},
        {"{" W("a", "8", "16") "}", 16, "\"a\" must be bytes 0 to 8, not 8 to 16"},
        {"{" W("a", "0", "4") "}", 4, "must be bytes 0 to 8, not 0 to 4"},
        {"{" W("a", "0", "16") "}", 16, "must be bytes 0 to 8, not 0 to 16"},
        {"{" W("a", "0", "8") "," W("b", "0", "8") "}", 8, "must be bytes 8 to 16, not 0 to 8"},
        {"{" W("a", "0", "8") "," W("b", "4", "12") "}", 12, "must be bytes 8 to 16, not 4 to 12"},
        {"{" W("a", "0", "8") "," W("b", "12", "20") "}", 20, "must be bytes 8 to 16"},
        {"{" W("a", "18446744073709551608", "18446744073709551615") "}", 8, "must be bytes 0 to 8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_refused(bad[i].text, bad[i].data_bytes, bad[i].words);
    }
}

FED_TEST(test_a_header_cut_anywhere_is_refused) {
    static const char whole[] =
        "{\"__metadata__\":{\"k\":\"\\u00fcv\\n\"}," W("a", "0", "8") "," W("b", "8", "16") "}";
    char text[sizeof whole];
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        memcpy(text, whole, len);
        text[len] = '\0';
        check_refused(text, 16, "x.st");
    }
}

FED_TEST(test_too_many_tensors_are_refused) {
    for (size_t extra = 0; extra < 2; extra++) {
        size_t count = FED_SAFETENSORS_TENSORS + extra;
        fed_writer w;
        fed_writer_growing(&w);
        for (size_t i = 0; i < count; i++) {
            fed_write_printf(
                &w, "%c\"t%zu\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[%zu,%zu]}",
                i == 0 ? '{' : ',', i, i * 4, i * 4 + 4);
        }
        fed_write_printf(&w, "}");
        fed_safetensors header;
        fed_error err = {0};
        fed_status status = fed_safetensors_parse("x", w.data, w.len, count * 4, &header, &err);
        if (extra == 0) {
            assert_fed_ok_err(status);
            fed_safetensors_free(&header);
        } else {
            assert_fed_status(status, FED_EFORMAT);
            assert_non_null(strstr(err.text, "too many tensors"));
        }
        fed_writer_free(&w);
    }
}
