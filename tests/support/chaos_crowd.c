/* Child processes that are killed and started again, their task, and the final check of their
 * logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "chaos_crowd.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos_log.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed_drill.h"
#include "fed_test.h"

enum { ABSENT_MS = 300, SLOWER = FED_TEST_SIZE(1, 2) };

bool chaos_child_is(chaos_child *one) {
    fflush(NULL);
    one->pid = fork();
    assert_true(one->pid >= 0);
    if (one->pid == 0) {
        fed_test_die_with_parent();
        return true;
    }
    one->lives++;
    return false;
}

void chaos_child_end(chaos_child *one) {
    if (one->pid > 0) {
        (void)kill(one->pid, SIGKILL);
        (void)waitpid(one->pid, NULL, 0);
        one->pid = 0;
    }
}

chaos_end chaos_child_note(chaos_child *one, int how, fed_rng *dice) {
    one->pid = 0;
    one->starts_ms = dice != NULL ? fed_clock_monotonic_ms() + fed_rng_below(dice, ABSENT_MS) : 0;
    one->finished = WIFEXITED(how) && WEXITSTATUS(how) == 0;
    return one->finished                                       ? CHAOS_ENDED_FINISHED
           : WIFEXITED(how) && WEXITSTATUS(how) == CHAOS_AGAIN ? CHAOS_ENDED_AGAIN
           : WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL      ? CHAOS_ENDED_KILLED
                                                               : CHAOS_ENDED_BROKEN;
}

unsigned chaos_raise(const chaos_run *run, unsigned first, unsigned count, chaos_child *device,
                     char (*token)[FEDSERVER_TOKEN]) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    unsigned left = 0;
    for (unsigned k = first; k < first + count; k++) {
        chaos_child *d = &device[k];
        left += !d->finished;
        if (!d->finished && d->pid == 0 && now_ms >= d->starts_ms && chaos_child_is(d)) {
            chaos_device(run, k, d->lives, token[k]);
        }
    }
    return left;
}

bool chaos_is_due(fed_rng *dice, int64_t *when_ms, int64_t every_ms) {
    const int64_t now_ms = fed_clock_monotonic_ms();
    const bool first = *when_ms == 0;
    if (now_ms < *when_ms) {
        return false;
    }
    every_ms *= SLOWER;
    *when_ms = now_ms + every_ms / 2 + fed_rng_below(dice, (uint32_t)every_ms);
    return !first;
}

uint64_t chaos_task(const char *directory, const char *model, const char *json, fedserver *home) {
    char path[400];
    fed_error err = {0};
    uint64_t id = 0;
    snprintf(path, sizeof path, "%s/zeros.safetensors", directory);
    assert_fed_ok_err(fed_drill_zeros(model, path, &err));
    fed_test_put(directory, "task.json", json, strlen(json));
    snprintf(path, sizeof path, "%s/task.json", directory);
    assert_fed_ok_err(fedserver_task_add(home, fed_clock_unix_ms(), path, &id, &err));
    return id;
}

void chaos_read_ca(chaos_run *run, const char *coordinator) {
    char path[400];
    fed_error err = {0};
    uint8_t *ca = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/ca.pem", coordinator);
    assert_fed_ok_err(fed_file_read(path, sizeof run->ca - 1, &ca, &len, &err));
    memcpy(run->ca, ca, len);
    free(ca);
}

void chaos_judge(federation *f, const federation_setup *setup, const char *directory,
                 federation_result *result) {
    *f = (federation){.setup = setup, .result = result, .now_ms = fed_clock_unix_ms()};
    snprintf(f->directory, sizeof f->directory, "%s", directory);
    f->history = fed_history_new();
}

void chaos_judge_all(const federation_setup *setup, const char *directory,
                     federation_result *result) {
    federation f;
    chaos_judge(&f, setup, directory, result);
    f.task = 1;
    for (unsigned k = 0; k < setup->devices; k++) {
        chaos_log_read(directory, k, &f);
    }
    federation_check(&f);
    federation_forget(&f);
}
