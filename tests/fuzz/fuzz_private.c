/* Fuzz what private rounds send: terms and sealed seeds. What is read is written as it was. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fed/private_terms.h"

static void check_terms(const uint8_t *data, size_t size) {
    fed_private_terms terms;
    uint8_t again[1024], digest[FED_SHA256_SIZE];
    fed_reader r;
    fed_writer w;
    fed_reader_init(&r, data, size);
    if (fed_private_terms_read(&r, &terms) == FED_OK) {
        fed_writer_fixed(&w, again, sizeof again);
        fed_private_terms_write(&w, &terms);
        require(w.status == FED_OK);
        require(w.len <= size);
        fed_private_terms_digest(&terms, digest);
    }
}

static void check_seal(const uint8_t *data, size_t size) {
    fed_private m;
    uint8_t again[1024], secret[FED_POINT_SECRET] = {1}, seed[FED_SEED];
    fed_error err;
    fed_reader r;
    fed_writer w;
    fed_reader_init(&r, data, size);
    if (fed_private_read(&r, &m) != FED_OK) {
        return;
    }
    fed_writer_fixed(&w, again, sizeof again);
    fed_private_write(&w, &m);
    require(w.status == FED_OK && w.len == fed_private_bytes(m.helpers));
    require(memcmp(again, data, w.len) == 0);
    require(fed_private_check(&m, 1, &err) != FED_OK);
    require(fed_private_open(&m, 0, 1, secret, seed, &err) != FED_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    check_terms(data, len);
    check_seal(data, len);
    return 0;
}
