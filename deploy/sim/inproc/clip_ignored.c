/* Adds to the masked fields of an update. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/clip_ignored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/hash.h"
#include "fed/private_terms.h"
#include "fed/rng.h"
#include "fedcodec/ring.h"

/* ROUNDING: a stream of random numbers. PART: the first of so many parts of the values is raised.
 * In logistic regression with ten classes that is the first one, of which the model gets too sure.
 */
enum { ROUNDING = 0x68726e64, PART = 10 };

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

/** Add the updates to y[shape.all]. scratch: float32[values] and one update's bytes. */
static fed_status add_updates(const sim_actor *actor, const fedcodec_ring *ring, float *x,
                              uint8_t *packed, uint32_t *y) {
    const sim_told *told = &actor->told;
    const uint64_t seed = actor->world->clients->options->seed;
    const size_t raised = (told->values + PART - 1) / PART;
    const float each = told->privacy.clip / sqrtf((float)raised);
    fed_rng rng;
    for (size_t i = 0; i < told->values; i++) {
        x[i] = i < raised ? each : 0;
    }
    fed_rng_init(&rng, seed, ROUNDING + actor->client->k, told->round);
    for (uint32_t k = 0; k < told->privacy.goal / 2; k++) {
        FED_TRY(
            fedcodec_ring_encode(ring, told->privacy.clip, x, random_bytes, &rng, packed, NULL));
        fedcodec_ring_add(ring, packed, y);
    }
    return FED_OK;
}

/** Change the last bytes of actor->body, which are the fields. */
static fed_status push(sim_actor *actor, const fedcodec_ring *ring) {
    const fed_privacy_fields *shape = &ring->shape;
    float *x = malloc(shape->n * sizeof *x);
    uint8_t *packed = malloc(shape->bytes);
    uint32_t *y = malloc(shape->all * sizeof *y);
    fed_status status = x != NULL && packed != NULL && y != NULL ? FED_OK : FED_ENOMEM;
    if (status == FED_OK) {
        uint8_t *fields = actor->body.data + actor->body.len - shape->bytes;
        fed_private_unpack(fields, shape->width, 0, y, shape->all);
        status = add_updates(actor, ring, x, packed, y);
        fed_private_pack(y, shape->width, 0, fields, shape->all);
    }
    free(x);
    free(packed);
    free(y);
    return status;
}

/** Is the request a whole update, or one in one piece? Then actor->body has a copy of it. The head
 * is that of the piece; of a whole update only its total is set. */
static bool take_whole(sim_actor *actor, bool piece, fed_piece *head) {
    const uint8_t *body = actor->request.body;
    const size_t len = actor->request.body_len;
    fed_reader r;
    fed_reader_init(&r, body, len);
    *head = (fed_piece){.total = len};
    if (piece && (fed_piece_read(&r, head) != FED_OK || head->offset != 0 ||
                  head->total != fed_reader_left(&r))) {
        return false;
    }
    if (body != actor->body.data) {
        actor->body.len = 0;
        fed_write_bytes(&actor->body, body, len);
    }
    return actor->body.status == FED_OK;
}

fed_status sim_hostile_push(sim_actor *actor, fed_error *err) {
    const sim_told *told = &actor->told;
    const bool piece = actor->kept.kind == FED_REQUEST_PIECE;
    fed_piece head;
    fedcodec codec;
    fedcodec_ring ring;
    if (told->values == 0) {
        return FED_OK;
    }
    FED_TRY(fedcodec_parse(told->codec_up, &codec, err));
    ring.shape =
        fed_privacy_shape(&told->privacy, (unsigned)codec.param[0], codec.param[1], told->values);
    fed_privacy_draw(told->task, fed_privacy_drawn(&told->privacy, told->round), ring.draw);
    if (!take_whole(actor, piece, &head) || head.total < ring.shape.bytes) {
        return FED_OK;
    }
    const size_t begin = actor->body.len - (size_t)head.total;
    fed_status status = push(actor, &ring);
    if (status == FED_OK && piece) {
        head.digest = fed_digest_bytes(actor->body.data + begin, (size_t)head.total);
        fed_writer w;
        fed_writer_fixed(&w, actor->body.data, begin);
        fed_piece_write(&w, &head);
        status = w.status;
    }
    actor->request.body = actor->body.data;
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "out of memory for a hostile client's update");
}
