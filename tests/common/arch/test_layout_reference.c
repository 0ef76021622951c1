/* How a task names a model's text that is too long for it, and what is refused as that text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "arch_case.h"
#include "fed/bytes.h"
#include "fed/layout_reference.h"

/* A text of n tensors of two values each, whose names have `name` characters. */
static char *text_of(size_t n, int name) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "tensors ");
    for (size_t k = 0; k < n; k++) {
        fed_write_printf(&w, "%s%0*zu 2", k > 0 ? " | " : "", name, k);
    }
    fed_write_u8(&w, 0);
    assert_fed_ok(w.status);
    return (char *)w.data;
}

static void name_of(const char *text, char model[FED_ARCH_TEXT]) {
    fed_arch arch = arch_case_parse(text);
    fed_layout_name(&arch, model);
    fed_arch_free(&arch);
}

static fed_status resolve(const char *model, const void *bytes, size_t len, fed_error *err) {
    fed_arch arch;
    const fed_status status = fed_layout_resolve(model, bytes, len, &arch, err);
    if (status == FED_OK) {
        fed_arch_free(&arch);
    }
    return status;
}

FED_TEST(a_text_that_fits_is_in_the_task_itself) {
    char model[FED_ARCH_TEXT];
    fed_error err = {0};
    name_of("tensors  a 2 # first\n | b 3", model);
    assert_string_equal(model, "tensors a 2 | b 3");
    assert_false(fed_layout_is_reference(model));
    assert_fed_ok_err(resolve(model, NULL, 0, &err));
    char *text = text_of(1, 63);
    name_of(text, model);
    assert_string_equal(model, text);
    free(text);
}

FED_TEST(a_longer_text_is_named_by_its_counts_and_its_digest) {
    char model[FED_ARCH_TEXT], expected[200], hex[FED_SHA256_HEX];
    uint8_t digest[FED_SHA256_SIZE];
    fed_layout_reference reference;
    fed_error err = {0};
    fed_arch arch;
    char *text = text_of(1000, 8);
    name_of(text, model);
    fed_sha256(text, strlen(text), digest);
    fed_hex(digest, sizeof digest, hex);
    snprintf(expected, sizeof expected, "layout 1000 tensors 2000 values sha256 %s", hex);
    assert_string_equal(model, expected);
    assert_true(fed_layout_is_reference(model));
    assert_fed_ok_err(fed_layout_reference_read(model, &reference, &err));
    assert_int_equal(reference.tensors, 1000);
    assert_int_equal(reference.values, 2000);
    assert_memory_equal(reference.sha256, digest, sizeof digest);
    assert_fed_ok_err(fed_layout_resolve(model, text, strlen(text), &arch, &err));
    assert_int_equal(arch.layout.count, 1000);
    assert_string_equal(arch.text, text);
    fed_arch_free(&arch);
    free(text);
}

/* Devices of release 0.2.0 know names of 63 characters. */
FED_TEST(a_longer_name_makes_a_layout_too) {
    char model[FED_ARCH_TEXT];
    char *text = text_of(1, 64);
    name_of(text, model);
    assert_true(fed_layout_is_reference(model));
    free(text);
}

/* The texts with which a coordinator or a store could mislead. */
FED_TEST(other_bytes_than_those_named_are_refused) {
    char model[FED_ARCH_TEXT];
    fed_error err = {0};
    char *text = text_of(1000, 8);
    const size_t len = strlen(text);
    name_of(text, model);
    assert_fed_fails(resolve(model, NULL, 0, &err), FED_EFORMAT, "its layout is missing");
    assert_fed_fails(resolve(model, text, len - 1, &err), FED_EFORMAT, "do not have the digest");
    assert_fed_fails(resolve(model, text, 0, &err), FED_EFORMAT, "do not have the digest");
    text[len - 1] = '3';
    assert_fed_fails(resolve(model, text, len, &err), FED_EFORMAT, "do not have the digest");
    free(text);
}

/* A reference whose digest is right, for bytes that a hostile coordinator has chosen. */
static void refused(const char *bytes, size_t len, unsigned tensors, unsigned long long values,
                    const char *says) {
    char model[FED_ARCH_TEXT], hex[FED_SHA256_HEX];
    uint8_t digest[FED_SHA256_SIZE];
    fed_error err = {0};
    fed_sha256(bytes, len, digest);
    fed_hex(digest, sizeof digest, hex);
    snprintf(model, sizeof model, "layout %u tensors %llu values sha256 %s", tensors, values, hex);
    assert_fed_fails(resolve(model, bytes, len, &err), FED_EFORMAT, says);
}

FED_TEST(bytes_that_are_no_such_model_are_refused) {
    static const char twice[] = "tensors a 1 | a 1", large[] = "tensors a 65536x65536x65536";
    static const char two[] = "tensors a 1 | b 1", nul[] = "tensors a 1\0 | b 1";
    refused(twice, sizeof twice - 1, 2, 2, "two tensors have this one");
    refused(large, sizeof large - 1, 1, 1, "at most 2^31 values");
    refused(two, sizeof two - 1, 3, 2, "has 2 tensors of 2 values, and the task says 3 of 2");
    refused(two, sizeof two - 1, 2, 9, "has 2 tensors of 2 values, and the task says 2 of 9");
    refused("tensors  a 1", 12, 1, 1, "not written as it should be");
    refused("tensors a 1 # x", 15, 1, 1, "not written as it should be");
    refused(nul, sizeof nul - 1, 1, 1, "not written as it should be");
    refused("", 0, 1, 1, "no model is called");
    refused("lr", 2, 2, 7850, "not written as it should be");
    refused("layout 1 tensors 1 values", 25, 1, 1, "this only names one");
    char *many = text_of(FED_ARCH_TENSORS + 1, 6);
    refused(many, strlen(many), FED_ARCH_TENSORS, 2 * FED_ARCH_TENSORS, "65,536 tensors");
    free(many);
}

FED_TEST(a_layout_that_is_too_long_is_not_looked_at) {
    char model[FED_ARCH_TEXT];
    fed_error err = {0};
    char *bytes = calloc(1, FED_ARCH_LONG);
    snprintf(model, sizeof model, "layout 1 tensors 1 values sha256 %064d", 0);
    assert_non_null(bytes);
    assert_fed_fails(resolve(model, bytes, FED_ARCH_LONG, &err), FED_EFORMAT, "longer than");
    free(bytes);
}

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

FED_TEST(a_reference_has_one_way_to_be_written) {
    static const char *const wrong[] = {
        "layout ",
        "layout 1",
        "layout 1 tensors 2 values sha256 ",
        "layout 1 tensors 2 values sha256 " DIGEST "0",
        "layout 1 tensors 2 values sha256 " DIGEST " ",
        "layout 1  tensors 2 values sha256 " DIGEST,
        "layout 01 tensors 2 values sha256 " DIGEST,
        "layout +1 tensors 2 values sha256 " DIGEST,
        "layout 0 tensors 2 values sha256 " DIGEST,
        "layout 65537 tensors 70000 values sha256 " DIGEST,
        "layout 4294967297 tensors 2 values sha256 " DIGEST,
        "layout 1 tensors 0 values sha256 " DIGEST,
        "layout 1 tensors 2147483649 values sha256 " DIGEST,
        "layout 1 tensors 18446744073709551617 values sha256 " DIGEST,
        "layout 1 tensors 2 values sha256 "
        "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"};
    fed_layout_reference reference = {.tensors = 77};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        fed_error err = {0};
        if (fed_layout_reference_read(wrong[k], &reference, &err) != FED_EFORMAT) {
            fail_msg("\"%s\" is taken as a reference", wrong[k]);
        }
        assert_fed_says(err, "names no layout");
        assert_int_equal(reference.tensors, 77);
    }
    fed_error err = {0};
    assert_fed_ok_err(fed_layout_reference_read(
        "layout 65536 tensors 2147483648 values sha256 " DIGEST, &reference, &err));
    assert_int_equal(reference.tensors, 65536);
}
