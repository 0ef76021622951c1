/* Made-up training with known values, and the residual in a device's store. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_drill.h"

#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/checkpoint.h"
#include "fed/rng.h"
#include "fedclient/state/record.h"
#include "fedcodec/envelope.h"

static const float unit = 1.0f / 1024;

static float next_value(fed_rng *rng) {
    return unit * ((float)fed_rng_below(rng, 9) - 4);
}

void fed_drill_add(uint32_t client, uint64_t number, size_t n, double *x) {
    fed_rng rng;
    fed_rng_init(&rng, number, client, 0);
    for (size_t i = 0; i < n; i++) {
        x[i] += (double)next_value(&rng);
    }
}

fed_status fed_drill_train(void *user, fedclient_round *round, fed_error *err) {
    const fed_drill *drill = user;
    (void)err;
    fed_rng rng;
    fed_rng_init(&rng, round->number, drill->client, 0);
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += next_value(&rng);
    }
    round->samples = 10;
    round->loss = 0.5f;
    return FED_OK;
}

fed_status fed_drill_zeros(const char *model, const char *path, fed_error *err) {
    fed_arch arch;
    FED_TRY(fed_arch_parse(model, &arch, err));
    float *zeros = calloc(arch.layout.size, sizeof *zeros);
    fed_status status =
        zeros == NULL ? FED_ENOMEM : fed_checkpoint_save(path, &arch.layout, zeros, NULL, err);
    free(zeros);
    fed_arch_free(&arch);
    return status;
}

static fed_status subtract(const fedclient_record *pending, const fed_layout *layout, float *owed,
                           fed_error *err) {
    size_t len = 0;
    const uint8_t *body = fedclient_record_payload(pending, &len);
    fed_update update;
    fed_reader r;
    fed_reader_init(&r, body, len);
    FED_TRY(fed_update_read(&r, &update));
    return fedcodec_envelope_axpy(body + r.pos, fed_reader_left(&r), layout, -1, owed, err);
}

static fed_status owed_by_slot(const fedclient_platform *store, unsigned slot,
                               const fed_layout *layout, float *owed, fed_error *err) {
    fedclient_residual_head head;
    fedclient_pending_head sent;
    fedclient_record residual = {0}, pending = {0};
    FED_TRY(fedclient_residual_load(store, slot, &head, &residual, err));
    fed_status status = fedclient_pending_load(store, slot, &sent, &pending, err);
    bool counted = sent.seq == head.seq && sent.fate == FEDCLIENT_FATE_COUNTED;
    size_t n = 0;
    if (status == FED_OK && residual.bytes != NULL && !(counted && sent.whole)) {
        const float *values = fedclient_record_values(&residual, &n);
        if (n != layout->size) {
            status = fed_fail(err, FED_EFORMAT,
                              "the stored residual has %zu values, not as many as the model", n);
        } else {
            memcpy(owed, values, n * sizeof *owed);
        }
    }
    if (status == FED_OK && counted && !sent.whole && head.seq != 0) {
        status = subtract(&pending, layout, owed, err);
    }
    fedclient_record_free(&residual);
    fedclient_record_free(&pending);
    return status;
}

fed_status fed_drill_owed(const fedclient_platform *store, uint64_t task, const fed_layout *layout,
                          float *owed, unsigned *slot, uint64_t *seq, fed_error *err) {
    memset(owed, 0, layout->size * sizeof *owed);
    *slot = task != 0 ? FED_SLOTS : 0;
    *seq = 0;
    for (unsigned k = 0; k < FED_SLOTS; k++) {
        fedclient_residual_head head;
        fedclient_record record = {0};
        FED_TRY(fedclient_residual_load(store, k, &head, &record, err));
        fedclient_record_free(&record);
        *slot = task != 0 && head.task == task ? k : *slot;
        *seq = head.seq > *seq ? head.seq : *seq;
    }
    return *slot < FED_SLOTS ? owed_by_slot(store, *slot, layout, owed, err) : FED_OK;
}

fed_status fed_drill_read_body(const fedclient_body *body, fed_writer *w) {
    for (size_t left = body->size; left > 0;) {
        uint8_t piece[4096];
        size_t len = 0;
        FED_TRY(body->read(body->user, piece, sizeof piece, &len));
        fed_write_bytes(w, piece, len);
        left -= len;
    }
    return w->status;
}
