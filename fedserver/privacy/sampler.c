/* Discrete Gaussians from the bytes of a key: integers only. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/privacy/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "fed/sealed.h"

__extension__ typedef unsigned __int128 wide;

enum { BUFFER = 4096, LAPS = 64 };

/* Random bytes, in the order of the key stream. */
typedef struct stream {
    uint8_t key[FED_SEALED_KEY];
    uint8_t bytes[BUFFER];
    uint64_t at; /* of bytes[0], in the whole stream */
    size_t used;
    fed_status status;
} stream;

/* HKDF-SHA256 (RFC 5869) without salt, one block long. */
static void derive(const uint8_t key[FEDSERVER_NOISE_KEY], const uint8_t set[FED_SHA256_SIZE],
                   uint8_t derived[FED_SEALED_KEY]) {
    uint8_t secret[FED_SHA256_SIZE], info[FED_SHA256_SIZE + 1];
    fed_hmac_sha256(NULL, 0, key, FEDSERVER_NOISE_KEY, secret);
    memcpy(info, set, FED_SHA256_SIZE);
    info[FED_SHA256_SIZE] = 1;
    fed_hmac_sha256(secret, sizeof secret, info, sizeof info, derived);
}

static void refill(stream *s) {
    memset(s->bytes, 0, sizeof s->bytes);
    const fed_status status = fed_sealed_crypt(s->key, s->at, s->bytes, sizeof s->bytes);
    s->status = s->status == FED_OK ? status : s->status;
    s->at += sizeof s->bytes;
    s->used = 0;
}

static uint8_t next_byte(stream *s) {
    if (s->used == sizeof s->bytes) {
        refill(s);
    }
    return s->bytes[s->used++];
}

/* True with the probability num / den, which is at most 1. The random number in [0, 1) is drawn a
 * byte at a time, until it differs from the quotient. den: below 2^120. */
static bool draw_quotient(stream *s, wide num, wide den) {
    assert(num <= den && den > 0 && den >> 120 == 0);
    while (num != den) {
        const uint8_t byte = next_byte(s);
        num <<= 8;
        const bool narrow = num >> 64 == 0 && den >> 64 == 0;
        const wide digit = narrow ? (uint64_t)num / (uint64_t)den : num / den;
        if (byte != digit) {
            return byte < digit;
        }
        num -= digit * den;
        if (num == 0) {
            return false;
        }
    }
    return true;
}

/* True with the probability exp(-num / den), where num <= den: algorithm 1. */
static bool draw_small_power(stream *s, wide num, wide den) {
    uint64_t k = 1;
    while (draw_quotient(s, num, den) && draw_quotient(s, 1, k)) {
        k++;
    }
    return k % 2 == 1;
}

/* True with the probability exp(-num / den). */
static bool draw_power(stream *s, wide num, wide den) {
    while (num > den) {
        if (!draw_small_power(s, 1, 1)) {
            return false;
        }
        num -= den;
    }
    return draw_small_power(s, num, den);
}

/* An integer below n, each with the same chance. */
static uint64_t draw_below(stream *s, uint64_t n) {
    uint64_t mask = n - 1, number;
    for (int shift = 1; shift < 64; shift *= 2) {
        mask |= mask >> shift;
    }
    do {
        number = 0;
        for (uint64_t rest = mask; rest > 0; rest >>= 8) {
            number = number << 8 | next_byte(s);
        }
        number &= mask;
    } while (number >= n);
    return number;
}

/* The magnitude of a discrete Laplacian of the scale t, and its sign: algorithm 2. False: it is one
 * that algorithm 3 refuses but for a probability below exp(-1900). */
static bool draw_laplacian(stream *s, uint64_t t, uint64_t *magnitude, bool *negative) {
    uint64_t rest, laps;
    do {
        do {
            rest = draw_below(s, t);
        } while (!draw_small_power(s, rest, t));
        for (laps = 0; laps < LAPS && draw_small_power(s, 1, 1);) {
            laps++;
        }
        *negative = (next_byte(s) & 1) != 0;
    } while (*negative && rest == 0 && laps == 0);
    *magnitude = rest + t * laps;
    return laps < LAPS;
}

/* Algorithm 3. */
static int64_t draw_gaussian(stream *s, const fedserver_variance *v) {
    const wide den = (wide)2 * v->t * v->u * v->m;
    for (;;) {
        uint64_t magnitude;
        bool negative;
        if (!draw_laplacian(s, v->t, &magnitude, &negative)) {
            continue;
        }
        const wide scaled = (wide)magnitude * v->m;
        const wide off = scaled > v->u ? scaled - v->u : v->u - scaled;
        if (draw_power(s, off * off, den)) {
            return negative ? -(int64_t)magnitude : (int64_t)magnitude;
        }
    }
}

fed_status fedserver_variance_of(double sigma2, fedserver_variance *variance) {
    FED_REQUIRE(sigma2 >= FEDSERVER_VARIANCE_LEAST && sigma2 <= FEDSERVER_VARIANCE_MOST,
                FED_EINVAL);
    const double t = floor(sqrt(sigma2)) + 1;
    const double m = t <= 0x1p24 ? 0x1p16 : 1;
    /* The quotient may be rounded down by half an ulp: the next double is above sigma2. */
    const double u = ceil(nextafter(sigma2 / t * m, HUGE_VAL));
    *variance = (fedserver_variance){.t = (uint64_t)t, .u = (uint64_t)u, .m = (uint64_t)m};
    return FED_OK;
}

fed_status fedserver_noise_draw(const uint8_t key[FEDSERVER_NOISE_KEY],
                                const uint8_t set[FED_SHA256_SIZE], fedserver_variance variance,
                                int64_t *noise, size_t count) {
    stream s = {.used = BUFFER};
    derive(key, set, s.key);
    for (size_t i = 0; i < count && s.status == FED_OK; i++) {
        noise[i] = draw_gaussian(&s, &variance);
    }
    return s.status;
}
