/* Contract of every second stage (a lossless pass after a codec) of stages.def, on messages of
 * every codec. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "codec_spec.h"
#include "codecs/stage.h"
#include "fed/rng.h"
#include "fedcodec/codec_vtable.h"

enum { N = 2000, CAP = 16 * N };

typedef struct message {
    size_t len;
    uint8_t bytes[CAP];
} message;

static void make_message(const fedcodec *codec, message *m) {
    static float x[N], residual[N];
    static max_align_t work[CAP];
    fed_rng rng;
    fed_rng_init(&rng, codec->vtable->id, 0, 0);
    memset(residual, 0, sizeof residual);
    assert_true(fedcodec_bound(codec, N) <= CAP);
    assert_true(fedcodec_work_size(codec, N) <= sizeof work);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            float u = fed_rng_float(&rng) - 0.5f;
            x[i] = copysignf(logf(1.0f - 2.0f * fabsf(u) + 1e-7f), u);
        }
        assert_fed_ok(fedcodec_encode(codec, residual, x, N, work, m->bytes, CAP, &m->len));
    }
}

/* Unpack with memory of exactly the right sizes, so that sanitizers find accesses beyond it. */
static fed_status unpack(const fedcodec_stage *stage, const uint8_t *packed, size_t len,
                         size_t plain_len, uint8_t *plain) {
    uint8_t *copy = malloc(len + (len == 0)), *dst = malloc(plain_len + (plain_len == 0));
    assert_true(copy != NULL && dst != NULL);
    memcpy(copy, packed, len);
    fed_status status = stage->unpack(copy, len, dst, plain_len);
    memcpy(plain, dst, plain_len);
    free(copy);
    free(dst);
    return status;
}

/* Different bytes of zstd may be the same message. */
static bool has_one_form(const fedcodec_stage *stage) {
    return strcmp(stage->name, "zstd") != 0;
}

static bool tells_its_length(const fedcodec_stage *stage) {
    return strcmp(stage->name, "entropy") != 0;
}

/* Changed bytes must be refused, or be what the stage makes of the message that they unpack to. */
static void assert_refused_or_one_form(const fedcodec_stage *stage, const uint8_t *packed,
                                       size_t len, size_t plain_len) {
    static uint8_t plain[CAP], again[2 * CAP];
    if (unpack(stage, packed, len, plain_len, plain) == FED_OK && has_one_form(stage)) {
        assert_int_equal(stage->pack(plain, plain_len, again, sizeof again), len);
        assert_memory_equal(again, packed, len);
    }
}

static void check_message(const fedcodec_stage *stage, const message *m) {
    static uint8_t packed[2 * CAP], plain[CAP + 1];
    size_t len = stage->pack(m->bytes, m->len, packed, sizeof packed);
    assert_true(len > 0);
    assert_fed_ok(unpack(stage, packed, len, m->len, plain));
    assert_memory_equal(plain, m->bytes, m->len);
    if (tells_its_length(stage)) {
        assert_fed_status(unpack(stage, packed, len, m->len - 1, plain), FED_EFORMAT);
        assert_fed_status(unpack(stage, packed, len, m->len + 1, plain), FED_EFORMAT);
    } else {
        assert_refused_or_one_form(stage, packed, len, m->len - 1);
        assert_refused_or_one_form(stage, packed, len, m->len + 1);
    }
    if (has_one_form(stage)) {
        assert_int_equal(stage->pack(m->bytes, m->len, packed, len), len);
    }
    assert_int_equal(stage->pack(m->bytes, m->len, packed, len - 1), 0);
}

static void damage_message(const fedcodec_stage *stage, const message *m) {
    static uint8_t packed[2 * CAP], plain[CAP];
    fed_rng rng;
    fed_rng_init(&rng, 3, 0, 0);
    size_t len = stage->pack(m->bytes, m->len, packed, sizeof packed - 1);
    for (int k = 0; k < 40; k++) {
        size_t cut = fed_rng_below(&rng, (uint32_t)len);
        assert_fed_status(unpack(stage, packed, cut, m->len, plain), FED_EFORMAT);
        size_t bit = fed_rng_below(&rng, (uint32_t)(8 * len));
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_refused_or_one_form(stage, packed, len, m->len);
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        packed[len] = (uint8_t)byte;
        assert_fed_status(unpack(stage, packed, len + 1, m->len, plain), FED_EFORMAT);
    }
}

typedef void use_message(const fedcodec_stage *stage, const message *m);

static void with_each_stage(const char *spec, use_message *use) {
    static message m;
    fedcodec codec;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    make_message(&codec, &m);
    for (size_t s = 0; fedcodec_stage_at(s) != NULL; s++) {
        use(fedcodec_stage_at(s), &m);
    }
}

static void with_each(use_message *use) {
    for (size_t k = 0; codec_spec_at(k) != NULL; k++) {
        with_each_stage(codec_spec_at(k), use);
    }
    with_each_stage("3lc:s=1.75", use);
    with_each_stage("sbc:p=0.1,pos=auto", use);
}

FED_TEST(each_message_comes_back_in_just_its_size) {
    with_each(check_message);
}

FED_TEST(packed_bytes_cut_flipped_or_longer_are_refused_or_something_else) {
    with_each(damage_message);
}

FED_TEST(random_bytes_are_refused_or_the_packed_form_of_something) {
    fed_rng rng;
    fed_rng_init(&rng, 9, 0, 0);
    for (size_t s = 0; fedcodec_stage_at(s) != NULL; s++) {
        for (int round = 0; round < 20000; round++) {
            uint8_t packed[8];
            size_t len = fed_rng_below(&rng, sizeof packed + 1);
            for (size_t i = 0; i < sizeof packed; i++) {
                packed[i] = (uint8_t)fed_rng_below(&rng, 256);
            }
            assert_refused_or_one_form(fedcodec_stage_at(s), packed, len,
                                       1 + fed_rng_below(&rng, 16));
        }
    }
}
