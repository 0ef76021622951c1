/* Sealed bytes, which any cache may keep: they are encrypted with a key that is their own
 * digest. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_SEALED_H
#define FED_SEALED_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/hash.h"

FED_API_BEGIN

/*
 * The scheme is HCE2 of Bellare, Keelveedhi and Ristenpart, "Message-locked encryption and secure
 * deduplication", EUROCRYPT 2013:
 *
 *   key    = SHA-256(bytes)
 *   sealed = AES-256-CTR(key, bytes): as long as the bytes, the counter begins at 0
 *   name   = SHA-256(key)
 *
 * Anyone who seals the same bytes gets the same key, name and sealed bytes, without a secret. A
 * device that gets the key by a trusted way can fetch the sealed bytes by any way: it opens them
 * and compares their digest with the key. Someone who has only name and sealed bytes learns
 * nothing but their length, and can only confirm a guess of all the bytes.
 */
enum { FED_SEALED_KEY = FED_SHA256_SIZE, FED_SEALED_NAME = FED_SHA256_HEX };

/** Write the name of sealed bytes, in lower-case hex. */
void fed_sealed_name(const uint8_t key[FED_SEALED_KEY], char name[FED_SEALED_NAME]);

/** Seal data[len] in place, or open it: both are the same operation. If the bytes come in pieces,
 * at is the position of this piece in the whole, a multiple of 16. Errors: FED_ENOMEM. */
fed_status fed_sealed_crypt(const uint8_t key[FED_SEALED_KEY], uint64_t at, uint8_t *data,
                            size_t len) FED_CHECKED;

/** Open all of the sealed bytes in place. FED_EFORMAT: they were not sealed with this key, and data
 * is useless now. FED_ENOMEM: out of memory. */
fed_status fed_sealed_open(const uint8_t key[FED_SEALED_KEY], uint8_t *data,
                           size_t len) FED_CHECKED;

FED_API_END

#endif
