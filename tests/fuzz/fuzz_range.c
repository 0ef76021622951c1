/* Fuzz the headers Range and If-Range: a granted range must be within the total. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fedserver/routes/byte_range.h"

/* An input: the total in 8 bytes, then two headers, each ended by a NUL or the input's end. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t total, first = 0, len = 0;
    if (size < sizeof total) {
        return 0;
    }
    memcpy(&total, data, sizeof total);
    size -= sizeof total;
    char *text = calloc(size + 2, 1);
    require(text != NULL);
    memcpy(text, data + sizeof total, size);
    const char *second = text + strlen(text) + 1;
    const char *if_range = second < text + size ? second : NULL;
    if (fedserver_range_read(text, if_range, total, 1, &first, &len) == FEDSERVER_RANGE_PART) {
        require(len > 0 && first < total && len <= total - first);
    }
    free(text);
    return 0;
}
