/* Check-ins that the coordinator holds back: they wait without their client's thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/parked.h"

#include <string.h>

#include "deploy/sim/inproc/inproc_transport.h"

fed_status sim_park(sim_actor *actor, const fedserver_response *held, fed_error *err) {
    const uint32_t ms = held->hold_ms;
    sim_world *world = actor->world;
    sim_parked *parked = &actor->kept.parked;
    if (actor->request.body_len > sizeof parked->body) {
        return fed_fail(err, FED_EINVAL,
                        "a client's check-in of %zu bytes is longer than fedsim can park",
                        actor->request.body_len);
    }
    *parked = (sim_parked){.on = true,
                           .len = actor->request.body_len,
                           .since_us = world->now_us,
                           .until_us = world->now_us + (int64_t)ms * 1000,
                           .epoch = world->host.epoch};
    actor->kept.key = held->hold_key;
    memcpy(parked->body, actor->request.body, parked->len);
    fedserver_blob_free(actor->parked_answer.body);
    actor->parked_answer = (fedserver_response){0};
    return sim_answer_wait(actor, ms, &actor->answer, err);
}

static void stay_parked(sim_actor *actor) {
    const int64_t now_us = actor->world->now_us;
    const int64_t away_us = sim_attendance_until(&actor->attendance, now_us);
    sim_actor_move(actor, now_us);
    actor->kept.stage = SIM_PARKED;
    const sim_due due = {.us = away_us < actor->kept.parked.until_us ? away_us
                                                                     : actor->kept.parked.until_us,
                         .nth = 0,
                         .chance = actor->kept.chance};
    sim_heap_set(&actor->world->heap, actor->client->k, due);
}

static void lose(sim_actor *actor, int64_t us) {
    fedserver_blob_free(actor->parked_answer.body);
    actor->parked_answer = (fedserver_response){0};
    actor->kept.parked = (sim_parked){0};
    actor->kept.connected = false;
    sim_actor_plan(actor, us + sim_actor_backoff_us(actor));
}

static fed_status ask(sim_actor *actor, fed_error *err) {
    sim_world *world = actor->world;
    sim_parked *parked = &actor->kept.parked;
    fedserver_request request = actor->request;
    fedserver_response response;
    request.body = parked->body;
    request.waited_ms = (world->now_us - parked->since_us) / 1000;
    parked->epoch = world->host.epoch;
    parked->woken = false;
    FED_TRY(sim_host_handle(&world->host, &request, world->now_us, &response, err));
    if (response.hold) {
        parked->until_us = world->now_us + (int64_t)response.hold_ms * 1000;
        stay_parked(actor);
        return FED_OK;
    }
    int64_t at_us = world->now_us;
    actor->parked_answer = response;
    parked->answered = true;
    if (sim_answer_send(actor, &response, &at_us) != FED_OK) {
        lose(actor, at_us);
        return FED_OK;
    }
    sim_actor_move(actor, at_us);
    sim_actor_stand(actor, SIM_IDLE);
    return FED_OK;
}

fed_status sim_parked_due(sim_actor *actor, fed_error *err) {
    const int64_t now_us = actor->world->now_us;
    if (sim_attendance_until(&actor->attendance, now_us) <= now_us) {
        lose(actor, now_us);
        return FED_OK;
    }
    return ask(actor, err);
}

fed_status sim_parked_settle(sim_actor *actor, fed_error *err) {
    if (actor->kept.parked.lost) {
        lose(actor, actor->world->now_us);
        return FED_OK;
    }
    if (actor->kept.parked.epoch != actor->world->host.epoch || actor->kept.parked.woken) {
        return ask(actor, err);
    }
    stay_parked(actor);
    return FED_OK;
}

fed_status sim_parked_ask_all(sim_world *world, fed_error *err) {
    const uint32_t count = (uint32_t)world->clients->client_count;
    /* Begin with a random client, because the first clients get the free slots. */
    fed_rng rng;
    fed_rng_init(&rng, world->clients->options->seed, (uint32_t)world->host.epoch, 0);
    const uint32_t first = fed_rng_below(&rng, count);
    for (uint32_t i = 0; i < count; i++) {
        sim_actor *actor = &world->actor[(first + i) % count];
        if (actor->kept.stage == SIM_PARKED) {
            FED_TRY(ask(actor, err));
        }
    }
    return FED_OK;
}

/** Find a client by its hold_key. Clients have enrolled in their order, so its place is mostly
 * known. NULL: none has had its check-in parked with this key. */
static sim_actor *find(sim_world *world, uint64_t key) {
    const uint64_t count = world->clients->client_count;
    const uint64_t first = key - 1 < count ? key - 1 : 0;
    for (uint64_t k = 0; k < count; k++) {
        sim_actor *actor = &world->actor[(first + k) % count];
        if (actor->kept.key == key) {
            return actor;
        }
    }
    return NULL;
}

fed_status sim_parked_ask(sim_world *world, uint64_t key, fed_error *err) {
    sim_actor *actor = find(world, key);
    if (actor == NULL || !actor->kept.parked.on || actor->kept.parked.answered) {
        return FED_OK;
    }
    if (actor->kept.stage == SIM_PARKED) {
        return ask(actor, err);
    }
    actor->kept.parked.woken = true;
    return FED_OK;
}

void sim_parked_lose_all(sim_world *world) {
    for (size_t k = 0; k < world->clients->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        actor->kept.parked.lost = actor->kept.parked.on && !actor->kept.parked.answered;
        if (actor->kept.stage == SIM_PARKED) {
            lose(actor, world->now_us);
        }
    }
}
