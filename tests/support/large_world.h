/* A coordinator, three devices and a model whose updates are stored in segment files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARGE_WORLD_H
#define LARGE_WORLD_H

#include "coordinator_fixture.h"

/* Updates of 100 KB, which the store keeps in a segment file. */
static const char task[] = "{\"model\": \"input 784 | dense 32 | dense 10\","
                           " \"codec_up\": \"float32\", \"codec_down\": \"3lc:s=1.5\","
                           " \"rounds\": 4, \"cohort\": 3, \"goal\": 3, \"deadline_s\": 100}";
enum { PARAMETERS = 784 * 32 + 32 + 32 * 10 + 10, DEVICES = 3 };

typedef struct world {
    coordinator home, copy;
    test_device devices[DEVICES];
    char backup[300];
    float x[PARAMETERS];
} world;

static inline int setup(void **state) {
    static world w;
    coordinator_setup(&w.home);
    for (int k = 0; k < DEVICES; k++) {
        w.devices[k] = coordinator_enrol(&w.home);
    }
    coordinator_task(&w.home, task);
    coordinator_commit(&w.home);
    snprintf(w.backup, sizeof w.backup, "%s/backup", w.home.directory);
    snprintf(w.copy.directory, sizeof w.copy.directory, "%.240s/copy", w.home.directory);
    w.copy.now_ms = w.home.now_ms;
    *state = &w;
    return 0;
}

static inline int teardown(void **state) {
    world *w = *state;
    coordinator_teardown(&w->home);
    return 0;
}

/* Upload an update of device k for the open round. */
static inline void upload(world *w, coordinator *c, int k) {
    fed_assignment work = device_ask_work(c, &w->devices[k]);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    for (int i = 0; i < PARAMETERS; i++) {
        w->x[i] = (float)((int)work.round + k * i % 7) / 16;
    }
    assert_int_equal(device_upload(c, &w->devices[k], &work, w->x, (uint32_t)k + 1, NULL), 200);
    coordinator_commit(c);
}

static inline void one_round(world *w, coordinator *c, int from) {
    for (int k = from; k < DEVICES; k++) {
        upload(w, c, k);
    }
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
