/* The simulator's splits of data among clients, for Python. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedclient/python/fedpy.h"
#include "fedtrain/split.h"

static fed_status split(const char *spec, const uint8_t *label, const uint32_t *group, size_t n,
                        uint32_t kinds, uint32_t clients, uint64_t seed,
                        fedtrain_partition *partition, fed_error *err) {
    fedtrain_split how;
    FED_TRY(fedtrain_split_parse(spec, &how, err));
    if (group != NULL) {
        const fedtrain_text text = {.units = n, .group = (uint32_t *)group, .groups = kinds};
        return fedtrain_text_split(&text, how, clients, seed, partition, err);
    }
    const fedtrain_dataset set = {.count = n, .label = (uint8_t *)label, .classes = kinds};
    return fedtrain_dataset_split(&set, how, clients, seed, partition, err);
}

int fedpy_partition(const char *spec, const uint8_t *label, const uint32_t *group, size_t n,
                    uint32_t kinds, uint32_t clients, uint64_t seed, uint32_t *index,
                    uint64_t *start, char *error) {
    fed_error err = {FED_OK, ""};
    fedtrain_partition made = {0};
    const fed_status status = split(spec, label, group, n, kinds, clients, seed, &made, &err);
    if (status != FED_OK) {
        return fedpy_give(status, &err, error);
    }
    memcpy(index, made.index, n * sizeof *index);
    for (size_t k = 0; k <= clients; k++) {
        start[k] = made.start[k];
    }
    fedtrain_partition_free(&made);
    return 0;
}
