/* The loop of a device: enrol in time, then one step after the other, a wait in between, and a log
 * line for each event. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "fed/clock.h"
#include "fedclient/state/client_state.h"

static const char *const waits[] = {
    [FED_WAIT_NO_TASK] = "no task runs for this device; it waits for one",
    [FED_WAIT_FULL] = "all slots of the round are taken; this device waits for a free one",
    [FED_WAIT_REPORTED] =
        "the coordinator has this device's update; the device waits for the next round",
    [FED_WAIT_NO_MODEL] = "every model is measured; this device waits for the next one",
    [FED_WAIT_FINISHED] = "all tasks are finished; this device waits for another",
    [FED_WAIT_DECLINED] = "this device has declined the tasks that run; it waits for another",
    [FED_WAIT_SPENT] = "this device's privacy is spent; it waits for another task"};

static void say_wait(const fed_log *log, const fedclient_event *before,
                     const fedclient_event *event, const char *why) {
    const bool again = before->outcome == event->outcome && before->reason == event->reason;
    const bool paused = event->outcome == FEDCLIENT_PAUSED;
    fed_logf(log, again ? FED_LOG_DEBUG : FED_LOG_INFO, "%s%s, and asks again in %.1f s",
             paused ? why : waits[event->reason], paused ? ": this device pauses" : "",
             (double)event->wait_ms / 1000);
}

static void say_counted(const fed_log *log, const fedclient_event *event) {
    const fed_log_about about = {.task = event->task, .round = event->round};
    if (isnan(event->loss)) {
        fed_logf_about(log, FED_LOG_INFO, &about, "round %" PRIu32 ": update counted",
                       event->round);
        return;
    }
    fed_logf_about(log, FED_LOG_INFO, &about,
                   "round %" PRIu32 ": update counted, training loss %.4f", event->round,
                   (double)event->loss);
}

static void say_evaluated(const fed_log *log, const fedclient_event *event) {
    const fed_log_about about = {.task = event->task, .round = event->round};
    if (event->regression) {
        fed_logf_about(log, FED_LOG_INFO, &about,
                       "version %" PRIu32 ": mean squared error %.6g (%" PRIu32 " samples)",
                       event->version, (double)event->loss, event->samples);
        return;
    }
    char accuracy[64] = "", loss[32] = "";
    if (event->correct != FEDCLIENT_NO_CORRECT) {
        snprintf(accuracy, sizeof accuracy, "accuracy %.2f %% (%" PRIu32 " of %" PRIu32 ")",
                 100.0 * event->correct / event->samples, event->correct, event->samples);
    }
    if (!isnan(event->loss)) {
        snprintf(loss, sizeof loss, "loss %.4f", (double)event->loss);
    }
    const bool both = accuracy[0] != '\0' && loss[0] != '\0';
    const bool none = accuracy[0] == '\0' && loss[0] == '\0';
    fed_logf_about(log, FED_LOG_INFO, &about, "version %" PRIu32 ": %s%s%s%s", event->version,
                   accuracy, both ? ", " : "", loss, none ? "measured" : "");
}

static void say_event(const fed_log *log, const fedclient_event *before,
                      const fedclient_event *event, const char *why) {
    const fed_log_about about = {.task = event->task, .round = event->round};
    switch (event->outcome) {
    case FEDCLIENT_WAITED:
    case FEDCLIENT_PAUSED:
        say_wait(log, before, event, why);
        break;
    case FEDCLIENT_COUNTED:
        say_counted(log, event);
        break;
    case FEDCLIENT_EVALUATED:
        say_evaluated(log, event);
        break;
    case FEDCLIENT_FINISHED:
        fed_logf_about(log, FED_LOG_INFO, &about,
                       "the task is finished; its model is version %" PRIu32, event->version);
        break;
    case FEDCLIENT_LATE:
        fed_logf_about(log, FED_LOG_INFO, &about,
                       "round %" PRIu32
                       ": this device was late, so nothing is sent; what it has trained "
                       "goes with its next update",
                       event->round);
        break;
    case FEDCLIENT_REFUSED: /* fedclient_step has logged these three, with their reasons */
    case FEDCLIENT_RETRY:
    case FEDCLIENT_DECLINED:
        break;
    }
}

static bool is_stopped(const fedclient *client) {
    const fedclient_options *options = &client->options;
    return options->stopped != NULL && options->stopped(options->user);
}

/** Sleep in short naps, so that a stop is seen soon. */
static void rest(const fedclient *client, uint32_t ms) {
    enum { NAP_MS = 200 };
    const int64_t until_ms = fed_clock_monotonic_ms() + ms;
    int64_t left_ms = ms;
    while (left_ms > 0 && !is_stopped(client)) {
        fed_sleep_ms(left_ms < NAP_MS ? left_ms : NAP_MS);
        left_ms = until_ms - fed_clock_monotonic_ms();
    }
}

fed_status fedclient_token_give_in_time(fedclient *client, const char *token, unsigned tries,
                                        fed_error *err) {
    enum { FIRST_MS = 500, MOST_MS = 60000 };
    uint32_t wait_ms = FIRST_MS;
    for (unsigned k = 1;; k++) {
        fed_error why = {0};
        const fed_status status = fedclient_token_give(client, token, &why);
        const bool may_pass = status == FED_ENET || status == FED_ETIMEOUT || status == FED_EBUSY;
        if (status == FED_OK) {
            return status;
        }
        if (!may_pass || k == tries) {
            return fed_fail(err, status, "%s%s", fed_error_text(&why),
                            may_pass ? "; try again later, with the same token" : "");
        }
        const uint32_t asked_ms = client->asked_ms < MOST_MS ? client->asked_ms : MOST_MS;
        const uint32_t rest_ms = wait_ms > asked_ms ? wait_ms : asked_ms;
        fed_logf(client->options.log, FED_LOG_WARN,
                 "this device tries again in %.1f s to enrol: %s", (double)rest_ms / 1000,
                 fed_error_text(&why));
        rest(client, rest_ms);
        if (is_stopped(client)) {
            return fed_fail(err, FED_ECANCELED, "stopped before this device was enrolled");
        }
        wait_ms = 2 * wait_ms < MOST_MS ? 2 * wait_ms : MOST_MS;
    }
}

fed_status fedclient_run(fedclient *client, const fedclient_run_options *options, fed_error *err) {
    const fedclient_run_options until_finished = {.until_finished = true};
    const fedclient_run_options *run = options != NULL ? options : &until_finished;
    const fed_log *log = client->options.log;
    fedclient_event before = {.outcome = FEDCLIENT_RETRY};
    for (;;) {
        fedclient_event event;
        fed_error why = {0};
        const fed_status status = fedclient_step(client, &event, &why);
        if (status != FED_OK) {
            return fed_fail(err, status, "%s", fed_error_text(&why));
        }
        say_event(log, &before, &event, why.text);
        if (run->event != NULL && !run->event(run->user, &event, why.text)) {
            return FED_OK;
        }
        if (run->until_finished && event.over) {
            fed_logf(log, FED_LOG_INFO, "the coordinator has no more tasks: this device ends");
            return FED_OK;
        }
        before = event;
        rest(client, event.wait_ms);
    }
}
