/* Reads the binary files of CIFAR-10 and CIFAR-100: records of labels and planes of pixels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/data/input.h"
#include "fedtrain/dataset.h"

enum { PIXELS = 3 * 32 * 32 };

static fed_status check_labels(const fedtrain_input *file, size_t label_bytes, unsigned classes,
                               fed_error *err) {
    size_t record = label_bytes + PIXELS;
    for (size_t at = label_bytes - 1; at < file->bytes.len; at += record) {
        if (file->bytes.data[at] >= classes) {
            return fed_fail(err, FED_EFORMAT,
                            "%s: byte offset %zu: label %u in record %zu, but there are %u "
                            "classes, from 0: is this another file, or a damaged one?",
                            file->path, at, file->bytes.data[at], at / record, classes);
        }
    }
    return FED_OK;
}

fed_status fedtrain_cifar_parse(fedtrain_input *file, size_t label_bytes, unsigned classes,
                                fedtrain_dataset *set, fed_error *err) {
    size_t record = label_bytes + PIXELS, len = file->bytes.len, count = len / record;
    if (len == 0 || len % record != 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the file ends at byte offset %zu, inside record %zu (each has %zu "
                        "bytes): fetch it again",
                        file->path, len, count, record);
    }
    FED_TRY(check_labels(file, label_bytes, classes, err));
    if (set->block_count == FEDTRAIN_BLOCKS) {
        return fed_fail(err, FED_ERANGE, "%s: a data set has %d files at most", file->path,
                        FEDTRAIN_BLOCKS);
    }
    set->shape = (fed_shape){3, 32, 32};
    if (fedtrain_dataset_add_labels(set, file->bytes.data + label_bytes - 1, count, record) !=
        FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the %zu labels of %s", count,
                        file->path);
    }
    fedtrain_dataset_add_block(set, &file->bytes, label_bytes, count, record);
    return FED_OK;
}
