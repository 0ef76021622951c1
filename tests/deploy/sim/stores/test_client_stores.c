/* The stores of simulated clients: values of each client, shared models, and one file for all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deploy/sim/stores/client_stores.h"
#include "fed_device.h"
#include "fed_test.h"

enum { CLIENTS = 5, LARGE = 50000, MEMORY = 80000, HEAD = 40 };

typedef struct world {
    char directory[64], path[96];
    size_t memory;
    sim_stores *stores;
    fedclient_platform platform[CLIENTS];
    uint8_t large[LARGE + 16];
} world;

static void open_flash(world *w, bool resume) {
    fed_error err = {0};
    assert_fed_ok_err(sim_stores_open(w->path, CLIENTS, resume, w->memory, &w->stores, &err));
    for (uint32_t k = 0; k < CLIENTS; k++) {
        sim_stores_platform(w->stores, k, &w->platform[k]);
    }
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    snprintf(w->directory, sizeof w->directory, "/tmp/fed-stores-XXXXXX");
    assert_non_null(mkdtemp(w->directory));
    snprintf(w->path, sizeof w->path, "%s/clients", w->directory);
    for (size_t i = 0; i < sizeof w->large; i++) {
        w->large[i] = (uint8_t)(i * 7 + i / 256);
    }
    w->memory = MEMORY;
    open_flash(w, false);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    sim_stores_close(w->stores);
    (void)unlink(w->path);
    assert_int_equal(rmdir(w->directory), 0);
    free(w);
    return 0;
}

static void put(const fedclient_platform *p, const char *key, const void *data, size_t len) {
    fed_error err = {0};
    assert_fed_ok_err(p->put(p->user, key, data, len, &err));
}

static void assert_value(const fedclient_platform *p, const char *key, const void *value,
                         size_t size) {
    uint8_t *data = NULL;
    const uint8_t *lent = NULL;
    size_t len = 0;
    assert_fed_ok(p->get(p->user, key, &data, &len, NULL));
    assert_int_equal(len, size);
    assert_memory_equal(data, value, len);
    free(data);
    assert_fed_ok(p->memory->lend(p->user, key, &lent, &len, NULL));
    assert_int_equal(len, size);
    assert_memory_equal(lent, value, len);
}

static void assert_none(const fedclient_platform *p, const char *key) {
    uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_status(p->get(p->user, key, &data, &len, NULL), FED_ENOTFOUND);
}

static const uint8_t *lent(const fedclient_platform *p, const char *key) {
    const uint8_t *data = NULL;
    size_t len = 0;
    assert_fed_ok(p->memory->lend(p->user, key, &data, &len, NULL));
    return data;
}

static void every_client_has_values_of_its_own(void **state) {
    world *w = *state;
    put(&w->platform[0], "residual", w->large, LARGE);
    put(&w->platform[0], "pending", "one", 3);
    put(&w->platform[1], "residual", w->large + 1, LARGE - 1);
    assert_value(&w->platform[0], "residual", w->large, LARGE);
    assert_value(&w->platform[0], "pending", "one", 3);
    assert_value(&w->platform[1], "residual", w->large + 1, LARGE - 1);
    assert_none(&w->platform[1], "pending");
    assert_none(&w->platform[2], "residual");
}

static void a_value_is_replaced_by_one_of_any_size(void **state) {
    world *w = *state;
    static const size_t sizes[] = {LARGE, 3, 0, 8192, LARGE / 2, 8193, LARGE, 1};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        put(&w->platform[0], "pending", w->large + k, sizes[k]);
        assert_value(&w->platform[0], "pending", w->large + k, sizes[k]);
    }
    assert_fed_ok(w->platform[0].drop(w->platform[0].user, "pending", NULL));
    assert_fed_ok(w->platform[0].drop(w->platform[0].user, "pending", NULL));
    assert_none(&w->platform[0], "pending");
}

static void a_room_is_given_without_a_copy_and_its_place_used_again(void **state) {
    world *w = *state;
    const fedclient_platform *p = &w->platform[0];
    uint8_t *first = p->memory->room(p->user, LARGE), *other = p->memory->room(p->user, LARGE);
    assert_true(first != NULL && other != NULL && first != other);
    assert_int_equal((uintptr_t)first % 64, 0);
    memcpy(first, w->large, LARGE);
    memcpy(other, w->large, LARGE);
    assert_fed_ok(p->memory->give(p->user, "residual", first, LARGE, NULL));
    assert_ptr_equal(lent(p, "residual"), first);
    assert_fed_ok(p->memory->give(p->user, "residual", other, LARGE, NULL));
    assert_ptr_equal(p->memory->room(p->user, LARGE - 100), first);
    p->memory->leave(p->user, first);
    assert_ptr_equal(p->memory->room(p->user, LARGE), first);
    p->memory->leave(p->user, first);
}

static void what_is_edited_is_changed_but_never_a_model(void **state) {
    world *w = *state;
    const fedclient_platform *p = &w->platform[0];
    uint8_t *data = NULL;
    size_t len = 0;
    put(p, "residual", w->large, LARGE);
    put(p, "model", w->large, LARGE);
    assert_fed_ok(p->memory->edit(p->user, "residual", &data, &len, NULL));
    data[LARGE - 1] ^= 1;
    w->large[LARGE - 1] ^= 1;
    assert_value(p, "residual", w->large, LARGE);
    assert_fed_status(p->memory->edit(p->user, "model", &data, &len, NULL), FED_ENOTFOUND);
    assert_fed_status(p->memory->edit(p->user, "none", &data, &len, NULL), FED_ENOTFOUND);
}

static void equal_models_are_kept_once_while_somebody_holds_them(void **state) {
    world *w = *state;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        put(&w->platform[k], "model", w->large, LARGE);
    }
    assert_int_equal(sim_stores_models(w->stores), 1);
    assert_ptr_equal(lent(&w->platform[0], "model"), lent(&w->platform[4], "model"));
    w->large[20]++;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        put(&w->platform[k], "model", w->large, LARGE);
        assert_int_equal(sim_stores_models(w->stores), k + 1 < CLIENTS ? 2 : 1);
        assert_value(&w->platform[k], "model", w->large, LARGE);
    }
    for (uint32_t k = 0; k < CLIENTS; k++) {
        assert_fed_ok(w->platform[k].drop(w->platform[k].user, "model", NULL));
    }
    assert_int_equal(sim_stores_models(w->stores), 0);
}

static void models_that_only_begin_alike_stay_apart(void **state) {
    world *w = *state;
    put(&w->platform[0], "model", w->large, LARGE);
    put(&w->platform[1], "model", w->large, LARGE - 1);
    w->large[LARGE - 1]++;
    put(&w->platform[2], "model", w->large, LARGE);
    assert_int_equal(sim_stores_models(w->stores), 3);
    assert_value(&w->platform[2], "model", w->large, LARGE);
    w->large[LARGE - 1]--;
    assert_value(&w->platform[0], "model", w->large, LARGE);
}

static void a_model_that_another_client_holds_is_adopted(void **state) {
    world *w = *state;
    const fedclient_platform *p = &w->platform[1];
    assert_fed_status(p->memory->adopt(p->user, "model", w->large, 64), FED_ENOTFOUND);
    put(&w->platform[0], "model", w->large, LARGE);
    put(&w->platform[0], "residual", w->large, LARGE);
    put(p, "model", w->large + 1, LARGE - 1);
    assert_fed_status(p->memory->adopt(p->user, "residual", w->large, 64), FED_ENOTFOUND);
    assert_fed_status(p->memory->adopt(p->user, "model", w->large + 2, 64), FED_ENOTFOUND);
    assert_fed_ok(p->memory->adopt(p->user, "model", w->large, 64));
    assert_int_equal(sim_stores_models(w->stores), 1);
    assert_ptr_equal(lent(p, "model"), lent(&w->platform[0], "model"));
    put(&w->platform[0], "model", "small", 5);
    assert_value(p, "model", w->large, LARGE);
}

static void an_optimizers_state_begins_with_zeros(void **state) {
    world *w = *state;
    float *first = NULL, *again = NULL;
    put(&w->platform[0], "residual", w->large, LARGE);
    put(&w->platform[0], "residual", w->large, 3);
    assert_fed_ok(sim_stores_optimizer(w->stores, 0, LARGE / 4, &first, NULL));
    for (size_t i = 0; i < LARGE / 4; i++) {
        assert_true(first[i] == 0);
        first[i] = 1;
    }
    assert_fed_ok(sim_stores_optimizer(w->stores, 0, LARGE / 4, &again, NULL));
    assert_ptr_equal(again, first);
    assert_fed_ok(sim_stores_optimizer(w->stores, 0, LARGE / 4 - 1, &again, NULL));
    for (size_t i = 0; i < LARGE / 4 - 1; i++) {
        assert_true(again[i] == 0);
    }
}

static void fill(world *w) {
    float *optimizer = NULL;
    put(&w->platform[0], "identity", "key", 3);
    put(&w->platform[0], "model", w->large, LARGE);
    put(&w->platform[1], "model", w->large, LARGE);
    put(&w->platform[1], "residual", w->large + 1, LARGE - 1);
    put(&w->platform[2], "residual", w->large, LARGE);
    assert_fed_ok(w->platform[2].drop(w->platform[2].user, "residual", NULL));
    assert_fed_ok(sim_stores_optimizer(w->stores, 3, 1000, &optimizer, NULL));
    optimizer[999] = 0.5f;
}

static void assert_filled(world *w) {
    float *optimizer = NULL;
    assert_value(&w->platform[0], "identity", "key", 3);
    assert_value(&w->platform[0], "model", w->large, LARGE);
    assert_ptr_equal(lent(&w->platform[0], "model"), lent(&w->platform[1], "model"));
    assert_value(&w->platform[1], "residual", w->large + 1, LARGE - 1);
    assert_none(&w->platform[2], "residual");
    assert_int_equal(sim_stores_models(w->stores), 1);
    assert_fed_ok(sim_stores_optimizer(w->stores, 3, 1000, &optimizer, NULL));
    assert_true(optimizer[0] == 0 && optimizer[999] == 0.5f);
}

static void close_flash(world *w) {
    sim_stores_close(w->stores);
    w->stores = NULL;
}

static void what_was_synced_is_there_again(void **state) {
    static const size_t memory[] = {0, 5000, MEMORY, (size_t)1 << 30};
    world *w = *state;
    fill(w);
    for (int k = 0; k < 9; k++) {
        assert_fed_ok(sim_stores_sync(w->stores, NULL));
        assert_fed_ok(sim_stores_sync(w->stores, NULL));
        close_flash(w);
        w->memory = memory[k % 4];
        open_flash(w, true);
        if (k > 0) {
            assert_filled(w);
        }
    }
    struct stat before, after;
    assert_int_equal(stat(w->path, &before), 0);
    put(&w->platform[4], "residual", w->large, LARGE);
    assert_int_equal(stat(w->path, &after), 0);
    assert_true(after.st_size <= before.st_size);
    assert_filled(w);
    assert_value(&w->platform[4], "residual", w->large, LARGE);
}

static void assert_refused(world *w, uint32_t clients, fed_status wanted, const char *word) {
    fed_error err = {0};
    sim_stores *stores = NULL;
    assert_fed_status(sim_stores_open(w->path, clients, true, MEMORY, &stores, &err), wanted);
    assert_non_null(strstr(err.text, word));
}

static void a_run_that_was_killed_can_not_be_resumed(void **state) {
    world *w = *state;
    fill(w);
    assert_refused(w, CLIENTS, FED_EBUSY, "in use");
    close_flash(w);
    assert_refused(w, CLIENTS, FED_EFORMAT, "killed");
    open_flash(w, false);
    fill(w);
    assert_fed_ok(sim_stores_sync(w->stores, NULL));
    put(&w->platform[0], "pending", "new", 3);
    close_flash(w);
    assert_refused(w, CLIENTS, FED_EFORMAT, "killed");
}

static void every_change_after_a_sync_counts(void **state) {
    world *w = *state;
    for (unsigned how = 0; how < 5; how++) {
        const fedclient_platform *p = &w->platform[2];
        uint8_t *data = NULL;
        float *optimizer = NULL;
        size_t len = 0;
        fill(w);
        assert_fed_ok(sim_stores_sync(w->stores, NULL));
        if (how == 0) {
            assert_fed_ok(p->memory->adopt(p->user, "model", w->large, 64));
        } else if (how == 1) {
            p = &w->platform[1];
            assert_fed_ok(p->memory->edit(p->user, "residual", &data, &len, NULL));
        } else if (how == 2) {
            assert_fed_ok(w->platform[0].drop(w->platform[0].user, "model", NULL));
        } else if (how == 3) {
            assert_fed_ok(sim_stores_optimizer(w->stores, 3, 1000, &optimizer, NULL));
        } else {
            assert_non_null(p->memory->room(p->user, 10));
        }
        close_flash(w);
        assert_refused(w, CLIENTS, FED_EFORMAT, "killed");
        open_flash(w, false);
    }
}

static void other_files_are_refused(void **state) {
    world *w = *state;
    fed_error err = {0};
    fill(w);
    assert_fed_ok(sim_stores_sync(w->stores, NULL));
    close_flash(w);
    assert_refused(w, CLIENTS + 1, FED_EINVAL, "5 clients, not 6");
    int fd = open(w->path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "\3", 1, 8), 1);
    assert_refused(w, CLIENTS, FED_EVERSION, "format 3");
    assert_int_equal(pwrite(fd, "other", 5, 0), 5);
    assert_refused(w, CLIENTS, FED_EFORMAT, "is not a file of clients' stores");
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_refused(w, CLIENTS, FED_EFORMAT, "is not a file of clients' stores");
    close(fd);
    assert_int_equal(unlink(w->path), 0);
    assert_refused(w, CLIENTS, FED_ENOTFOUND, w->path);
    assert_fed_status(sim_stores_open(NULL, CLIENTS, true, 0, &w->stores, &err), FED_EINVAL);
}

static void damage_is_noticed(void **state) {
    world *w = *state;
    struct stat about;
    fill(w);
    assert_fed_ok(sim_stores_sync(w->stores, NULL));
    close_flash(w);
    int fd = open(w->path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &about), 0);
    unsigned damaged = 0;
    for (off_t at = 0; at < about.st_size; at += at < HEAD ? 1 : 509) {
        uint8_t was, is;
        assert_int_equal(pread(fd, &was, 1, at), 1);
        is = was ^ 0x10;
        assert_int_equal(pwrite(fd, &is, 1, at), 1);
        fed_error err = {0};
        fed_status status = sim_stores_open(w->path, CLIENTS, true, MEMORY, &w->stores, &err);
        assert_true(status == FED_OK || status == FED_EFORMAT || status == FED_EVERSION ||
                    status == FED_EINVAL);
        assert_true(status != FED_OK || at >= HEAD);
        damaged += status != FED_OK;
        close_flash(w);
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }
    assert_true(damaged > (unsigned)(2 * LARGE / 509));
    assert_int_equal(ftruncate(fd, about.st_size - 1), 0);
    assert_refused(w, CLIENTS, FED_EFORMAT, "damaged");
    close(fd);
    open_flash(w, false);
}

static void a_client_does_its_task_on_it(void) {
    static const char *const codecs[] = {"sbc:p=0.1", "float32", "3lc:s=1"};
    sim_stores *stores = NULL;
    assert_fed_ok(sim_stores_open(NULL, 3, false, 0, &stores, NULL));
    for (uint32_t k = 0; k < 3; k++) {
        fed_device device;
        fedclient_platform platform;
        fedclient_event event;
        fed_device_open(&device, codecs[k], 3);
        fedclient_close(device.client);
        sim_stores_platform(stores, k, &platform);
        device.options.platform = &platform;
        fed_fake_close(&device.fake);
        fed_fake_open(&device.fake, "input 8 | dense 3", codecs[k], 3);
        assert_fed_ok_err_of(&device, fedclient_open(&device.options, &device.client, &device.err));
        assert_fed_ok_err_of(&device, fedclient_enrol(device.client, "good-token", &device.err));
        for (int turn = 0; turn < 3; turn++) {
            assert_fed_ok_err_of(&device, fedclient_step(device.client, &event, &device.err));
            assert_int_equal(event.outcome, FEDCLIENT_COUNTED);
            for (size_t i = 0; i < device.fake.arch.layout.size; i++) {
                device.trained[i] += device.last[i];
            }
        }
        float *owed = fed_owed(&platform, &device.fake.arch.layout);
        for (size_t i = 0; i < device.fake.arch.layout.size; i++) {
            float sum = device.fake.counted[i] + owed[i];
            assert_true(sum - device.trained[i] < 1e-6f && device.trained[i] - sum < 1e-6f);
        }
        free(owed);
        fed_device_close(&device);
    }
    sim_stores_close(stores);
}

enum { CROWD = 10000, THREADS = 4, VALUES = 2500 };

typedef struct worker {
    sim_stores *stores;
    uint32_t first;
} worker;

static void *work(void *argument) {
    const worker *w = argument;
    float values[VALUES] = {0};
    for (uint32_t version = 1; version <= 3; version++) {
        for (uint32_t k = w->first; k < CROWD; k += THREADS) {
            fedclient_platform p;
            sim_stores_platform(w->stores, k, &p);
            values[0] = (float)version;
            if (p.memory->adopt(p.user, "model", values, 64) != FED_OK) {
                assert_fed_ok(p.put(p.user, "model", values, sizeof values, NULL));
            }
            values[0] = (float)k;
            assert_fed_ok(p.put(p.user, "residual", values, sizeof values, NULL));
            assert_fed_ok(p.put(p.user, "pending", &k, sizeof k, NULL));
        }
    }
    return NULL;
}

static void ten_thousand_clients_of_several_threads_do_not_mix(void) {
    pthread_t thread[THREADS];
    worker workers[THREADS];
    sim_stores *stores = NULL;
    assert_fed_ok(sim_stores_open(NULL, CROWD, false, (size_t)1 << 20, &stores, NULL));
    for (uint32_t t = 0; t < THREADS; t++) {
        workers[t] = (worker){stores, t};
        assert_int_equal(pthread_create(&thread[t], NULL, work, &workers[t]), 0);
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
    }
    assert_int_equal(sim_stores_models(stores), 1);
    for (uint32_t k = 0; k < CROWD; k++) {
        fedclient_platform p;
        float first;
        sim_stores_platform(stores, k, &p);
        memcpy(&first, lent(&p, "residual"), sizeof first);
        assert_true(first == (float)k);
        assert_memory_equal(lent(&p, "pending"), &k, sizeof k);
        memcpy(&first, lent(&p, "model"), sizeof first);
        assert_true(first == 3);
    }
    sim_stores_close(stores);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        test(every_client_has_values_of_its_own),
        test(a_value_is_replaced_by_one_of_any_size),
        test(a_room_is_given_without_a_copy_and_its_place_used_again),
        test(what_is_edited_is_changed_but_never_a_model),
        test(equal_models_are_kept_once_while_somebody_holds_them),
        test(models_that_only_begin_alike_stay_apart),
        test(a_model_that_another_client_holds_is_adopted),
        test(an_optimizers_state_begins_with_zeros),
        test(what_was_synced_is_there_again),
        test(a_run_that_was_killed_can_not_be_resumed),
        test(every_change_after_a_sync_counts),
        test(other_files_are_refused),
        test(damage_is_noticed),
        fed_unit_test(a_client_does_its_task_on_it),
        fed_unit_test(ten_thousand_clients_of_several_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
