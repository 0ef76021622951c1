/* Two clients with copies of one device's state directory train on different data. No acknowledged
 * update may be lost (D4 of docs/durability.md), and the coordinator must report the clone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <math.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fed_device.h"
#include "fed_operator.h"
#include "fedserver/server.h"

enum { TURNS = 100, PARAMETERS = 6 };

static const char task_json[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                                " \"codec_down\": \"float32\", \"rounds\": 2, \"cohort\": 1}";

typedef struct copy {
    char directory[300];
    char server[64];
    fedclient_platform platform;
    fedclient_transport line;
    fedclient *client;
    float step;
    struct copy *then; /* a copy that takes part in round 1 while this one trains; NULL: none */
} copy;

typedef struct world {
    char directory[256];
    fed_coordinator home;
    copy first, second;
} world;

static fedclient_event step(copy *c) {
    fed_error err = {0};
    fedclient_event event;
    assert_fed_ok_err(fedclient_step(c->client, &event, &err));
    return event;
}

static fedclient_event step_until(copy *c, fedclient_outcome wanted) {
    for (int k = 0; k < TURNS; k++) {
        const fedclient_event event = step(c);
        if (event.outcome == wanted) {
            return event;
        }
    }
    fail_msg("fedclient_step did not have the outcome %d in %d steps", (int)wanted, TURNS);
    return (fedclient_event){0};
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)err;
    copy *c = user;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += c->step;
    }
    round->samples = 1;
    round->loss = 0.5f;
    if (c->then != NULL && round->round == 1) {
        assert_int_equal(step(c->then).outcome, FEDCLIENT_COUNTED);
    }
    return FED_OK;
}

static void start(const world *w, copy *c) {
    fed_error err = {0};
    snprintf(c->server, sizeof c->server, "https://127.0.0.1:%u", w->home.front);
    assert_fed_ok_err(fedclient_platform_posix_open(c->directory, &c->platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = w->home.ca}, &c->line, &err));
    const fedclient_options options = {.server = c->server,
                                       .platform = &c->platform,
                                       .transport = &c->line,
                                       .train = train,
                                       .user = c};
    assert_fed_ok_err(fedclient_open(&options, &c->client, &err));
}

static void stop(copy *c) {
    fedclient_close(c->client);
    fedclient_transport_close(&c->line);
    fedclient_platform_posix_close(&c->platform);
}

static void copy_directory(const char *from, const char *to) {
    fed_error err = {0};
    assert_fed_ok_err(fed_dir_make(to, 0700, &err));
    DIR *all = opendir(from);
    assert_non_null(all);
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        char source[600], target[600];
        uint8_t *bytes = NULL;
        size_t len = 0;
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(target, sizeof target, "%s/%s", to, entry->d_name);
        assert_fed_ok_err(fed_file_read(source, 1 << 20, &bytes, &len, &err));
        assert_fed_ok_err(fed_file_replace(target, bytes, len, 0600, &err));
        free(bytes);
    }
    closedir(all);
}

static int setup(void **state) {
    static world w;
    fed_error err = {0};
    char token[FEDSERVER_TOKEN];
    w = (world){.first = {.step = 1}, .second = {.step = 4}};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    snprintf(w.first.directory, sizeof w.first.directory, "%s/first", w.directory);
    snprintf(w.second.directory, sizeof w.second.directory, "%s/second", w.directory);
    fed_coordinator_open(&w.home, w.directory, "home");
    start(&w, &w.first);
    fed_coordinator_token(&w.home, token);
    assert_fed_ok_err(fedclient_enrol(w.first.client, token, &err));
    stop(&w.first);
    copy_directory(w.first.directory, w.second.directory);
    start(&w, &w.first);
    start(&w, &w.second);
    (void)fed_operator_task(w.home.directory, w.directory, task_json);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    stop(&w->first);
    stop(&w->second);
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    return 0;
}

static fed_status find_clone(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    *(int *)user += entry->cloned_ms != 0;
    return FED_OK;
}

static int clones_known(const world *w) {
    fed_error err = {0};
    fedserver *other;
    int clones = 0;
    assert_fed_ok_err(fedserver_open(w->home.directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_device_each(other, fed_clock_unix_ms(), find_clone, &clones, &err));
    fedserver_close(other);
    return clones;
}

static void read_model(copy *c, float values[PARAMETERS]) {
    fed_error err = {0};
    uint64_t task;
    uint32_t version;
    size_t count;
    float *read;
    assert_fed_ok_err(fedclient_model(c->client, &task, &version, &read, &count, &err));
    assert_int_equal(count, PARAMETERS);
    memcpy(values, read, PARAMETERS * sizeof *values);
    free(read);
}

/* Both copies have the same lease, and the second one's update counts first. */
FED_TEST_WITH(what_a_clone_has_trained_is_refused_and_counted_later, world *w) {
    float before[PARAMETERS], after[PARAMETERS];
    w->first.then = &w->second;
    const fedclient_event refused = step_until(&w->first, FEDCLIENT_REFUSED);
    assert_int_equal(refused.round, 1);
    assert_in_range(refused.wait_ms, 30000, 60000);
    assert_int_equal(clones_known(w), 1);
    read_model(&w->first, before);

    assert_int_equal(step_until(&w->first, FEDCLIENT_COUNTED).round, 2);
    step_until(&w->first, FEDCLIENT_FINISHED);
    read_model(&w->first, after);
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(fabsf(after[i] - before[i] - 6.0f) < 1e-5f);
    }
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
