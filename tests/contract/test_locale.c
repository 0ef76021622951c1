/* The libraries read numbers as in the locale "C", also if the program has set a locale with a
 * decimal comma. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <locale.h>

#include "fed/arch.h"
#include "fed/bytes.h"
#include "fed/optimizer_spec.h"
#include "fed/params.h"
#include "fedcodec/codec.h"
#include "fedtrain/dataset.h"
#include "fedtrain/split.h"

static fed_status read_number(const char *text, fed_writer *w, fed_error *err) {
    double value = 0;
    if (!fed_text_number(text, &value)) {
        return fed_fail(err, FED_EINVAL, "%s is no number", text);
    }
    fed_write_f64(w, value);
    return FED_OK;
}

static fed_status read_table(const char *text, fed_writer *w, fed_error *err) {
    char folder[256];
    fedtrain_dataset set = {0};
    fed_test_tmpdir(folder, sizeof folder);
    fed_test_put(folder, "train.csv", text, strlen(text));
    const fed_status status = fedtrain_dataset_open("csv:target=last", folder, "train", &set, err);
    fed_test_rmdir(folder);
    if (status == FED_OK) {
        const uint32_t first = 0;
        float x[2];
        uint32_t label;
        assert_int_equal(set.shape.c, 2);
        fedtrain_dataset_gather(&set, &first, 1, x, &label);
        fed_write_bytes(w, x, sizeof x);
        fed_write_f32(w, set.target[0]);
    }
    fedtrain_dataset_free(&set);
    return status;
}

static fed_status read_split(const char *text, fed_writer *w, fed_error *err) {
    fedtrain_split split;
    FED_TRY(fedtrain_split_parse(text, &split, err));
    fed_write_f64(w, split.alpha);
    return FED_OK;
}

static fed_status read_codec(const char *text, fed_writer *w, fed_error *err) {
    fedcodec codec;
    FED_TRY(fedcodec_parse(text, &codec, err));
    fed_write_f64(w, codec.param[0]);
    return FED_OK;
}

static fed_status read_optimizer(const char *text, fed_writer *w, fed_error *err) {
    fed_optimizer optimizer;
    FED_TRY(fed_optimizer_parse(text, 0.1F, &optimizer, err));
    fed_write_f64(w, optimizer.learning_rate);
    return FED_OK;
}

static fed_status read_model(const char *text, fed_writer *w, fed_error *err) {
    fed_arch arch;
    FED_TRY(fed_arch_parse(text, &arch, err));
    fed_write_f32(w, arch.layers[1].p);
    fed_arch_free(&arch);
    return FED_OK;
}

static const struct reader {
    const char *text;
    fed_status (*read)(const char *text, fed_writer *w, fed_error *err);
} readers[] = {
    {"0.30000000000000004", read_number},
    {"-1.5e-300", read_number},
    {"12", read_number},
    {"0.5,-1.25,2.5\n", read_table},
    {"dirichlet:alpha=0.5", read_split},
    {"sbc:p=0.0125", read_codec},
    {"momentum:lr=0.25", read_optimizer},
    {"input 4 | dropout 0.25 | dense 3", read_model},
};

/* Make and set a locale with a decimal comma. Returns false where that is not possible. */
static bool comma_locale(const char *folder) {
    char command[400];
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", folder);
    return system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
           setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

FED_TEST(numbers_are_read_alike_in_each_locale) {
    enum { READERS = sizeof readers / sizeof readers[0], BYTES = 64 };
    char folder[256], plain[READERS][BYTES] = {{0}}, comma[READERS][BYTES] = {{0}};
    fed_error err = {0};
    fed_writer w;
    for (size_t k = 0; k < READERS; k++) {
        fed_writer_fixed(&w, plain[k], BYTES);
        assert_fed_ok_err(readers[k].read(readers[k].text, &w, &err));
    }
    fed_test_tmpdir(folder, sizeof folder);
    const bool made = comma_locale(folder);
    fed_test_rmdir(folder);
    if (!made) {
        printf("skipped: no locale can be made here: install the packages libc-bin and locales\n");
        skip();
    }
    assert_string_equal(localeconv()->decimal_point, ",");
    for (size_t k = 0; k < READERS; k++) {
        fed_writer_fixed(&w, comma[k], BYTES);
        if (readers[k].read(readers[k].text, &w, &err) != FED_OK ||
            memcmp(plain[k], comma[k], BYTES) != 0) {
            fail_msg("%s is read in another way: %s", readers[k].text, err.text);
        }
    }
    double value;
    assert_false(fed_text_number("0,5", &value));
    setlocale(LC_ALL, "C");
}
