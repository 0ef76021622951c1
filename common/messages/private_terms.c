/* The terms of a private round, and what a device seals under them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/private_terms.h"

#include <string.h>

static const char title[] = "fed private 1", update_title[] = "fed private update 1";

enum {
    INFO = sizeof update_title - 1 + 2 * FED_SHA256_SIZE + 8,
    SIGNED = INFO + FED_HELPERS * (FED_POINT + FED_SEALED_SEED),
    TERMS_MOST = 512
};

void fed_private_terms_write(fed_writer *w, const fed_private_terms *terms) {
    fed_write_bytes(w, title, sizeof title - 1);
    fed_write_u64(w, terms->task);
    fed_write_u32(w, terms->round);
    fed_write_bytes(w, terms->model, sizeof terms->model);
    fed_write_bytes(w, terms->layout, sizeof terms->layout);
    fed_write_str(w, terms->codec_up);
    fed_write_u32(w, terms->width);
    fed_write_u64(w, terms->fields);
    fed_write_u64(w, terms->sent);
    fed_write_bytes(w, terms->draw, sizeof terms->draw);
    fed_privacy_write(w, &terms->privacy);
}

void fed_private_terms_layout(const char *model, const char *private_layers,
                              uint8_t digest[FED_SHA256_SIZE]) {
    fed_sha256_sum sum;
    fed_sha256_begin(&sum);
    fed_sha256_add(&sum, model, strlen(model));
    if (private_layers[0] != '\0') {
        fed_sha256_add(&sum, "\n", 1);
        fed_sha256_add(&sum, private_layers, strlen(private_layers));
    }
    fed_sha256_end(&sum, digest);
}

static void read_bytes(fed_reader *r, void *dst, size_t len) {
    const uint8_t *src = fed_read_bytes(r, len);
    if (src != NULL) {
        memcpy(dst, src, len);
    }
}

fed_status fed_private_terms_read(fed_reader *r, fed_private_terms *terms) {
    fed_private_terms t;
    memset(&t, 0, sizeof t);
    const uint8_t *begin = fed_read_bytes(r, sizeof title - 1);
    FED_REQUIRE(begin != NULL && memcmp(begin, title, sizeof title - 1) == 0, FED_EFORMAT);
    t.task = fed_read_u64(r);
    t.round = fed_read_u32(r);
    read_bytes(r, t.model, sizeof t.model);
    read_bytes(r, t.layout, sizeof t.layout);
    fed_read_str(r, t.codec_up, sizeof t.codec_up);
    t.width = fed_read_u32(r);
    t.fields = fed_read_u64(r);
    t.sent = fed_read_u64(r);
    read_bytes(r, t.draw, sizeof t.draw);
    FED_TRY(fed_privacy_read(r, &t.privacy));
    FED_REQUIRE(t.task != 0 && t.width >= 1 && t.width <= 32 && t.fields >= 64 &&
                    t.fields % 64 == 0 && t.fields <= UINT32_MAX && t.sent >= 1 &&
                    t.sent <= t.fields && t.privacy.clip > 0,
                FED_EFORMAT);
    *terms = t;
    return FED_OK;
}

void fed_private_terms_digest(const fed_private_terms *terms, uint8_t digest[FED_SHA256_SIZE]) {
    uint8_t text[TERMS_MOST];
    fed_writer w;
    fed_writer_fixed(&w, text, sizeof text);
    fed_private_terms_write(&w, terms);
    fed_sha256(text, w.len, digest);
}

size_t fed_private_bytes(unsigned helpers) {
    return 1 + FED_SHA256_SIZE + FED_POINT + helpers * sizeof(fed_sealed_seed) + FED_SIGNATURE;
}

void fed_private_write(fed_writer *w, const fed_private *m) {
    fed_write_u8(w, m->helpers);
    fed_write_bytes(w, m->terms, sizeof m->terms);
    fed_write_bytes(w, m->point, sizeof m->point);
    for (unsigned k = 0; k < m->helpers && k < FED_HELPERS; k++) {
        fed_write_bytes(w, m->seeds[k].enc, sizeof m->seeds[k].enc);
        fed_write_bytes(w, m->seeds[k].sealed, sizeof m->seeds[k].sealed);
    }
    fed_write_bytes(w, m->signature, sizeof m->signature);
}

fed_status fed_private_read(fed_reader *r, fed_private *m) {
    fed_private t;
    memset(&t, 0, sizeof t);
    t.helpers = fed_read_u8(r);
    if (r->status == FED_OK && (t.helpers < 1 || t.helpers > FED_HELPERS)) {
        r->status = FED_EFORMAT;
    }
    FED_TRY(r->status);
    read_bytes(r, t.terms, sizeof t.terms);
    read_bytes(r, t.point, sizeof t.point);
    for (unsigned k = 0; k < t.helpers; k++) {
        read_bytes(r, t.seeds[k].enc, sizeof t.seeds[k].enc);
        read_bytes(r, t.seeds[k].sealed, sizeof t.seeds[k].sealed);
    }
    read_bytes(r, t.signature, sizeof t.signature);
    FED_TRY(r->status);
    *m = t;
    return FED_OK;
}

/* What a seed is sealed for: no other round, device or lease. */
static void write_info(fed_writer *w, const uint8_t terms[FED_SHA256_SIZE],
                       const uint8_t point[FED_POINT], uint64_t lease) {
    uint8_t fingerprint[FED_SHA256_SIZE];
    fed_point_fingerprint(point, fingerprint);
    fed_write_bytes(w, update_title, sizeof update_title - 1);
    fed_write_bytes(w, terms, FED_SHA256_SIZE);
    fed_write_bytes(w, fingerprint, sizeof fingerprint);
    fed_write_u64(w, lease);
}

/* info | enc | sealed of each helper: what the device signs. The first INFO bytes are info. */
static size_t write_signed(const fed_private *m, uint64_t lease, uint8_t text[SIGNED]) {
    fed_writer w;
    fed_writer_fixed(&w, text, SIGNED);
    write_info(&w, m->terms, m->point, lease);
    for (unsigned k = 0; k < m->helpers; k++) {
        fed_write_bytes(&w, m->seeds[k].enc, sizeof m->seeds[k].enc);
        fed_write_bytes(&w, m->seeds[k].sealed, sizeof m->seeds[k].sealed);
    }
    return w.len;
}

fed_status fed_private_seal(const fed_private_terms *terms, uint64_t lease, const fed_pem *key,
                            fed_private *m, uint8_t seeds[FED_HELPERS][FED_SEED], fed_error *err) {
    uint8_t text[SIGNED];
    memset(m, 0, sizeof *m);
    FED_TRY(fed_key_point(key, m->point, err));
    m->helpers = terms->privacy.helpers;
    fed_private_terms_digest(terms, m->terms);
    (void)write_signed(m, lease, text);
    const fed_hpke_about about = {text, INFO, NULL, 0};
    for (unsigned k = 0; k < m->helpers; k++) {
        if (fed_random(seeds[k], FED_SEED) != FED_OK) {
            return fed_fail(err, FED_EIO, "the system has no random bytes for a mask");
        }
        FED_TRY(fed_hpke_seal(terms->privacy.helper_key[k], &about, seeds[k], FED_SEED,
                              m->seeds[k].enc, m->seeds[k].sealed, err));
    }
    return fed_private_sign(m, lease, key, err);
}

fed_status fed_private_sign(fed_private *m, uint64_t lease, const fed_pem *key, fed_error *err) {
    uint8_t text[SIGNED];
    FED_TRY(fed_key_point(key, m->point, err));
    const size_t len = write_signed(m, lease, text);
    return fed_key_sign(key, text, len, m->signature, err);
}

fed_status fed_private_check(const fed_private *m, uint64_t lease, fed_error *err) {
    uint8_t text[SIGNED];
    const size_t len = write_signed(m, lease, text);
    return fed_point_verify(m->point, text, len, m->signature, err);
}

fed_status fed_private_open(const fed_private *m, unsigned k, uint64_t lease,
                            const uint8_t secret[FED_POINT_SECRET], uint8_t seed[FED_SEED],
                            fed_error *err) {
    uint8_t text[SIGNED];
    (void)write_signed(m, lease, text);
    const fed_hpke_about about = {text, INFO, NULL, 0};
    FED_REQUIRE(k < m->helpers, FED_EINVAL);
    return fed_hpke_open(secret, m->seeds[k].enc, &about, m->seeds[k].sealed, FED_SEALED_SEED, seed,
                         err);
}
