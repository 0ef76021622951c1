/* The terms of a private round, the sealed seeds of its updates, and the masks that these make. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PRIVATE_TERMS_H
#define FED_PRIVATE_TERMS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"
#include "fed/hpke.h"
#include "fed/point.h"
#include "fed/privacy.h"

FED_API_BEGIN

/*
 * Private sums with a helper. A device adds a mask to its update's fields. The mask follows from a
 * seed, which the device seals to the helper's key. The coordinator adds the masked fields up, and
 * the helper adds the masks of the same devices up: the difference is the sum of the updates, and
 * nobody sees one update.
 *
 * Device, coordinator and helper each write down what they know of the round, the *terms*, and
 * compare digests. So no device can be told other terms than the rest.
 */

enum { FED_SEED = 32, FED_SEALED_SEED = FED_SEED + FED_HPKE_TAG };

/** What a round is about. A device makes it from what it was told, never from a text it got. */
typedef struct fed_private_terms {
    uint64_t task;
    uint32_t round;
    uint8_t model[FED_SHA256_SIZE];  /* SHA-256 of the values that are trained on: float32[n],
                                      * little-endian */
    uint8_t layout[FED_SHA256_SIZE]; /* fed_private_terms_layout */
    char codec_up[64];
    uint32_t width;  /* w: bits of a field, 1 to 32 */
    uint64_t fields; /* k', the fields of values: a multiple of 64, at least 64 */
    uint64_t sent;   /* k: values that are sent, 1 to fields */
    uint8_t draw[FED_SHA256_SIZE];
    fed_privacy privacy;
} fed_private_terms;

/** The fields of an update: those of values, and the count if there is one. */
static inline uint64_t fed_private_fields(const fed_private_terms *terms) {
    return terms->fields + terms->privacy.counted;
}

/** Write the terms as the bytes of which fed_private_terms_digest is the SHA-256. */
void fed_private_terms_write(fed_writer *w, const fed_private_terms *terms);

/** SHA-256 of what says which values are summed: the model's text as in fed_task and, if the task
 * has private layers, a line end and their list. */
void fed_private_terms_layout(const char *model, const char *private_layers,
                              uint8_t digest[FED_SHA256_SIZE]);
/** FED_EFORMAT: the bytes are damaged, or a number is out of its range; *terms is unchanged. */
fed_status fed_private_terms_read(fed_reader *r, fed_private_terms *terms) FED_CHECKED;
void fed_private_terms_digest(const fed_private_terms *terms, uint8_t digest[FED_SHA256_SIZE]);

/** A seed that is sealed to one helper's key. */
typedef struct fed_sealed_seed {
    uint8_t enc[FED_POINT];
    uint8_t sealed[FED_SEALED_SEED];
} fed_sealed_seed;

/** What stands between a private update's head and its fields, if the task has helpers. */
typedef struct fed_private {
    uint8_t helpers; /* 1 to FED_HELPERS */
    uint8_t terms[FED_SHA256_SIZE];
    uint8_t point[FED_POINT];           /* the device's public key */
    fed_sealed_seed seeds[FED_HELPERS]; /* of the first `helpers` */
    uint8_t signature[FED_SIGNATURE];   /* by the device's key, over all of it and the lease */
} fed_private;

void fed_private_write(fed_writer *w, const fed_private *m);
fed_status fed_private_read(fed_reader *r, fed_private *m) FED_CHECKED;
/** The size in bytes of a fed_private for so many helpers. */
size_t fed_private_bytes(unsigned helpers);

/**
 * On the device: draw a seed for each helper, seal it, and sign. terms is the terms' digest, key
 * the device's private key in PEM. The seeds mask one message and are derived from nothing. Errors:
 * FED_EFORMAT a key is no key; FED_EIO no random bytes; FED_ENOMEM.
 */
fed_status fed_private_seal(const fed_private_terms *terms, uint64_t lease, const fed_pem *key,
                            fed_private *m, uint8_t seeds[FED_HELPERS][FED_SEED],
                            fed_error *err) FED_CHECKED;

/** Sign what m has, for a lease, and set m->point. fed_private_seal does so. Errors: FED_EFORMAT,
 * FED_EIO, FED_ENOMEM. */
fed_status fed_private_sign(fed_private *m, uint64_t lease, const fed_pem *key,
                            fed_error *err) FED_CHECKED;

/** Check the signature by m->point, which is the caller's to compare with the device's key.
 * FED_EAUTH: that key did not seal this for this lease and these terms. */
fed_status fed_private_check(const fed_private *m, uint64_t lease, fed_error *err) FED_CHECKED;

/** At helper k: open the seed that was sealed to its key. FED_EAUTH, FED_EFORMAT: it can't be
 * opened. */
fed_status fed_private_open(const fed_private *m, unsigned k, uint64_t lease,
                            const uint8_t secret[FED_POINT_SECRET], uint8_t seed[FED_SEED],
                            fed_error *err) FED_CHECKED;

/* Fields that are masked at a time: any number of them begins a block of the stream. */
enum { FED_MASK_FIELDS = 128 };

/**
 * Add fields of a mask: y[i] += field number first + i, modulo 2^32. A field is `width` bits (1 to
 * 32) of the stream AES-256-CTR(HKDF(seed, "mask")), least significant first, as updates pack them.
 * The caller takes sums modulo 2^width. first is a multiple of FED_MASK_FIELDS. FED_ENOMEM.
 */
fed_status fed_private_mask(const uint8_t seed[FED_SEED], unsigned width, uint64_t first,
                            uint32_t *y, size_t n) FED_CHECKED;

/** Add the mask to fields[n] as an update packs them, modulo 2^width, in place. FED_ENOMEM. */
fed_status fed_private_mask_packed(const uint8_t seed[FED_SEED], unsigned width, uint8_t *fields,
                                   size_t n) FED_CHECKED;

/** Read n packed fields from number first on: bits first * width to (first + n) * width of src,
 * least significant first. first is a multiple of 8. */
void fed_private_unpack(const uint8_t *src, unsigned width, uint64_t first, uint32_t *y, size_t n);
/** Write n fields, of which the lowest width bits count. Unused bits of the last byte are 0. */
void fed_private_pack(const uint32_t *y, unsigned width, uint64_t first, uint8_t *dst, size_t n);
/** Bytes of n packed fields. */
uint64_t fed_private_packed(unsigned width, uint64_t n);

FED_API_END

#endif
