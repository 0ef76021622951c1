/* Finds a data file, packed or not, and maps or unpacks it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/data/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"

static const uint8_t GZIP_MAGIC[2] = {0x1f, 0x8b};

static fed_status map(const char *path, size_t limit, fedtrain_bytes *bytes, fed_error *err) {
    fedtrain_bytes mapped = {.owner = FEDTRAIN_MAPPED};
    FED_TRY(fed_file_map(path, limit, &mapped.data, &mapped.len, err));
    *bytes = mapped;
    return FED_OK;
}

/* Map the file; if there is none, the file with .gz after its name. input->path becomes the found
 * file's. */
static fed_status find(fedtrain_input *input, size_t limit, fed_error *err) {
    fed_error why = {0};
    fed_status status = map(input->path, limit, &input->bytes, &why);
    if (status == FED_ENOTFOUND) {
        size_t len = strlen(input->path);
        memcpy(input->path + len, ".gz", sizeof ".gz");
        status = map(input->path, limit, &input->bytes, &why);
        if (status == FED_ENOTFOUND) {
            return fed_fail(err, status, "there is no file %.*s, nor one packed as .gz", (int)len,
                            input->path);
        }
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
}

fed_status fedtrain_input_open(const char *directory, const char *name, size_t limit,
                               fedtrain_input *input, fed_error *err) {
    size_t cap = sizeof input->path - sizeof ".gz";
    int n = snprintf(input->path, cap, "%s%s%s", directory, *directory != '\0' ? "/" : "", name);
    if (n < 0 || (size_t)n >= cap) {
        return fed_fail(err, FED_EINVAL,
                        "the path of %.80s in %.80s is longer than %zu characters: move the data",
                        name, directory, cap - 1);
    }
    FED_TRY(find(input, limit, err));
    fedtrain_bytes packed = input->bytes;
    if (packed.len < sizeof GZIP_MAGIC || memcmp(packed.data, GZIP_MAGIC, sizeof GZIP_MAGIC) != 0) {
        return FED_OK;
    }
    input->bytes = (fedtrain_bytes){0};
    fed_status status =
        fedtrain_gunzip(input->path, packed.data, packed.len, limit, &input->bytes, err);
    fedtrain_bytes_release(&packed);
    return status;
}

/* Put a cleaned copy in the place of the bytes, which may be mapped. */
static fed_status clean(fedtrain_input *input, fed_error *err) {
    size_t len = input->bytes.len;
    char *copy = malloc(len);
    if (copy == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a copy of %s", input->path);
    }
    memcpy(copy, input->bytes.data, len);
    const fed_status status = fed_text_clean(input->path, copy, &len, err);
    if (status != FED_OK) {
        free(copy);
        return status;
    }
    fedtrain_bytes_release(&input->bytes);
    input->bytes = (fedtrain_bytes){FEDTRAIN_HEAP, (const uint8_t *)copy, len};
    return FED_OK;
}

fed_status fedtrain_input_open_text(const char *directory, const char *name, size_t limit,
                                    fedtrain_input *input, fed_error *err) {
    FED_TRY(fedtrain_input_open(directory, name, limit, input, err));
    fed_status status = FED_OK;
    if (input->bytes.data != NULL && input->bytes.len > 0 &&
        !fed_text_is_clean((const char *)input->bytes.data, input->bytes.len)) {
        status = clean(input, err);
    }
    if (status != FED_OK) {
        fedtrain_bytes_release(&input->bytes);
    }
    return status;
}
