/* The rules for histories (support/fed_history.h) find planted faults, and only those. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_history.h"

enum { DEVICES = 3, ROUNDS = 4 };

/* A correct history. Device 0 gets each acknowledgement twice. */
static fed_history *sound(void) {
    fed_history *h = fed_history_new();
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (unsigned d = 0; d < DEVICES; d++) {
            fed_history_announced(h, d, round - 1, 100 + round - 1);
            for (unsigned times = 0; times <= (d == 0); times++) {
                fed_history_acknowledged(h, d, 10 * round + d, round, 7 * round + d);
            }
        }
        fed_history_committed(h, round, DEVICES);
        fed_history_stored(h, round, DEVICES);
    }
    return h;
}

static void assert_holds(fed_history *h) {
    char why[200] = "";
    if (!fed_history_holds(h, why, sizeof why)) {
        fail_msg("%s", why);
    }
    fed_history_free(h);
}

static void assert_broken(fed_history *h, const char *rule, const char *words) {
    char why[200] = "";
    assert_false(fed_history_holds(h, why, sizeof why));
    if (strncmp(why, rule, 2) != 0 || strstr(why, words) == NULL) {
        fail_msg("the checker did not find %s \"%s\", but: %s", rule, words, why);
    }
    fed_history_free(h);
}

FED_TEST(a_sound_history_holds) {
    assert_holds(sound());
    assert_holds(fed_history_new());
}

FED_TEST(a_lost_update_is_found) {
    fed_history *h = sound();
    fed_history_acknowledged(h, 1, 999, 2, 5);
    assert_broken(h, "H2", "round 2 counted 3 updates, 4 were acknowledged");
    h = sound();
    fed_history_acknowledged(h, 1, 999, 5, 5);
    assert_broken(h, "H2", "all rounds counted 12 updates, 13 were acknowledged");
}

FED_TEST(a_round_that_two_coordinators_commit_is_found) {
    fed_history *h = sound();
    fed_history_next_log(h);
    fed_history_stored(h, 5, 0);
    fed_history_committed(h, 5, 0);
    assert_holds(h);
    h = sound();
    fed_history_next_log(h);
    fed_history_committed(h, 2, DEVICES);
    assert_broken(h, "H3", "two coordinators have committed round 2");
}

FED_TEST(an_update_that_counts_twice_is_found) {
    fed_history *h = sound();
    fed_history_stored(h, 5, 1);
    assert_broken(h, "H2", "round 5 counted 1 updates, 0 were acknowledged");
}

FED_TEST(so_it_is_where_updates_count_in_any_round) {
    fed_history *h = fed_history_new();
    fed_history_acknowledged(h, 0, 1, 0, 5);
    fed_history_acknowledged(h, 1, 2, 0, 5);
    fed_history_stored(h, 1, 1);
    fed_history_stored(h, 2, 2);
    assert_broken(h, "H2", "all rounds counted 3 updates, 2 were acknowledged");
}

FED_TEST(two_messages_of_one_lease_are_found) {
    fed_history *h = sound();
    fed_history_acknowledged(h, 2, 12, 1, 999);
    assert_broken(h, "H1", "two messages of device 2");
    h = sound();
    fed_history_acknowledged(h, 1, 12, 1, 9);
    assert_broken(h, "H1", "acknowledged to devices");
}

FED_TEST(a_round_that_commits_again_is_found) {
    fed_history *h = sound();
    fed_history_committed(h, 4, DEVICES);
    assert_broken(h, "H3", "round 4 committed after round 4");
    h = sound();
    fed_history_committed(h, 5, DEVICES);
    assert_broken(h, "H3", "the store has 0 such rounds");
    h = sound();
    fed_history_stored(h, 4, 0);
    assert_broken(h, "H2", "round 4 counted 0 updates");
}

FED_TEST(a_fork_is_found) {
    fed_history *h = sound();
    fed_history_announced(h, 2, 3, 999);
    assert_broken(h, "H4", "version 3 had two contents");
}

FED_TEST(a_device_that_is_sent_back_is_found) {
    fed_history *h = sound();
    fed_history_announced(h, 1, 2, 102);
    assert_broken(h, "H5", "device 1 was sent to version 2 after version 3");
}

FED_TEST(a_coordinators_log_is_read) {
    static const char log[] =
        "front https://127.0.0.1:1/  devices https://127.0.0.1:2\n"
        "2026-11-26T02:26:53Z INFO task 1 (t): round 1: committed with 2 updates, loss 2.4\n"
        "2026-11-26T02:26:53Z WARN task 1 (t): round 2: attempt 1 is abandoned\n"
        "2026-11-26T02:26:54Z INFO task 1 (t): round 2: committed with 1 updates, loss 2.4\n";
    char folder[256], path[300];
    fed_history *h = fed_history_new();
    fed_test_tmpdir(folder, sizeof folder);
    fed_test_put(folder, "log", log, sizeof log - 1);
    snprintf(path, sizeof path, "%s/log", folder);
    assert_true(fed_history_read_log(h, path));
    fed_history_acknowledged(h, 0, 1, 1, 1);
    fed_history_acknowledged(h, 1, 2, 1, 1);
    fed_history_stored(h, 1, 2);
    char why[200];
    assert_false(fed_history_holds(h, why, sizeof why));
    assert_string_equal(why, "H3: the log said that round 2 committed with 1 updates; the store "
                             "has 0 such rounds");
    fed_history_acknowledged(h, 0, 3, 2, 1);
    fed_history_stored(h, 2, 1);
    assert_false(fed_history_read_log(h, "/nowhere/log"));
    fed_test_rmdir(folder);
    assert_holds(h);
}
