/* Draws the devices whose turn it is to take free slots, and wakes them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/turns.h"

#include <assert.h>
#include <stdlib.h>

#include "fed/rng.h"
#include "fedserver/rounds/eligible.h"
#include "fedserver/rounds/lately.h"

/* Slots that become free one after the other are drawn together, once in this time. */
enum { SPACING_MS = 100 };
/* The window during which drawn devices are preferred lasts the deadline / WINDOW_PART, at most
 * WINDOW_MOST_MS. After it the cohort admits all devices to the slots that are left. A turn lasts
 * as long, at most TURN_MOST_MS. */
enum { WINDOW_PART = 50, WINDOW_MOST_MS = 2000, TURN_MOST_MS = 1000 };
/* A draw looks at all devices that checked in lately if they are no more than LOOKED_AT, or
 * LOOKED_PER_SLOT for each slot. If a share p of the devices in memory can take a slot, the draw's
 * estimate of p has a standard error of at most sqrt(p / LOOKED_AT). */
enum { LOOKED_AT = 4096, LOOKED_PER_SLOT = 4 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void fedserver_wake(fedserver_rounds *rounds, uint64_t key) {
    fedserver_wakes *wakes = &rounds->wakes;
    if (wakes->count == wakes->cap) {
        const size_t cap = wakes->cap == 0 ? 64 : 2 * wakes->cap;
        uint64_t *keys = realloc(wakes->keys, cap * sizeof *keys);
        if (keys == NULL) {
            rounds->epoch++; /* without memory for the key, all are asked again */
            return;
        }
        wakes->keys = keys;
        wakes->cap = cap;
    }
    wakes->keys[wakes->count++] = key;
}

uint64_t fedserver_wakes_take(fedserver_rounds *rounds) {
    fedserver_wakes *wakes = &rounds->wakes;
    return wakes->count > 0 ? wakes->keys[--wakes->count] : 0;
}

bool fedserver_has_its_turn(const fedserver_training *t, const fedserver_device *device) {
    return t->turn != 0 && device->turn == t->turn;
}

static int64_t window_ms(const fedserver_training *t) {
    return least(t->task.rules.deadline_ms / WINDOW_PART, WINDOW_MOST_MS);
}

static int64_t turn_ms(const fedserver_training *t) {
    return least(window_ms(t), TURN_MOST_MS);
}

/* Draws of a task. `again`: more devices for slots that were offered before. */
typedef struct drawing {
    fedserver_rounds *rounds;
    fedserver_training *t;
    int64_t now_ms;
    bool again;
    uint32_t slots;
    fedserver_candidate *candidates;
    size_t count;
    double each; /* the number of devices that a candidate stands for */
} drawing;

/* Devices that had their turn and have not even asked may have gone away. */
static void note_who_is_away(const drawing *d) {
    const fedserver_training *t = d->t;
    const bool over = t->turn != 0 && d->now_ms - t->drawn_ms >= turn_ms(t);
    for (size_t k = 0; k < t->drawn_count && over; k++) {
        fedserver_device *device = t->drawn[k];
        device->away =
            device->away || (device->turn == t->turn && device->checkin_ms < t->drawn_ms);
    }
}

static void look_at(drawing *d, fedserver_device *device) {
    const bool let_it_pass = d->again && fedserver_has_its_turn(d->t, device);
    if (!let_it_pass && fedserver_can_take(d->rounds, d->t, device, d->now_ms)) {
        d->candidates[d->count] = fedserver_candidate_of(d->t, device);
        d->candidates[d->count++].row = device;
    }
}

/* Find devices that could take a slot: look at all that checked in lately, or at as many as `most`
 * in memory, picked by chance. Devices that are not candidates can get a slot, too. Without memory
 * there are none, and slots go to those who come first. */
static void find_candidates(drawing *d, size_t most) {
    const fedserver_devices *devices = &d->rounds->devices;
    const bool all = devices->lately <= most;
    d->candidates = calloc((all ? devices->lately : most) + 1, sizeof *d->candidates);
    d->each = 1;
    if (d->candidates == NULL) {
        return;
    }
    if (all) {
        fedserver_device *one = fedserver_devices_oldest(devices);
        for (; one != NULL; one = fedserver_devices_newer(one)) {
            assert(d->count < devices->lately);
            look_at(d, one);
        }
        return;
    }
    fed_rng rng;
    fed_rng_init(&rng, d->t->cohort.seed, d->t->cohort.round, d->t->cohort.drawing);
    for (size_t k = 0; k < most; k++) {
        const uint32_t at = fed_rng_below(&rng, (uint32_t)devices->count);
        look_at(d, fedserver_devices_at(devices, at));
    }
    d->each = (double)devices->count / (double)most;
}

static void begin(drawing *d) {
    fedserver_training *t = d->t;
    t->redraws = !d->again ? 0 : t->redraws + (t->turn != 0);
    t->cohort = (fedserver_cohort){
        .selection = t->task.selection,
        .seed = t->task.wire.seed,
        .round = t->round.number,
        .drawing = t->round.attempt + t->round.received + t->redraws,
        /* the window does not begin again */
        .opened_ms = d->again ? t->cohort.opened_ms : d->now_ms,
        .window_ms = window_ms(t),
        .start = 1,
    };
    fedserver_lately_advance(d->rounds, d->now_ms);
    note_who_is_away(d);
    const size_t per_slot = (size_t)LOOKED_PER_SLOT * d->slots;
    find_candidates(d, per_slot > LOOKED_AT ? per_slot : LOOKED_AT);
    fedserver_cohort_draw(&t->cohort, d->candidates, d->count, d->each, d->slots);
}

static drawing draw(fedserver_rounds *rounds, fedserver_training *t, bool again, int64_t now_ms) {
    drawing d = {.rounds = rounds,
                 .t = t,
                 .now_ms = now_ms,
                 .again = again,
                 .slots = t->task.rules.cohort - t->round.leased};
    begin(&d);
    t->turn = 0;
    return d;
}

/* Give a turn to the first candidates, as many as there are slots. A sample may have a device
 * twice. */
static void give_turns(drawing *d) {
    fedserver_training *t = d->t;
    uint32_t given = 0;
    size_t k = 0;
    t->turn = ++d->rounds->turn;
    t->drawn_ms = d->now_ms;
    free(t->drawn);
    t->drawn = calloc(d->slots + 1, sizeof(fedserver_device *));
    for (; k < d->count && given < d->slots; k++) {
        fedserver_device *device = d->candidates[k].row;
        if (device->turn != t->turn) {
            device->turn = t->turn;
            fedserver_wake(d->rounds, (uint64_t)device->id);
            if (t->drawn != NULL) {
                t->drawn[given] = device;
            }
            given++;
        }
    }
    t->drawn_count = t->drawn != NULL ? given : 0;
    t->draws = k < d->count || d->each > 1;
    t->draws_ms = d->now_ms + turn_ms(t);
}

static void draw_and_wake(fedserver_rounds *rounds, fedserver_training *t, bool again,
                          int64_t now_ms) {
    drawing d = draw(rounds, t, again, now_ms);
    give_turns(&d);
    free(d.candidates);
}

static void draw_later(fedserver_training *t, int64_t now_ms) {
    const int64_t at_ms = least(t->drawn_ms, now_ms) + SPACING_MS;
    const int64_t soonest_ms = at_ms > now_ms ? at_ms : now_ms;
    t->draws_ms = t->draws ? least(t->draws_ms, soonest_ms) : soonest_ms;
    t->draws = true;
}

void fedserver_slots_open(fedserver_rounds *rounds, fedserver_training *t, int64_t now_ms) {
    if (fedserver_asynchronous(t) && t->round.number > 1) {
        draw_later(t, now_ms);
        return;
    }
    draw_and_wake(rounds, t, false, now_ms);
}

void fedserver_slots_freed(fedserver_rounds *rounds, fedserver_training *t, bool were_full,
                           int64_t now_ms) {
    if (were_full) {
        const drawing d = draw(rounds, t, false, now_ms);
        free(d.candidates);
    }
    draw_later(t, now_ms);
}

fed_status fedserver_drawn_find(const fedserver_rounds *rounds, fedserver_training *t) {
    const size_t most = rounds->devices.count;
    free(t->drawn);
    t->drawn = calloc(most + 1, sizeof(fedserver_device *));
    t->drawn_count = 0;
    FED_REQUIRE(t->drawn != NULL, FED_ENOMEM);
    for (size_t k = 0; k < most; k++) {
        fedserver_device *device = fedserver_devices_at(&rounds->devices, k);
        if (fedserver_has_its_turn(t, device)) {
            t->drawn[t->drawn_count++] = device;
        }
    }
    return FED_OK;
}

int64_t fedserver_slots_wake(fedserver_rounds *rounds, int64_t now_ms) {
    int64_t next_ms = INT64_MAX;
    for (size_t k = 0; k < rounds->task_count; k++) {
        fedserver_training *t = rounds->tasks[k];
        /* the wall clock may have been set back */
        t->draws_ms = least(t->draws_ms, now_ms + TURN_MOST_MS);
        if (t->draws && t->draws_ms <= now_ms) {
            t->draws = false;
            if (t->round.phase == FEDSERVER_ROUND_OPEN) {
                draw_and_wake(rounds, t, true, now_ms);
            }
        }
        next_ms = t->draws ? least(next_ms, t->draws_ms) : next_ms;
    }
    return next_ms;
}
