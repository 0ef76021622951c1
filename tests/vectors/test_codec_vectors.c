/*
 * Golden messages: vectors/codecs/NAME.txt of one tensor, vectors/envelopes/NAME.txt of a model.
 * The messages of tensors were made by independent implementations of docs/codec-formats.md, which
 * git keeps (git log -- 'tests/vectors/encode*.py'). decode.py is another implementation, and also
 * reads the envelopes. Files are added, but never changed: what was once sent must stay readable.
 *
 * A file has comments (#), and words that are each followed by their data: spec, input, message,
 * decoded and residual. Envelopes also have small, tensors (their sizes) and statistics (how many
 * of the tensors are statistics). Floats are the hexadecimal digits of their bits, bytes are two
 * such digits, and other numbers are hexadecimal, too. "COUNT*" before an item repeats it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codec_vectors.h"
#include "fed_cases.h"
#include "fedcodec/envelope.h"

enum { WORDS = VECTOR_WORDS };

static void check_vector(const codec_vector *v) {
    fedcodec codec;
    fed_error err = {0};
    size_t n = v->input.len, len = 0;
    static float residual[WORDS], y[WORDS];
    static uint8_t message[WORDS];
    assert_fed_ok_err(fedcodec_parse(v->spec, &codec, &err));
    vector_bytes(v->name, &v->message, message);
    assert_fed_ok(fedcodec_decode(codec.vtable, message, v->message.len, y, n));
    assert_vector_floats(v, "decoded", y, &v->decoded);

    memcpy(residual, v->input.word, n * sizeof *residual);
    size_t cap = fedcodec_bound(&codec, n);
    uint8_t *dst = malloc(cap + 1);
    void *work = malloc(fedcodec_work_size(&codec, n) + 1);
    assert_true(dst != NULL && work != NULL);
    assert_fed_ok(fedcodec_encode(&codec, residual, NULL, n, work, dst, cap, &len));
    if (len != v->message.len || memcmp(dst, message, len) != 0) {
        fail_msg("%s: the encoder now writes another message", v->name);
    }
    assert_vector_floats(v, "residual", residual, &v->residual);
    free(dst);
    free(work);
}

static void check_envelope(const codec_vector *v) {
    fedcodec codec;
    fed_layout layout;
    fed_error err = {0};
    static float residual[WORDS], y[WORDS];
    static uint8_t message[WORDS];
    uint32_t small = v->small.word[0];
    assert_fed_ok_err(fedcodec_parse(v->spec, &codec, &err));
    vector_bytes(v->name, &v->message, message);
    fed_layout_init(&layout);
    for (size_t k = 0; k < v->tensors.len; k++) {
        char name[32];
        snprintf(name, sizeof name, "tensor%zu", k);
        assert_fed_ok(fed_layout_add(&layout, name, 1, &v->tensors.word[k]));
    }
    layout.statistics = v->statistics.len > 0 ? v->statistics.word[0] : 0;
    assert_int_equal(layout.size, v->input.len);
    assert_fed_ok_err(
        fedcodec_envelope_check(message, v->message.len, &layout, &codec, small, NULL, &err));
    assert_fed_ok_err(fedcodec_envelope_decode(message, v->message.len, &layout, y, &err));
    assert_vector_floats(v, "decoded", y, &v->decoded);

    memcpy(residual, v->input.word, layout.size * sizeof *residual);
    void *work = malloc(fedcodec_envelope_work_size(&codec, &layout, small) + 1);
    assert_non_null(work);
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok(fedcodec_envelope_encode(&codec, &layout, small, residual, NULL, work, &w));
    if (w.len != v->message.len || memcmp(w.data, message, w.len) != 0) {
        fail_msg("%s: the encoder now writes another envelope", v->name);
    }
    assert_vector_floats(v, "residual", residual, &v->residual);
    fed_writer_free(&w);
    free(work);
    fed_layout_free(&layout);
}

/* The least numbers below make sure that no vector is lost. */
FED_TEST(old_messages_decode_and_encode_as_they_always_did) {
    assert_true(codec_vectors_each(FED_SOURCE_DIR "/tests/vectors/codecs", check_vector) >= 140);
}

FED_TEST(old_envelopes_decode_and_encode_as_they_always_did) {
    assert_true(codec_vectors_each(FED_SOURCE_DIR "/tests/vectors/envelopes", check_envelope) >= 9);
}
