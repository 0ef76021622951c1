/* fedclientd --device: a device that computes on a GPU, and reports that to the coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "clientd_world.h"
#include "fed/clock.h"
#include "fed_cases.h"
#include "fed_test_gpu.h"

FED_TEST_WITH(a_device_that_is_not_there_is_refused_before_it_enrols, const clientd_world *w) {
    const char *const missing[] = {"--token", w->token, "--device", "opencl:99", NULL};
    clientd_run(w, missing, 1, "--device opencl:99: ");
    const char *const unknown[] = {"--token", w->token, "--device", "toaster", NULL};
    clientd_run(w, unknown, 2, "--device toaster: a device is called gpu, opencl:0 or cuda:0");
    assert_int_not_equal(access(w->state, F_OK), 0);
}

static fed_status take_entry(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    *(fedserver_entry *)user = *entry;
    return FED_OK;
}

FED_TEST_WITH(it_trains_there_and_the_operator_sees_where, clientd_world *w) {
    char name[FED_GPU_NAME];
    fed_error err = {0};
    fedserver *server = NULL;
    fedserver_entry entry = {.name = ""};
    fed_test_gpu_name(name);
    clientd_queue(w, "{ \"model\": \"input 1x28x28 | dense 16 | relu | dense 10\", \"rounds\": 3,\n"
                     "  \"codec_up\": \"sbc:p=0.05\", \"optimizer\": \"momentum\", \"cohort\": 1,\n"
                     "  \"local_steps\": 20, \"learning_rate\": 0.1 }\n");
    const char *const args[] = {"--token", w->token, "--until-finished", "--device", name, NULL};
    clientd_run(w, args, 0, "round 3: update counted");
    assert_true(clientd_says(w, ", computes on "));
    fed_coordinator_stop(&w->coordinator);
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_device_each(server, fed_clock_unix_ms(), take_entry, &entry, &err));
    assert_int_equal(strncmp(entry.computes_on, name, strlen(name)), 0);
    assert_int_equal(entry.counted, 3);
    fedserver_close(server);
    fed_coordinator_start(&w->coordinator);
}

int main(void) {
    return fed_cases_run_each(clientd_setup, clientd_teardown);
}
