/* The clients' clocks in virtual time, and when their next events are due. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/world.h"

#include "deploy/sim/conditions/streams.h"

/* The client whose code this thread runs: the clock functions get no argument that names it. */
static _Thread_local const sim_actor *running;

int64_t sim_virtual_unix_ms(void *user) {
    (void)user;
    return sim_unix_ms(running != NULL ? running->kept.now_us : 0);
}

int64_t sim_virtual_monotonic_ms(void *user) {
    (void)user;
    return running != NULL ? running->kept.now_us / 1000 : 0;
}

void sim_actor_enter(const sim_actor *actor) {
    running = actor;
}

void sim_actor_move(sim_actor *actor, int64_t us) {
    if (us > actor->kept.now_us) {
        actor->kept.now_us = us;
        actor->kept.nth = 0;
    }
}

/* Of events at the same time the evaluator's come first, so that a round that takes no virtual time
 * does not overtake it. */
static void set_due(sim_actor *actor, uint32_t nth) {
    const bool first = actor->client->evaluates;
    const sim_due due = {.us = actor->measures ? SIM_NEVER : actor->kept.now_us,
                         .nth = first ? 0 : nth,
                         .chance = first ? 0 : actor->kept.chance};
    sim_heap_set(&actor->world->heap, actor->client->k, due);
}

void sim_actor_stand(sim_actor *actor, sim_stage stage) {
    actor->kept.stage = stage;
    set_due(actor, ++actor->kept.nth);
}

void sim_actor_expect(sim_actor *actor) {
    set_due(actor, actor->kept.nth + 1);
}

void sim_actor_plan(sim_actor *actor, int64_t us) {
    const int64_t from_us = sim_attendance_from(&actor->attendance, us);
    actor->kept.connected = actor->kept.connected && from_us == us;
    sim_actor_move(actor, from_us);
    sim_actor_stand(actor, SIM_IDLE);
}

/* The client library's own wait is not used: its jitter comes from the device's key, which differs
 * from run to run. */
int64_t sim_actor_backoff_us(sim_actor *actor) {
    fed_rng rng;
    fed_rng_init(&rng, actor->world->clients->options->seed, actor->client->k,
                 SIM_STREAM_BACKOFF + actor->kept.steps);
    return (int64_t)fedclient_backoff_draw(++actor->kept.failures, 0, &rng) * 1000;
}
