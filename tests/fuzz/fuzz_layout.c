/* Fuzz layouts: no bytes but those that a task names are taken, and what is taken is a valid model.
 * An input: the model of a task, a line feed, and the bytes that a coordinator sends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <inttypes.h>
#include <stdio.h>

#include "fed/layout_reference.h"

static void check_model(const fed_layout_reference *reference, const fed_arch *arch,
                        const uint8_t *bytes, size_t len) {
    require(arch->layout.count == reference->tensors && arch->layout.count <= FED_ARCH_TENSORS);
    require(arch->layout.size == reference->values && arch->layout.size <= UINT64_C(1) << 31);
    require(strlen(arch->text) == len && memcmp(arch->text, bytes, len) == 0);
    require(arch->trained > 0 && arch->trained <= arch->layout.size);
    for (size_t i = 0; i < arch->layout.count; i++) {
        const fed_tensor *t = &arch->layout.tensors[i];
        require(t->size > 0 && strlen(t->name) < FED_TENSOR_NAME);
        require(fed_layout_find(&arch->layout, t->name) == t); /* each name once */
    }
}

static void resolve(const char *model, const uint8_t *bytes, size_t len) {
    fed_arch arch;
    fed_layout_reference reference;
    fed_error err = {FED_OK, ""}, why = {FED_OK, ""};
    const fed_status status = fed_layout_resolve(model, bytes, len, &arch, &err);
    require(status == err.status);
    if (status != FED_OK) {
        require(err.text[0] != '\0');
        return;
    }
    if (fed_layout_is_reference(model)) {
        uint8_t digest[FED_SHA256_SIZE];
        require(fed_layout_reference_read(model, &reference, &why) == FED_OK);
        fed_sha256(bytes, len, digest);
        require(memcmp(digest, reference.sha256, sizeof digest) == 0);
        check_model(&reference, &arch, bytes, len);
    }
    fed_arch_free(&arch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    const uint8_t *end = len > 0 ? memchr(data, '\n', len) : NULL;
    const size_t line = end != NULL ? (size_t)(end - data) : len;
    if (line >= FED_ARCH_TEXT) {
        return 0;
    }
    const size_t rest = end != NULL ? len - line - 1 : 0;
    char *model = fuzz_allocate(FED_ARCH_TEXT);
    uint8_t *bytes = fuzz_copy(end != NULL ? end + 1 : data, rest);
    memcpy(model, data, line);
    model[line] = '\0';
    resolve(model, bytes, rest);
    /* the same with the right digest, which no mutation finds */
    uint32_t tensors = 0;
    uint64_t values = 0;
    if (sscanf(model, "layout %" SCNu32 " tensors %" SCNu64, &tensors, &values) == 2) {
        uint8_t digest[FED_SHA256_SIZE];
        char hex[FED_SHA256_HEX];
        fed_sha256(bytes, rest, digest);
        fed_hex(digest, sizeof digest, hex);
        snprintf(model, FED_ARCH_TEXT, "layout %" PRIu32 " tensors %" PRIu64 " values sha256 %s",
                 tensors, values, hex);
        resolve(model, bytes, rest);
    }
    free(bytes);
    free(model);
    return 0;
}
