/* The names of data sets, and the files that each consists of. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fed/bytes.h"
#include "fedclient/train/data/input.h"
#include "fedtrain/dataset.h"
#include "fedtrain/text.h"

static const size_t LIMIT_BYTES = (size_t)1 << 31;

typedef struct request {
    const char *name, *directory;
    const char *key, *option; /* an option of the format, and the text after it; NULL: none */
    bool test;
} request;

enum { KEYS = 2 };

typedef struct format {
    const char *name;
    const char *keys[KEYS]; /* the format's options, each with its '='; unused entries are NULL */
    fed_status (*open)(const request *want, fedtrain_dataset *set, fed_error *err);
} format;

static fed_status open_pair(const char *directory, const char *images, const char *labels,
                            fedtrain_dataset *set, fed_error *err) {
    fedtrain_input image = {.path = ""}, label = {.path = ""};
    fed_status status = fedtrain_input_open(directory, images, LIMIT_BYTES, &image, err);
    if (status == FED_OK) {
        status = fedtrain_input_open(directory, labels, LIMIT_BYTES, &label, err);
    }
    if (status == FED_OK) {
        status = fedtrain_idx_parse(&image, &label, set, err);
    }
    fedtrain_bytes_release(&image.bytes);
    fedtrain_bytes_release(&label.bytes);
    return status;
}

static fed_status open_mnist(const request *want, fedtrain_dataset *set, fed_error *err) {
    return want->test ? open_pair(want->directory, "t10k-images-idx3-ubyte",
                                  "t10k-labels-idx1-ubyte", set, err)
                      : open_pair(want->directory, "train-images-idx3-ubyte",
                                  "train-labels-idx1-ubyte", set, err);
}

static fed_status add_cifar(const char *directory, const char *name, size_t label_bytes,
                            unsigned classes, fedtrain_dataset *set, fed_error *err) {
    fedtrain_input file = {.path = ""};
    FED_TRY(fedtrain_input_open(directory, name, LIMIT_BYTES, &file, err));
    fed_status status = fedtrain_cifar_parse(&file, label_bytes, classes, set, err);
    fedtrain_bytes_release(&file.bytes);
    return status;
}

static fed_status open_cifar10(const request *want, fedtrain_dataset *set, fed_error *err) {
    static const char *const train[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin"};
    if (want->test) {
        return add_cifar(want->directory, "test_batch.bin", 1, 10, set, err);
    }
    for (size_t i = 0; i < sizeof train / sizeof train[0]; i++) {
        FED_TRY(add_cifar(want->directory, train[i], 1, 10, set, err));
    }
    return FED_OK;
}

/* Each record has two labels: one of 20 coarse classes, then one of 100 fine classes. */
static fed_status open_cifar100(const request *want, fedtrain_dataset *set, fed_error *err) {
    return add_cifar(want->directory, want->test ? "test.bin" : "train.bin", 2, 100, set, err);
}

static fed_status open_csv(const request *want, fedtrain_dataset *set, fed_error *err) {
    fedtrain_input file = {.path = ""};
    fedtrain_input classes = {.path = ""};
    FED_TRY(fedtrain_input_open_text(want->directory, want->test ? "test.csv" : "train.csv",
                                     LIMIT_BYTES, &file, err));
    if (want->key != NULL && strcmp(want->key, "target=") == 0) {
        fed_status read = fedtrain_csv_parse_targets(&file, want->option, set, err);
        fedtrain_bytes_release(&file.bytes);
        return read;
    }
    fed_error why = {0};
    fed_status status =
        fedtrain_input_open_text(want->directory, "classes.txt", LIMIT_BYTES, &classes, &why);
    const bool numbers = status == FED_ENOTFOUND;
    if (status == FED_OK || numbers) {
        status = fedtrain_csv_parse(&file, want->option != NULL ? want->option : "last",
                                    numbers ? NULL : &classes, set, err);
    } else {
        (void)fed_fail(err, status, "%s", why.text);
    }
    fedtrain_bytes_release(&classes.bytes);
    fedtrain_bytes_release(&file.bytes);
    return status;
}

static const format formats[] = {
    {"mnist", {NULL}, open_mnist},
    {"fashion-mnist", {NULL}, open_mnist},
    {"cifar10", {NULL}, open_cifar10},
    {"cifar100", {NULL}, open_cifar100},
    {"csv", {"label=", "target="}, open_csv},
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

const char *fedtrain_dataset_name(size_t k) {
    return k < FORMATS ? formats[k].name : NULL;
}

/* Find the format that want->name begins with, and its option: "csv:label=age" has the format csv
 * and the option "label=" with the text "age". NULL: there is no such format or option. */
static const format *find(request *want) {
    const char *name = want->name;
    size_t len = strcspn(name, ":");
    for (size_t i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        if (strlen(f->name) != len || strncmp(f->name, name, len) != 0) {
            continue;
        }
        if (name[len] == '\0') {
            return f;
        }
        for (size_t k = 0; k < KEYS && f->keys[k] != NULL; k++) {
            if (strncmp(name + len + 1, f->keys[k], strlen(f->keys[k])) == 0) {
                want->key = f->keys[k];
                want->option = name + len + 1 + strlen(f->keys[k]);
                return f;
            }
        }
        return NULL;
    }
    return NULL;
}

static fed_status fail_unknown(const char *name, fed_error *err) {
    char text[256];
    fed_writer known;
    fed_writer_fixed(&known, text, sizeof text);
    for (size_t i = 0; i < FORMATS; i++) {
        fed_write_printf(&known, "%s%s",
                         i == 0            ? ""
                         : i + 1 < FORMATS ? ", "
                                           : " or ",
                         formats[i].name);
        for (size_t k = 0; k < KEYS && formats[i].keys[k] != NULL; k++) {
            fed_write_printf(&known, "%s:%s...", k == 0 ? " (" : " or ", formats[i].keys[k]);
        }
        fed_write_printf(&known, "%s", formats[i].keys[0] != NULL ? ")" : "");
    }
    return fed_fail(err, FED_EINVAL, "unknown data set \"%.100s\": write %s", name, text);
}

fed_status fedtrain_dataset_open(const char *name, const char *directory, const char *part,
                                 fedtrain_dataset *set, fed_error *err) {
    request want = {.name = name, .directory = directory, .test = strcmp(part, "test") == 0};
    if (!want.test && strcmp(part, "train") != 0) {
        return fed_fail(err, FED_EINVAL, "data set %s has no part \"%s\": write train or test",
                        name, part);
    }
    const format *f = find(&want);
    if (f == NULL) {
        return fail_unknown(name, err);
    }
    fedtrain_dataset opened = {0};
    fed_status status = f->open(&want, &opened, err);
    if (status != FED_OK) {
        fedtrain_dataset_free(&opened);
        return status;
    }
    *set = opened;
    return FED_OK;
}

fed_status fedtrain_dataset_load_idx(const char *images, const char *labels, fedtrain_dataset *set,
                                     fed_error *err) {
    fedtrain_dataset opened = {0};
    fed_status status = open_pair("", images, labels, &opened, err);
    if (status != FED_OK) {
        fedtrain_dataset_free(&opened);
        return status;
    }
    *set = opened;
    return FED_OK;
}

fed_status fedtrain_dataset_load_mnist(const char *directory, const char *part,
                                       fedtrain_dataset *set, fed_error *err) {
    return fedtrain_dataset_open("mnist", directory, strcmp(part, "t10k") == 0 ? "test" : part, set,
                                 err);
}
