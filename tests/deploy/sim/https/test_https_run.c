/* fedsim with a coordinator that is not its own: real TLS, enrolment, rounds; what is told when it
 * can't be. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <stdio.h>
#include <string.h>

#include "fed/file.h"
#include "fed_coordinator.h"
#include "fed_digits.h"
#include "fed_port.h"
#include "fed_program.h"

enum { CLIENTS = 3, ROUNDS = 4 };

static fed_program sim;
static fed_coordinator coordinator;

static void write_tokens(const char *name, size_t count) {
    char text[1000] = "# a token enrols once\n\n";
    for (size_t k = 0; k < count; k++) {
        char token[FEDSERVER_TOKEN];
        fed_coordinator_token(&coordinator, token);
        strcat(strcat(text, token), "\n");
    }
    fed_test_put(sim.directory, name, text, strlen(text));
}

static void add_task(void) {
    static const char task[] = "{ \"model\": \"lr\", \"rounds\": 4, \"cohort\": 3, \"goal\": 3,\n"
                               "  \"codec_up\": \"float32\", \"local_steps\": 2, \"batch\": 4 }\n";
    char out[1000];
    fed_test_put(sim.directory, "task.json", task, sizeof task - 1);
    assert_int_equal(fed_test_run(sim.directory, "fedserver", "task --dir coordinator task.json",
                                  out, sizeof out),
                     0);
}

/** Run fedsim with the coordinator at this port, and other words; it says `says`. */
static void join(unsigned port, const char *tokens, const char *more, int status,
                 const char *says) {
    char args[600];
    snprintf(args, sizeof args,
             "run data=. clients=3 server=https://127.0.0.1:%u tokens=%s ca=coordinator/ca.pem %s",
             port, tokens, more);
    assert_runs(&sim, args, status, says);
}

static void assert_file_has(const char *name, const char *words) {
    char path[600];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", sim.directory, name);
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &data, &len, &err));
    if (strstr((const char *)data, words) == NULL) {
        fail_msg("%s lacks %s: %s", name, words, (const char *)data);
    }
    free(data);
}

FED_TEST(clients_take_part_in_the_task_of_a_coordinator_of_ones_own) {
    write_tokens("tokens", CLIENTS);
    add_task();
    join(coordinator.front, "tokens", "--out own", 0, "3 took part, 3 hold the coordinator's");
    assert_null(strstr(sim.out, "final model: model.safetensors"));
    assert_file_has("own/summary.json", "\"finished\": true");
    assert_file_has("own/summary.json", "\"rounds\": 4");
    assert_file_has("own/summary.json", "\"updates_counted\": 12");
    assert_file_has("own/summary.json", "\"uplink_bits_per_value\": null");
    join(coordinator.front, "tokens", "--out spent", 1, "this token has enrolled a device already");
}

FED_TEST(a_coordinator_that_can_not_be_joined_is_told_with_its_url) {
    char says[200];
    fed_coordinator other;
    const unsigned silent = fed_port_keep();
    write_tokens("fresh", CLIENTS);
    snprintf(says, sizeof says, "server=https://127.0.0.1:%u: client", silent);
    join(silent, "fresh", "--out nobody", 1, says);
    join(coordinator.devices, "fresh", "--out devices", 1, "port of enrolled devices");
    fed_coordinator_open(&other, sim.directory, "other");
    fed_coordinator_close(&other);
    join(coordinator.front, "fresh", "ca=other/ca.pem --out stranger", 1,
         "the coordinator's certificate can't be trusted");
}

FED_TEST(what_does_not_go_with_it_is_refused_before_anything_is_sent) {
    write_tokens("two", 2);
    join(1, "two", "--out none", 2, "two: has 2 tokens for 3 clients; `fedserver token --count 3`");
    join(1, "task.json", "--out none", 1, "task.json:1: this is no token, which has 43 characters");
    join(1, "two", "model=lr --out none", 2, "\"model\" is for the coordinator's task to say");
    join(1, "two", "transport=inproc --out none", 2, "server needs real connections");
    join(1, "two", "kill_round=2 --out none", 2, "kill_round, helper and evaluate=clients need");
    join(1, "two", "seed=1..2 --out none", 2, "a token enrols once");
    assert_runs(&sim, "run data=. server=https://127.0.0.1:1 --out none", 2,
                "server needs tokens=FILE");
    assert_runs(&sim, "run data=. server=127.0.0.1:1 tokens=two ca=two --out none", 2,
                "it must be the URL that devices enrol at");
    assert_runs(&sim, "run data=. model=lr rounds=1 tokens=two --out none", 2, "give server, too");
}

static int set_up(void **state) {
    (void)state;
    fed_program_open(&sim, "fedsim");
    fed_digits_write(sim.directory, 120, 40);
    fed_coordinator_open(&coordinator, sim.directory, "coordinator");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fed_coordinator_close(&coordinator);
    fed_program_close(&sim);
    return 0;
}

int main(void) {
    return fed_cases_run(set_up, tear_down);
}
