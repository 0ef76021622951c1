/* Fuzz envelopes, read frame by frame and with a layout. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fedcodec/codec_vtable.h"
#include "fedcodec/envelope.h"

static void walk(const uint8_t *data, size_t len) {
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    fed_error err = {.status = FED_OK};
    fed_status status = fedcodec_envelope_open(&envelope, data, len, &err);
    uint64_t frames = 0;
    while (status == FED_OK &&
           (status = fedcodec_envelope_next(&envelope, &frame, &err)) == FED_OK) {
        float max_abs;
        require(frame.data >= data && frame.len <= len);
        require(frame.number == frames + 1);
        const uint64_t coded = envelope.frames - envelope.statistics;
        const uint64_t section = envelope.variates ? coded / 2 : coded;
        require(!envelope.variates || coded % 2 == 0);
        require(frame.statistics == (frame.number > coded));
        require(frame.variates == (frame.number > section && !frame.statistics));
        require(frame.group == (envelope.small > 0 && !frame.statistics &&
                                frame.number == (frame.variates ? coded : section)));
        require(frame.stage == 0 ? frame.plain_len == frame.len
                                 : frame.plain_len <= fedcodec_frame_plain_max(frame.n));
        if (frame.n > 4096) {
            frames++;
            continue;
        }
        uint8_t *plain = fuzz_allocate(frame.plain_len);
        if (fedcodec_frame_unpack(&frame, plain, &frame) == FED_OK &&
            frame.codec->check(frame.data, frame.len, (size_t)frame.n, &max_abs) == FED_OK) {
            float y[4096];
            require(fedcodec_decode(frame.codec, frame.data, frame.len, y, (size_t)frame.n) ==
                    FED_OK);
        }
        free(plain);
        frames++;
    }
    require(status == err.status);
    require(status != FED_ENOTFOUND || frames == envelope.frames);
}

enum { SIZE = 136 };

/* Use a message that passed the check. Only too large values may still be refused. */
static void take(const fedcodec_message *message) {
    float y[SIZE] = {0.0f}, sum[SIZE] = {0.0f};
    int64_t acc[SIZE] = {0};
    double norm = 0;
    fed_error err = {.status = FED_OK};
    require(fedcodec_message_decode(message, y, &err) == FED_OK);
    require(fedcodec_message_axpy(message, 1.0f, sum, &err) == FED_OK);
    require(fedcodec_message_norm(message, &norm, &err) == FED_OK && norm >= 0);
    fed_status folds = message->max_abs > FEDCODEC_FOLD_LIMIT ? FED_ERANGE : FED_OK;
    require(fedcodec_message_fold(message, 5, acc, &err) == folds);
    for (size_t i = 0; i < SIZE; i++) {
        require(y[i] == sum[i]);
    }
}

static void match(const uint8_t *data, size_t len, size_t statistics, bool variates) {
    fed_tensor tensors[] = {
        {.name = "dense1.weight", .rank = 2, .dims = {6, 10}, .offset = 0, .size = 60},
        {.name = "dense1.bias", .rank = 1, .dims = {7}, .offset = 60, .size = 7},
        {.name = "scale", .rank = 0, .offset = 67, .size = 1},
        {.name = "scaffold.dense1.weight", .rank = 2, .dims = {6, 10}, .offset = 68, .size = 60},
        {.name = "scaffold.dense1.bias", .rank = 1, .dims = {7}, .offset = 128, .size = 7},
        {.name = "scaffold.scale", .rank = 0, .offset = 135, .size = 1},
    };
    const fed_layout layout = {.tensors = tensors,
                               .count = variates ? 6 : 3,
                               .size = variates ? SIZE : SIZE / 2,
                               .statistics = statistics,
                               .controls = variates ? 3 : 0};
    fedcodec_message message;
    fed_error err = {.status = FED_OK};
    fed_status status = fedcodec_message_open(data, len, &layout, NULL, 0, &message, &err);
    require(status == err.status);
    if (status == FED_OK) {
        take(&message);
        fedcodec_message_close(&message);
    }
    float y[SIZE] = {0.0f};
    require(fedcodec_envelope_decode(data, len, &layout, y, &err) == status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    walk(data, len);
    match(data, len, 0, false);
    match(data, len, 1, false);
    match(data, len, 0, true);
    return 0;
}
