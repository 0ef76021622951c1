/* Check-ins that the coordinator holds back: they wait without their client's thread. */
#include <string.h>

#include "deploy/sim/virtual/inproc.h"

fed_status sim_held_park(sim_actor *actor, uint32_t ms, fed_error *err) {
    sim_inproc *world = actor->world;
    sim_held *held = &actor->held;
    if (actor->request.body_len > sizeof held->body) {
        return fed_fail(err, FED_EINVAL, "a check-in of %zu bytes is none",
                        actor->request.body_len);
    }
    *held = (sim_held){.on = true,
                       .len = actor->request.body_len,
                       .since_us = world->now_us,
                       .until_us = world->now_us + (int64_t)ms * 1000,
                       .epoch = world->host.epoch};
    memcpy(held->body, actor->request.body, held->len);
    return sim_handover_wait(actor, ms, &actor->answer, err);
}

/** Its turn is over, and its check-in waits for whichever is first: the coordinator's word, the end
 * of its patience, the client's leaving. */
static void wait_on(sim_actor *actor) {
    const int64_t now_us = actor->world->now_us;
    const int64_t away_us = sim_attendance_until(&actor->attendance, now_us);
    sim_actor_move(actor, now_us);
    actor->stage = SIM_HELD;
    const sim_key key = {.us = away_us < actor->held.until_us ? away_us : actor->held.until_us,
                         .step = 0,
                         .chance = actor->chance};
    sim_heap_set(&actor->world->heap, actor->client->k, key);
}

/** The line is gone, by whoever's fault: the client asks again later. */
static void lose(sim_actor *actor, int64_t us) {
    fedserver_blob_free(actor->held.answer.body);
    actor->held = (sim_held){0};
    actor->connected = false;
    sim_plan(actor, us + sim_backoff_us(actor));
}

static fed_status ask(sim_actor *actor, fed_error *err) {
    sim_inproc *world = actor->world;
    sim_held *held = &actor->held;
    fedserver_request request = actor->request;
    fedserver_response response;
    request.body = held->body;
    request.waited_ms = (world->now_us - held->since_us) / 1000;
    held->epoch = world->host.epoch;
    FED_TRY(sim_host_handle(&world->host, &request, world->now_us, &response, err));
    if (response.hold) {
        held->until_us = world->now_us + (int64_t)response.hold_ms * 1000;
        wait_on(actor);
        return FED_OK;
    }
    int64_t at_us = world->now_us;
    held->answer = response;
    held->answered = true;
    if (sim_handover_answer(actor, &response, &at_us) != FED_OK) {
        lose(actor, at_us);
        return FED_OK;
    }
    sim_actor_move(actor, at_us);
    sim_actor_stand(actor, SIM_IDLE);
    return FED_OK;
}

fed_status sim_held_due(sim_actor *actor, fed_error *err) {
    const int64_t now_us = actor->world->now_us;
    if (sim_attendance_until(&actor->attendance, now_us) <= now_us) {
        lose(actor, now_us);
        return FED_OK;
    }
    return ask(actor, err);
}

fed_status sim_held_settle(sim_actor *actor, fed_error *err) {
    if (actor->held.lost) {
        lose(actor, actor->world->now_us);
        return FED_OK;
    }
    if (actor->held.epoch != actor->world->host.epoch) {
        return ask(actor, err);
    }
    wait_on(actor);
    return FED_OK;
}

fed_status sim_held_ask_all(sim_inproc *world, fed_error *err) {
    const uint32_t count = (uint32_t)world->crowd->client_count;
    /* Not the same ones first each time: there may be fewer places than there are devices. */
    fed_rng rng;
    fed_rng_init(&rng, world->crowd->options->seed, (uint32_t)world->host.epoch, 0);
    const uint32_t first = fed_rng_below(&rng, count);
    for (uint32_t i = 0; i < count; i++) {
        sim_actor *actor = &world->actor[(first + i) % count];
        if (actor->stage == SIM_HELD) {
            FED_TRY(ask(actor, err));
        }
    }
    return FED_OK;
}

void sim_held_lose_all(sim_inproc *world) {
    for (size_t k = 0; k < world->crowd->client_count; k++) {
        sim_actor *actor = &world->actor[k];
        actor->held.lost = actor->held.on && !actor->held.answered;
        if (actor->stage == SIM_HELD) {
            lose(actor, world->now_us);
        }
    }
}
