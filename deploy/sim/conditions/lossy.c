/* A transport that lets some uploads break: midway, or by losing the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/conditions/lossy.h"

#include "deploy/sim/conditions/streams.h"
#include "fed/rng.h"

typedef enum fault { FAULT_NONE, FAULT_BREAK_OFF, FAULT_LOSE_ANSWER } fault;

static fault draw_fault(sim_lossy *lossy) {
    fed_rng rng;
    fed_rng_init(&rng, lossy->seed, lossy->k, SIM_STREAM_BREAK + lossy->kept.uploads++);
    if ((double)fed_rng_float(&rng) >= lossy->rate) {
        return FAULT_NONE;
    }
    return fed_rng_below(&rng, 2) == 0 ? FAULT_BREAK_OFF : FAULT_LOSE_ANSWER;
}

/** A body whose reading fails after its first half. */
typedef struct half_body {
    const fedclient_body *whole;
    size_t left;
} half_body;

static fed_status read_half(void *user, void *dst, size_t cap, size_t *len) {
    half_body *half = user;
    FED_REQUIRE(half->left > 0, FED_ENET);
    FED_TRY(half->whole->read(half->whole->user, dst, cap < half->left ? cap : half->left, len));
    half->left -= *len;
    return FED_OK;
}

static fed_status send_broken(sim_lossy *lossy, const fedclient_request *request, int *status,
                              fed_writer *answer, fed_error *err) {
    half_body half = {.whole = request->body, .left = request->body->size / 2};
    fedclient_body body = {.user = &half, .size = request->body->size, .read = read_half};
    fedclient_request broken = *request;
    broken.body = &body;
    fed_status result = lossy->inner.send(lossy->inner.user, &broken, status, answer, err);
    return result != FED_OK ? result : fed_fail(err, FED_ENET, "the upload broke off midway");
}

static fed_status lossy_send(void *user, const fedclient_request *request, int *status,
                             fed_writer *answer, fed_error *err) {
    sim_lossy *lossy = user;
    fault what = FAULT_NONE;
    if (request->kind == FED_REQUEST_UPDATE) {
        what = draw_fault(lossy);
    }
    if (what == FAULT_BREAK_OFF) {
        fed_status result = send_broken(lossy, request, status, answer, err);
        lossy->kept.broken++;
        return result;
    }
    FED_TRY(lossy->inner.send(lossy->inner.user, request, status, answer, err));
    if (what == FAULT_LOSE_ANSWER) {
        lossy->kept.broken++;
        return fed_fail(err, FED_ENET, "the answer to an upload was lost");
    }
    if (lossy->answered != NULL) {
        lossy->answered(lossy->user, request);
    }
    return FED_OK;
}

static fed_status lossy_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                 fed_error *err) {
    sim_lossy *lossy = user;
    return lossy->inner.identify(lossy->inner.user, key, cert, err);
}

static void lossy_disconnect(void *user) {
    sim_lossy *lossy = user;
    lossy->inner.disconnect(lossy->inner.user);
}

static void lossy_traffic(void *user, fedclient_traffic *traffic) {
    sim_lossy *lossy = user;
    lossy->inner.traffic(lossy->inner.user, traffic);
}

void sim_lossy_open(sim_lossy *lossy, fedclient_transport *outer) {
    *outer = (fedclient_transport){.user = lossy,
                                   .send = lossy_send,
                                   .identify = lossy_identify,
                                   .disconnect = lossy_disconnect,
                                   .traffic = lossy_traffic};
}
