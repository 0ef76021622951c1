/* The clients' clocks in virtual time, and when their next events are due. */
#include "deploy/sim/inproc/world.h"

#include "deploy/sim/conditions/streams.h"

/* The client whose code this thread runs: its platform's clocks have no other way to know. */
static _Thread_local const sim_actor *running;

int64_t sim_virtual_unix_ms(void *user) {
    (void)user;
    return sim_unix_ms(running != NULL ? running->now_us : 0);
}

int64_t sim_virtual_monotonic_ms(void *user) {
    (void)user;
    return running != NULL ? running->now_us / 1000 : 0;
}

void sim_actor_enter(const sim_actor *actor) {
    running = actor;
}

void sim_actor_move(sim_actor *actor, int64_t us) {
    if (us > actor->now_us) {
        actor->now_us = us;
        actor->nth = 0;
    }
}

static void set_due(sim_actor *actor, uint32_t nth) {
    const sim_due due = {
        .us = actor->measures ? SIM_NEVER : actor->now_us, .nth = nth, .chance = actor->chance};
    sim_heap_set(&actor->world->heap, actor->client->k, due);
}

void sim_actor_stand(sim_actor *actor, sim_stage stage) {
    actor->stage = stage;
    set_due(actor, ++actor->nth);
}

void sim_actor_expect(sim_actor *actor) {
    set_due(actor, actor->nth + 1);
}

void sim_actor_plan(sim_actor *actor, int64_t us) {
    const int64_t from_us = sim_attendance_from(&actor->attendance, us);
    actor->connected = actor->connected && from_us == us;
    sim_actor_move(actor, from_us);
    sim_actor_stand(actor, SIM_IDLE);
}

/* The client library's law, drawn from the seed: its own jitter comes from the device's key, which
 * is another one in each run. */
int64_t sim_actor_backoff_us(sim_actor *actor) {
    enum { FIRST_MS = 400, LAST_MS = 60000, DOUBLINGS = 8 };
    const uint32_t doublings = actor->failures < DOUBLINGS ? actor->failures : DOUBLINGS;
    const uint32_t law_ms = (uint32_t)FIRST_MS << doublings;
    const uint32_t most_ms = law_ms < LAST_MS ? law_ms : LAST_MS;
    actor->failures++;
    fed_rng rng;
    fed_rng_init(&rng, actor->world->clients->options->seed, actor->client->k,
                 SIM_STREAM_BACKOFF + actor->steps);
    return (int64_t)(most_ms / 2 + fed_rng_below(&rng, most_ms / 2 + 1)) * 1000;
}
