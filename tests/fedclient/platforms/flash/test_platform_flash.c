/* The store on flash: power fails in each program and each erase, and no value may be lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "nor_flash.h"

enum { KEYS = 4, LONGEST = 900, BLOCKS = 19 };

static const char *const keys[KEYS] = {"identity", "model", "residual", "pending"};

/* What the store must hold: for each key a number, from which its value is made; 0: no value. */
typedef struct shadow {
    uint32_t value[KEYS];
} shadow;

typedef struct world {
    nor_flash nor;
    fedclient_platform p;
    shadow holds;
    uint32_t steps;
    fed_error err;
} world;

static void open_store(world *w) {
    assert_fed_ok(fedclient_platform_flash_open(&w->nor.port, &w->p, &w->err));
}

static void begin(world *w, uint32_t blocks, uint32_t block_bytes, uint32_t unit_bytes) {
    *w = (world){.steps = 0};
    nor_flash_new(&w->nor, blocks, block_bytes, unit_bytes);
    open_store(w);
}

static void end(world *w) {
    fedclient_platform_flash_close(&w->p);
    nor_flash_free(&w->nor);
}

static size_t make(uint32_t value, uint8_t data[LONGEST]) {
    fed_rng rng;
    fed_rng_init(&rng, value, 0, 0);
    const size_t len = value % 7 == 0 ? 0 : fed_rng_below(&rng, LONGEST);
    for (size_t k = 0; k < len; k++) {
        data[k] = (uint8_t)fed_rng_u32(&rng);
    }
    return len;
}

static fed_status put(world *w, size_t key, uint32_t value) {
    uint8_t data[LONGEST];
    const size_t len = make(value, data);
    return w->p.put(w->p.user, keys[key], data, len, &w->err);
}

static bool holds(world *w, size_t key, uint32_t value) {
    uint8_t right[LONGEST], *data = NULL;
    size_t len = 0;
    const fed_status status = w->p.get(w->p.user, keys[key], &data, &len, &w->err);
    const bool same =
        value == 0 ? status == FED_ENOTFOUND
                   : status == FED_OK && len == make(value, right) && memcmp(data, right, len) == 0;
    free(data);
    return same;
}

static void assert_holds(world *w, const shadow *wanted) {
    for (size_t key = 0; key < KEYS; key++) {
        assert_true(holds(w, key, wanted->value[key]));
    }
}

/* Make the next change. Returns false if the flash fails. */
static bool change(world *w, shadow *after) {
    fed_rng rng;
    const uint32_t value = ++w->steps;
    fed_rng_init(&rng, 11, value, 0);
    const size_t key = fed_rng_below(&rng, KEYS);
    const bool drops = fed_rng_below(&rng, 8) == 0;
    *after = w->holds;
    after->value[key] = drops ? 0 : value;
    const fed_status status = drops ? w->p.drop(w->p.user, keys[key], &w->err) : put(w, key, value);
    if (status == FED_OK) {
        w->holds = *after;
    }
    return status == FED_OK;
}

/* Check each value after a power cut. The value being changed may be the old or the new one. */
static void recover(world *w, const shadow *after) {
    fedclient_platform_flash_close(&w->p);
    nor_flash_power(&w->nor, 0);
    open_store(w);
    for (size_t key = 0; key < KEYS; key++) {
        if (holds(w, key, after->value[key])) {
            w->holds.value[key] = after->value[key];
        }
    }
    assert_holds(w, &w->holds);
}

FED_TEST(whatever_program_or_erase_is_cut_the_old_or_the_new_is_there) {
    enum { STEPS = 100 };
    world w;
    shadow after;
    bool cut = true;
    uint32_t cuts = 0, erases = 0;
    for (uint64_t at = 1; cut; at++) {
        begin(&w, BLOCKS, 512, 8);
        nor_flash_power(&w.nor, at);
        cut = false;
        while (w.steps < STEPS) {
            if (!change(&w, &after)) {
                assert_true(w.nor.dead && !cut);
                recover(&w, &after);
                cut = true;
            }
        }
        assert_holds(&w, &w.holds);
        fedclient_platform_flash_close(&w.p);
        open_store(&w);
        assert_holds(&w, &w.holds);
        cuts += cut;
        erases = w.nor.erased[0];
        end(&w);
    }
    assert_true(cuts > 300);
    assert_true(erases > 3);
}

/* Power fails every few calls for long, also while the store makes room. The store must neither
 * lose a value nor run out of room. */
FED_TEST(power_that_fails_again_and_again_wastes_no_room) {
    static const uint32_t units[] = {1, 8, 32, 64};
    for (size_t k = 0; k < sizeof units / sizeof units[0]; k++) {
        world w;
        shadow after;
        fed_rng rng;
        uint32_t cuts = 0;
        begin(&w, BLOCKS, 512, units[k]);
        fed_rng_init(&rng, 5, units[k], 0);
        while (w.steps < 3000) {
            nor_flash_power(&w.nor, 1 + fed_rng_below(&rng, 12));
            while (change(&w, &after)) {
            }
            assert_true(w.nor.dead);
            recover(&w, &after);
            cuts++;
        }
        assert_true(cuts > 1000);
        end(&w);
    }
}

FED_TEST(a_call_that_fails_leaves_a_store_that_works) {
    world w;
    shadow after;
    uint32_t failed = 0;
    begin(&w, BLOCKS, 512, 8);
    while (w.steps < 1500) {
        w.nor.fail_at = w.nor.calls + 1 + w.steps % 9;
        w.err.text[0] = '\0';
        if (!change(&w, &after)) {
            assert_holds(&w, &w.holds);
            assert_true(w.err.text[0] != '\0');
            failed++;
        }
    }
    assert_true(failed > 300);
    assert_holds(&w, &w.holds);
    end(&w);
}

FED_TEST(all_blocks_wear_alike) {
    world w;
    begin(&w, 40, 512, 8);
    assert_fed_ok(put(&w, 0, 2));
    for (uint32_t k = 0; k < 3000; k++) {
        assert_fed_ok(put(&w, 2, 1000 + k));
    }
    for (uint32_t k = 1; k < w.nor.port.blocks; k++) {
        assert_in_range(w.nor.erased[k] + 1, w.nor.erased[0], w.nor.erased[0] + 1);
    }
    assert_true(w.nor.erased[0] > 50);
    assert_true(holds(&w, 0, 2));
    end(&w);
}

FED_TEST(a_worn_flash_is_noticed) {
    world w;
    begin(&w, 16, 512, 8);
    assert_fed_ok(put(&w, 1, 1));
    w.nor.stuck = true;
    assert_fed_status(put(&w, 1, 2), FED_EIO);
    assert_fed_says(w.err, "worn");
    assert_true(holds(&w, 1, 1));
    end(&w);
}

FED_TEST(damaged_bytes_are_noticed) {
    world w;
    uint8_t *data = NULL;
    size_t len = 0;
    begin(&w, 16, 512, 8);
    assert_fed_ok(put(&w, 1, 1));
    w.nor.byte[FEDCLIENT_FLASH_PAGE] ^= 4;
    assert_fed_status(w.p.get(w.p.user, keys[1], &data, &len, &w.err), FED_EFORMAT);
    assert_fed_says(w.err, "damaged");
    assert_null(data);
    end(&w);
}

FED_TEST(what_does_not_fit_is_refused_and_the_rest_stays) {
    static uint8_t large[4000];
    world w;
    begin(&w, 16, 512, 8);
    assert_fed_ok(put(&w, 1, 1));
    assert_fed_status(w.p.put(w.p.user, "residual", large, sizeof large, &w.err), FED_ENOSPC);
    assert_fed_says(w.err, "16 blocks of 512 bytes");
    assert_fed_ok(w.p.put(w.p.user, "residual", large, 1500, &w.err));
    assert_fed_status(w.p.put(w.p.user, "model", large, 2000, &w.err), FED_ENOSPC);
    assert_true(holds(&w, 1, 1));
    assert_fed_ok(w.p.drop(w.p.user, "residual", &w.err));
    assert_fed_ok(w.p.put(w.p.user, "model", large, 2000, &w.err));
    end(&w);
}

FED_TEST(there_are_sixteen_keys_at_a_time) {
    world w;
    char key[8];
    begin(&w, 64, 512, 8);
    for (int k = 0; k < FEDCLIENT_FLASH_KEYS; k++) {
        snprintf(key, sizeof key, "key%d", k);
        assert_fed_ok(w.p.put(w.p.user, key, "x", 1, &w.err));
    }
    assert_fed_status(w.p.put(w.p.user, "another", "x", 1, &w.err), FED_ENOSPC);
    assert_fed_ok(w.p.drop(w.p.user, "key3", &w.err));
    assert_fed_ok(w.p.put(w.p.user, "another", "x", 1, &w.err));
    fedclient_platform_flash_close(&w.p);
    open_store(&w);
    assert_fed_status(w.p.put(w.p.user, "key3", "x", 1, &w.err), FED_ENOSPC);
    assert_fed_status(w.p.put(w.p.user, "", "x", 1, &w.err), FED_EINVAL);
    end(&w);
}

FED_TEST(a_geometry_that_will_not_do_is_refused) {
    static const fedclient_flash bad[] = {{.block_bytes = 512, .blocks = 3, .unit_bytes = 1},
                                          {.block_bytes = 256, .blocks = 8, .unit_bytes = 1},
                                          {.block_bytes = 600, .blocks = 8, .unit_bytes = 1},
                                          {.block_bytes = 512, .blocks = 8, .unit_bytes = 128},
                                          {.block_bytes = 512, .blocks = 8, .unit_bytes = 12},
                                          {.block_bytes = 512, .blocks = 8, .unit_bytes = 0}};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        fedclient_platform p = {0};
        fed_error err = {0};
        assert_fed_status(fedclient_platform_flash_open(&bad[k], &p, &err), FED_EINVAL);
        assert_fed_says(err, "fedclient/flash.h");
    }
}
