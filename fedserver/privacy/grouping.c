/* Sorts devices by a hash of the round, and deals them out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/grouping.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"

typedef struct place {
    uint8_t hash[FED_SHA256_SIZE];
    size_t at;
} place;

static int by_place(const void *a, const void *b) {
    const place *x = a, *y = b;
    const int order = memcmp(x->hash, y->hash, sizeof x->hash);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

static void find_place(const fedserver_grouping *which, const uint8_t device[FED_SHA256_SIZE],
                       uint8_t hash[FED_SHA256_SIZE]) {
    static const char name[] = "fed private groups 1";
    uint8_t bytes[128];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_bytes(&w, (const uint8_t *)name, sizeof name - 1);
    fed_write_u64(&w, which->task);
    fed_write_u32(&w, which->round);
    fed_write_bytes(&w, which->model, sizeof which->model);
    fed_write_bytes(&w, device, FED_SHA256_SIZE);
    assert(w.status == FED_OK);
    fed_sha256(bytes, w.len, hash);
}

fed_status fedserver_grouping_deal(const fedserver_grouping *which,
                                   uint8_t (*devices)[FED_SHA256_SIZE], size_t count,
                                   uint32_t *group) {
    assert(which->groups >= 1 && which->groups <= FEDSERVER_GROUPS_MOST);
    place *places = calloc(count + 1, sizeof *places);
    FED_REQUIRE(places != NULL, FED_ENOMEM);
    for (size_t k = 0; k < count; k++) {
        find_place(which, devices[k], places[k].hash);
        places[k].at = k;
    }
    qsort(places, count, sizeof *places, by_place);
    for (size_t i = 0; i < count; i++) {
        group[places[i].at] = (uint32_t)(i % which->groups);
    }
    free(places);
    return FED_OK;
}

void fedserver_grouping_set(const uint8_t set[FED_SHA256_SIZE], uint32_t groups, uint32_t group,
                            uint8_t digest[FED_SHA256_SIZE]) {
    uint8_t bytes[FED_SHA256_SIZE + 4];
    fed_writer w;
    if (groups == 1) {
        memcpy(digest, set, FED_SHA256_SIZE);
        return;
    }
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_write_bytes(&w, set, FED_SHA256_SIZE);
    fed_write_u32(&w, group);
    fed_sha256(bytes, w.len, digest);
}
