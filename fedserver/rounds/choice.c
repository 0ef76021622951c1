/* Orders the offers of several tasks to one device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/choice.h"

#include "fed/hash.h"

static uint64_t hash(const fedserver_offer *offer, int64_t device) {
    uint64_t words[2] = {offer->task, (uint64_t)device};
    uint8_t bytes[sizeof words];
    /* little-endian, so that the hash is the same on every machine */
    for (size_t k = 0; k < sizeof bytes; k++) {
        bytes[k] = (uint8_t)(words[k / 8] >> (8 * (k % 8)));
    }
    return fed_digest_bytes(bytes, sizeof bytes);
}

bool fedserver_offer_before(const fedserver_offer *a, const fedserver_offer *b, int64_t device) {
    if (a->place != b->place) {
        return a->place > b->place;
    }
    if (a->place == FEDSERVER_PLACE_EARLY && a->admits_ms != b->admits_ms) {
        return a->admits_ms < b->admits_ms;
    }
    if (a->priority != b->priority) {
        return a->priority > b->priority;
    }
    if (a->served != b->served) {
        return a->served < b->served;
    }
    const uint64_t of_a = hash(a, device), of_b = hash(b, device);
    return of_a != of_b ? of_a < of_b : a->task < b->task;
}
