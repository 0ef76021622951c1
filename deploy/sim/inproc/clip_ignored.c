/* Adds to the masked fields of an update. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/clip_ignored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/private_terms.h"
#include "fed/rng.h"
#include "fedcodec/ring.h"

/* Of the direction and of rounding, which follow from the seed. */
enum { DIRECTION = 0x64697265, ROUNDING = 0x68726e64 };

bool sim_hostile_is(const sim_actor *actor) {
    const sim_options *o = actor->world->clients->options;
    return actor->client->k < (uint32_t)(o->hostile * (double)o->clients);
}

fed_status sim_hostile_hear(sim_actor *actor) {
    fed_assignment told;
    fed_reader r;
    fed_arch arch;
    size_t len = 0;
    const uint8_t *data = fedserver_blob_data(actor->answer.body, &len);
    fed_reader_init(&r, data, len);
    FED_TRY(fed_assignment_read(&r, actor->request.body[0], &told));
    actor->told = (sim_told){.values = 0};
    if (told.action != FED_ACTION_TRAIN || told.privacy.helpers == 0) {
        return FED_OK;
    }
    FED_TRY(fed_arch_parse(told.task.model, &arch, NULL));
    actor->told = (sim_told){.privacy = told.privacy,
                             .task = told.task.id,
                             .round = told.round,
                             .values = arch.layout.size};
    memcpy(actor->told.codec_up, told.task.codec_up, sizeof actor->told.codec_up);
    fed_arch_free(&arch);
    return FED_OK;
}

static fed_status random_bytes(void *user, void *dst, size_t len) {
    uint8_t *bytes = dst;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(256 * fed_rng_float(user));
    }
    return FED_OK;
}

/** Add the updates to y[fields]. scratch: float32[values] and one update's bytes. */
static fed_status add_updates(const sim_actor *actor, const fedcodec_ring *ring, float *x,
                              uint8_t *packed, uint32_t *y) {
    const sim_told *told = &actor->told;
    const uint64_t seed = actor->world->clients->options->seed;
    const float each = told->privacy.clip / sqrtf((float)told->values);
    fed_rng rng;
    fed_rng_init(&rng, seed, DIRECTION, 0);
    for (size_t i = 0; i < told->values; i++) {
        x[i] = fed_rng_float(&rng) < 0.5F ? -each : each;
    }
    fed_rng_init(&rng, seed, ROUNDING + actor->client->k, told->round);
    for (uint32_t k = 0; k < told->privacy.goal / 2; k++) {
        FED_TRY(
            fedcodec_ring_encode(ring, told->privacy.clip, x, random_bytes, &rng, packed, NULL));
        fedcodec_ring_add(ring, packed, y);
    }
    return FED_OK;
}

static fed_status push(sim_actor *actor, const fedcodec_ring *ring) {
    const fed_privacy_fields *shape = &ring->shape;
    float *x = malloc(shape->n * sizeof *x);
    uint8_t *packed = malloc(shape->bytes);
    uint32_t *y = malloc(shape->fields * sizeof *y);
    fed_status status = x != NULL && packed != NULL && y != NULL ? FED_OK : FED_ENOMEM;
    if (status == FED_OK) {
        uint8_t *fields = actor->body.data + actor->body.len - shape->bytes;
        fed_private_unpack(fields, shape->width, 0, y, shape->fields);
        status = add_updates(actor, ring, x, packed, y);
        fed_private_pack(y, shape->width, 0, fields, shape->fields);
    }
    free(x);
    free(packed);
    free(y);
    return status;
}

fed_status sim_hostile_push(sim_actor *actor, fed_error *err) {
    const sim_told *told = &actor->told;
    fedcodec codec;
    fedcodec_ring ring;
    if (told->values == 0) {
        return FED_OK;
    }
    FED_TRY(fedcodec_parse(told->codec_up, &codec, err));
    ring.shape =
        fed_privacy_shape(&told->privacy, (unsigned)codec.param[0], codec.param[1], told->values);
    fed_privacy_draw(told->task, fed_privacy_drawn(&told->privacy, told->round), ring.draw);
    if (actor->request.body_len < ring.shape.bytes) {
        return fed_fail(err, FED_EFORMAT, "the update of client %u has no fields",
                        actor->client->k);
    }
    if (actor->request.body != actor->body.data) {
        actor->body.len = 0;
        fed_write_bytes(&actor->body, actor->request.body, actor->request.body_len);
        FED_TRY(actor->body.status);
        actor->request.body = actor->body.data;
    }
    const fed_status status = push(actor, &ring);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "out of memory for a hostile client's update");
}
