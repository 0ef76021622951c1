/* Folding updates into the exact sum, and the mean that comes out of it. */
#include "fedserver/aggregate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fedcodec/envelope.h"

/* One device may not outweigh all others together by claiming a huge number of samples. */
enum { SAMPLES_LIMIT = 1 << 20 };

fed_status fedserver_sum_init(fedserver_sum *sum, size_t size) {
    int64_t *acc = calloc(size, sizeof *acc);
    FED_REQUIRE(acc != NULL, FED_ENOMEM);
    *sum = (fedserver_sum){.acc = acc, .size = size};
    return FED_OK;
}

void fedserver_sum_free(fedserver_sum *sum) {
    free(sum->acc);
    *sum = (fedserver_sum){0};
}

void fedserver_sum_clear(fedserver_sum *sum) {
    memset(sum->acc, 0, sum->size * sizeof *sum->acc);
    *sum = (fedserver_sum){.acc = sum->acc, .size = sum->size};
}

fed_status fedserver_update_read(const uint8_t *body, size_t len, fedserver_update *update) {
    fed_reader r;
    fed_reader_init(&r, body, len);
    fedserver_update read = {.body_len = len};
    FED_TRY(fed_update_read(&r, &read.head));
    read.envelope_len = fed_reader_left(&r);
    read.envelope = fed_read_bytes(&r, read.envelope_len);
    *update = read;
    return FED_OK;
}

size_t fedserver_update_head_size(void) {
    uint8_t bytes[64];
    fed_writer w;
    fed_writer_fixed(&w, bytes, sizeof bytes);
    fed_update_write(&w, &(fed_update){.samples = 1});
    assert(w.status == FED_OK);
    return w.len;
}

fed_status fedserver_sum_check(const fedserver_sum *sum, uint32_t samples, uint32_t weight,
                               fed_error *err) {
    if (samples < 1 || samples > SAMPLES_LIMIT) {
        return fed_fail(err, FED_ERANGE, "the update weighs %u samples; 1 to %d are allowed",
                        samples, SAMPLES_LIMIT);
    }
    if (sum->weight + (uint64_t)weight * samples >= (uint64_t)FEDCODEC_FOLD_WEIGHT) {
        return fed_fail(err, FED_ERANGE,
                        "the round holds %llu samples already; with %u more its sum could overflow",
                        (unsigned long long)sum->samples, samples);
    }
    return FED_OK;
}

fed_status fedserver_sum_add(fedserver_sum *sum, const fed_layout *layout,
                             const fedserver_update *update, uint32_t weight, fed_error *err) {
    assert(layout->size == sum->size);
    uint32_t samples = update->head.samples;
    FED_TRY(fedserver_sum_check(sum, samples, weight, err));
    FED_TRY(fedcodec_envelope_fold(update->envelope, update->envelope_len, layout, weight * samples,
                                   sum->acc, err));
    sum->updates++;
    sum->samples += samples;
    sum->weight += (uint64_t)weight * samples;
    sum->loss += (double)samples * (double)update->head.loss;
    sum->bytes += update->body_len;
    return FED_OK;
}

void fedserver_sum_mean(const fedserver_sum *sum, float *mean) {
    assert(sum->weight > 0);
    double scale = (double)sum->weight * (double)(INT64_C(1) << FEDCODEC_FOLD_BITS);
    for (size_t i = 0; i < sum->size; i++) {
        mean[i] = (float)((double)sum->acc[i] / scale);
    }
}
