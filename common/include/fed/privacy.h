/* What a device is told of a private task, and the arithmetic that both sides of it need. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_PRIVACY_H
#define FED_PRIVACY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/hash.h"

FED_API_BEGIN

/*
 * A task whose codec_up is `ring` is private. All its devices send the same positions in the same
 * steps, as integers that add up modulo 2^w (docs/codec-formats.md#ring). Everything that a reader
 * must know follows from the task, the round and fed_privacy, so an update is its fields alone.
 *
 * The functions below use +, *, / and sqrt of binary64 only: every machine gets the same bits.
 */
enum { FED_HELPERS = 2, FED_SEAL_KEY = 65 /* bytes of an uncompressed point of P-256 */ };

/** What a device is told of a private task, in the assignment. Sent with FED_CAN_PRIVATE only. */
typedef struct fed_privacy {
    /* C: the longest update, as a 2-norm. 0: the task is not private, and nothing else is sent.
     * It may change from round to round. */
    float clip;
    uint32_t minimum, goal, cohort; /* of the round; 1 <= minimum <= goal <= cohort */
    double sigma2;        /* variance of the noise on each field, in levels squared; 0: none */
    float epsilon, delta; /* what is promised of each device over all rounds; 0: nothing */
    /* K: the most rounds in which a device takes part. h: how far these are apart at least. 0 and 1
     * where epsilon is 0. */
    uint32_t participations, apart;
    /* The clip follows a quantile of the updates' lengths: each update has one more field, the
     * count. It is 1 if the update was at most clip long, else -1. Sent as the highest bit of the
     * byte `helpers`, and to devices with FED_CAN_COUNT only. */
    bool counted;
    uint8_t helpers; /* 0: the coordinator sums in the open; at most FED_HELPERS */
    uint8_t helper_key[FED_HELPERS][FED_SEAL_KEY]; /* the keys of the first `helpers` are sent */
    uint64_t
        generation; /* of the coordinator's store, another one after a restore; sent with keys */
} fed_privacy;

/*
 * Behind the head of an update (fed_update: 1 sample, loss 0, no custom metrics) of a private task
 * stand: the byte FED_OWN_ENVELOPE (fed/own_metrics.h), as before any values; a byte with the
 * number of helpers; what a device says to each helper; the fields.
 */
enum { FED_PRIVATE_HEAD = 2 /* bytes of the first two */ };

/** Write and read what stands in an assignment. FED_EFORMAT: the bytes are damaged, or a number is
 * out of its range; *privacy is unchanged then. */
void fed_privacy_write(fed_writer *w, const fed_privacy *privacy);
fed_status fed_privacy_read(fed_reader *r, fed_privacy *privacy) FED_CHECKED;

/** The round's draw, which decides positions and signs: SHA-256 of "ring", then task (u64) and
 * round (u32), little-endian. */
void fed_privacy_draw(uint64_t task, uint32_t round, uint8_t draw[FED_SHA256_SIZE]);

/** The round whose draw a round has: its own. Where `apart` is above 1, all rounds have that of
 * round 0, so that the noise of one can take off that of another. */
uint32_t fed_privacy_drawn(const fed_privacy *privacy, uint32_t round);

/** The shape of a private update's fields. fed_privacy_shape makes one. */
typedef struct fed_privacy_fields {
    unsigned bits;  /* b: bits of a level */
    int32_t most;   /* the largest level, 2^(b-1) - 1 */
    size_t n;       /* trained values of the model */
    size_t sent;    /* k: values that are sent, 1 to n */
    uint32_t block; /* B: values that are rotated together: 1024, 256 or 64 */
    size_t fields;  /* k': fields of values, the multiple of B that is not below k */
    size_t all;     /* k', and 1 where there is a count behind the values */
    float step;     /* g: what a level stands for, before the rotation is undone */
    double reach;   /* D: the longest vector of levels that a device sends, as a 2-norm */
    unsigned width; /* w: bits of a field; 0: 32 bits are too few for this cohort and noise */
    size_t bytes;   /* of all fields: ceil(all w / 8) */
} fed_privacy_fields;

/** k, the number of values that are sent of n: max(1, ceil(p n)). p is above 0 and at most 1. */
size_t fed_privacy_sent(size_t n, double p);

/** g as f32: 4.5 C / (sqrt(k) (2^(b-1) - 1)). */
float fed_privacy_step(float clip, size_t sent, unsigned bits);

/** D, in levels: D^2 = c^2 + k'/4 + sqrt(2 ln 1000) (c + sqrt(k') / 2), with c = C / g. */
double fed_privacy_reach(float clip, float step, size_t fields);

/** w, the least number of bits with 2^(w-1) > cohort (2^(b-1) - 1) + 8 sigma: so no sum of a round
 * wraps around. 0: that takes more than 32 bits. */
unsigned fed_privacy_width(unsigned bits, uint32_t cohort, double sigma2);

/** The variance of the noise on the count, in its own units: (goal / 10)^2, which is (2 sigma_b)^2
 * with the deviation sigma_b = goal / 20 of Andrew et al., "Differentially private learning with
 * adaptive clipping", 2021. 0: there is no count, or no noise. */
double fed_privacy_count_sigma2(const fed_privacy *privacy);

/** All of the above for `ring:b=bits,p=p` and a model with n trained values, n >= 1. The members
 * clip, cohort, goal, counted and sigma2 of *privacy are used; clip is above 0. */
fed_privacy_fields fed_privacy_shape(const fed_privacy *privacy, unsigned bits, double p, size_t n);

FED_API_END

#endif
