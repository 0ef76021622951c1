/* Conditions for training, such as mains power, with made-up power supplies and a made-up
 * busctl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/eligibility.h"

#include <sys/stat.h>

#include "fed/file.h"
#include "fed_cases.h"

typedef struct world {
    char directory[256];
    fedclient_conditions conditions;
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    w->conditions.power = w->directory;
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void write_file(const world *w, const char *name, const char *text, unsigned mode) {
    char path[1000];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", w->directory, name);
    assert_fed_ok_err(fed_file_replace(path, text, strlen(text), mode, &err));
}

/** Add a power supply. attributes: "type=Battery status=Charging". */
static void add_supply(const world *w, const char *name, const char *attributes) {
    char path[600], copy[200];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", w->directory, name);
    assert_fed_ok_err(fed_dir_make(path, 0700, &err));
    snprintf(copy, sizeof copy, "%s", attributes);
    char *rest = copy;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        char *value = strchr(word, '=');
        *value = '\0';
        char line[64];
        snprintf(path, sizeof path, "%.100s/%.100s", name, word);
        snprintf(line, sizeof line, "%s\n", value + 1);
        write_file(w, path, line, 0600);
    }
}

/** Check a condition. text: the condition; says: why it does not hold; NULL: it holds. */
static void expect(world *w, const char *text, const char *says) {
    fed_error err = {0};
    fedclient_conditions c = w->conditions;
    assert_fed_ok_err(fedclient_conditions_parse(text, &c, &err));
    fed_status status = fedclient_conditions_hold(&c, &err);
    if (says == NULL) {
        assert_fed_ok_err(status);
    } else {
        assert_fed_status(status, FED_EBUSY);
        assert_non_null(strstr(err.text, says));
    }
}

FED_TEST_WITH(a_machine_without_a_battery_charges_always, world *w) {
    expect(w, "charging", NULL);
    w->conditions.power = "/nowhere/at/all";
    expect(w, "charging", NULL);
}

FED_TEST_WITH(a_battery_that_is_used_up_does_not_charge, world *w) {
    add_supply(w, "AC", "type=Mains online=0");
    add_supply(w, "BAT0", "type=Battery status=Discharging capacity=64");
    expect(w, "charging", "this device is not charging (its battery is at 64 %)");
}

FED_TEST_WITH(external_power_counts_also_with_a_full_battery, world *w) {
    add_supply(w, "AC", "type=Mains online=1");
    add_supply(w, "BAT0", "type=Battery status=Not_charging capacity=80");
    expect(w, "charging", NULL);
}

FED_TEST_WITH(a_battery_that_charges_counts, world *w) {
    add_supply(w, "battery", "type=Battery status=Charging capacity=10");
    expect(w, "charging", NULL);
}

FED_TEST_WITH(a_mouse_has_no_say, world *w) {
    add_supply(w, "hidpp_battery_0", "type=Battery scope=Device status=Discharging");
    expect(w, "charging", NULL);
}

FED_TEST_WITH(a_file_that_a_script_makes_decides, world *w) {
    char text[300];
    snprintf(text, sizeof text, "file:%s/go", w->directory);
    expect(w, text, "/go is not there");
    write_file(w, "go", "", 0600);
    expect(w, text, NULL);
}

static void make_busctl(const world *w, const char *script) {
    char path[1000];
    write_file(w, "busctl", script, 0700);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", w->directory);
    assert_int_equal(setenv("PATH", path, 1), 0);
}

FED_TEST_WITH(a_metered_network_is_left_alone, world *w) {
    static const struct {
        const char *script, *says;
    } cases[] = {{"#!/bin/sh\necho u 1\n", "the network is metered"},
                 {"#!/bin/sh\necho u 2\n", NULL},
                 {"#!/bin/sh\necho u 3\n", "the network is metered"},
                 {"#!/bin/sh\necho u 4\n", NULL},
                 {"#!/bin/sh\necho u 0\n", "does not say whether"},
                 {"#!/bin/sh\necho u 2\nexit 1\n", "does not say whether"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        make_busctl(w, cases[k].script);
        expect(w, "unmetered", cases[k].says);
    }
}

FED_TEST_WITH(a_device_in_use_is_left_alone, world *w) {
    make_busctl(w, "#!/bin/sh\ncase \"$*\" in *IdleHint*) echo b false;; *) echo u 2;; esac\n");
    expect(w, "unmetered,idle", "somebody uses this device");
    make_busctl(w, "#!/bin/sh\ncase \"$*\" in *IdleHint*) echo b true;; *) echo u 2;; esac\n");
    expect(w, "unmetered,idle", NULL);
    assert_int_equal(setenv("PATH", "/nowhere", 1), 0);
    expect(w, "idle", "does not say whether somebody uses");
}

FED_TEST(unknown_conditions_are_refused) {
    static const char *const texts[] = {"", "sleeping", "charging,", "file:", "charging idle"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        fed_error err = {0};
        fedclient_conditions c = {0};
        assert_fed_status(fedclient_conditions_parse(texts[k], &c, &err), FED_EINVAL);
        assert_non_null(strstr(err.text, "write charging, unmetered, idle or file:PATH"));
    }
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
