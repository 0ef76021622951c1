/* General lossless compressors to compare with, those of them that this build has. */
#ifndef PEERS_H
#define PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct peer {
    const char *name; /* "zstd -1" */

    /** Most bytes that pack makes of len. */
    size_t (*bound)(size_t len);

    /** How many bytes were made of src[len]; 0 on failure. */
    size_t (*pack)(const uint8_t *src, size_t len, uint8_t *dst, size_t cap);

    /** Back again: dst[len]. */
    bool (*unpack)(const uint8_t *src, size_t packed, uint8_t *dst, size_t len);
} peer;

/** The k-th, or NULL past the last. */
const peer *peer_at(size_t k);

/** Debian's packages of those that were missing when this was built; "" for none. */
extern const char *const peers_missing;

#endif
