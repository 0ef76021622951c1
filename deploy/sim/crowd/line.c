/* The schedule of a simulation's mishaps: who is away in a round, and which uploads break. */
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/conditions/streams.h"
#include "deploy/sim/crowd/sim.h"
#include "fed/rng.h"

void sim_draw_away(uint64_t seed, uint32_t round, uint32_t clients, double fraction, bool *away) {
    uint32_t left = (uint32_t)(fraction * (double)clients);
    /* Selection sampling (Knuth, 3.4.2, algorithm S). */
    fed_rng rng;
    fed_rng_init(&rng, seed, round, SIM_STREAM_AWAY);
    for (uint32_t k = 0; k < clients; k++) {
        away[k] = fed_rng_below(&rng, clients - k) < left;
        left -= away[k] ? 1U : 0U;
    }
}

bool sim_is_away(sim_crowd *crowd, uint32_t round, uint32_t k) {
    const sim_options *o = crowd->options;
    if (crowd->away_round != round) {
        sim_draw_away(o->seed, round, o->clients, o->offline, crowd->away);
        crowd->away_round = round;
    }
    return crowd->away[k];
}

typedef enum mishap { MISHAP_NONE, MISHAP_BREAK_OFF, MISHAP_LOSE_ANSWER } mishap;

static mishap throw_dice(sim_line *line) {
    const sim_client *client = line->client;
    const sim_options *options = client->crowd->options;
    fed_rng rng;
    fed_rng_init(&rng, options->seed, client->k, SIM_STREAM_BREAK + line->uploads++);
    if ((double)fed_rng_float(&rng) >= options->broken) {
        return MISHAP_NONE;
    }
    return fed_rng_below(&rng, 2) == 0 ? MISHAP_BREAK_OFF : MISHAP_LOSE_ANSWER;
}

/** A body that fails when half of it is out. */
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

static fed_status send_broken(sim_line *line, const fedclient_request *request, int *status,
                              fed_writer *answer, fed_error *err) {
    half_body half = {.whole = request->body, .left = request->body->size / 2};
    fedclient_body body = {.user = &half, .size = request->body->size, .read = read_half};
    fedclient_request broken = *request;
    broken.body = &body;
    fed_status result = line->inner.send(line->inner.user, &broken, status, answer, err);
    return result != FED_OK ? result : fed_fail(err, FED_ENET, "the upload broke off midway");
}

static fed_status line_send(void *user, const fedclient_request *request, int *status,
                            fed_writer *answer, fed_error *err) {
    sim_line *line = user;
    mishap what = MISHAP_NONE;
    if (request->body != NULL && strstr(request->url, "/v1/update") != NULL) {
        what = throw_dice(line);
    }
    if (what == MISHAP_BREAK_OFF) {
        fed_status result = send_broken(line, request, status, answer, err);
        line->client->broken++; /* now it has happened */
        return result;
    }
    FED_TRY(line->inner.send(line->inner.user, request, status, answer, err));
    if (what == MISHAP_LOSE_ANSWER) {
        line->client->broken++;
        return fed_fail(err, FED_ENET, "the answer to an upload was lost");
    }
    if (line->answered != NULL) {
        line->answered(line->client, request);
    }
    return FED_OK;
}

static fed_status line_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                fed_error *err) {
    sim_line *line = user;
    return line->inner.identify(line->inner.user, key, cert, err);
}

static void line_disconnect(void *user) {
    sim_line *line = user;
    line->inner.disconnect(line->inner.user);
}

static void line_traffic(void *user, fedclient_traffic *traffic) {
    sim_line *line = user;
    line->inner.traffic(line->inner.user, traffic);
}

void sim_line_open(sim_line *line, sim_client *client, fedclient_transport *outer) {
    line->client = client;
    *outer = (fedclient_transport){.user = line,
                                   .send = line_send,
                                   .identify = line_identify,
                                   .disconnect = line_disconnect,
                                   .traffic = line_traffic};
}
