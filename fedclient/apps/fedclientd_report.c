/* fedclientd's log lines about events. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "fedclient/apps/fedclientd.h"

static const char *const waits[] = {
    [FED_WAIT_NO_TASK] = "no task runs for this device; it waits for one",
    [FED_WAIT_FULL] = "all slots of the round are taken; this device waits for a free one",
    [FED_WAIT_REPORTED] =
        "the coordinator has this device's update; the device waits for the next round",
    [FED_WAIT_NO_MODEL] = "every model is measured; this device waits for the next one",
    [FED_WAIT_FINISHED] = "all tasks are finished; this device waits for another",
    [FED_WAIT_DECLINED] = "this device has declined the tasks that run; it waits for another"};

static void say_wait(const fed_log *log, const fedclient_event *before,
                     const fedclient_event *event, const char *why) {
    const bool again = before->outcome == event->outcome && before->reason == event->reason;
    const bool paused = event->outcome == FEDCLIENT_PAUSED;
    fed_logf(log, again ? FED_LOG_DEBUG : FED_LOG_INFO, "%s%s, and asks again in %.1f s",
             paused ? why : waits[event->reason], paused ? ": this device pauses" : "",
             (double)event->wait_ms / 1000);
}

void fedclientd_report(const fed_log *log, const fedclient_event *before,
                       const fedclient_event *event, const char *why) {
    const fed_log_about about = {.task = event->task, .round = event->round};
    switch (event->outcome) {
    case FEDCLIENT_WAITED:
    case FEDCLIENT_PAUSED:
        say_wait(log, before, event, why);
        break;
    case FEDCLIENT_COUNTED:
        fed_logf_about(log, FED_LOG_INFO, &about,
                       "round %" PRIu32 ": update counted, training loss %.4f", event->round,
                       (double)event->loss);
        break;
    case FEDCLIENT_EVALUATED:
        if (event->regression) {
            fed_logf_about(log, FED_LOG_INFO, &about,
                           "version %" PRIu32 ": mean squared error %.6g (%" PRIu32 " samples)",
                           event->version, (double)event->loss, event->samples);
            break;
        }
        fed_logf_about(log, FED_LOG_INFO, &about,
                       "version %" PRIu32 ": accuracy %.2f %% (%" PRIu32 " of %" PRIu32
                       "), loss %.4f",
                       event->version, 100.0 * event->correct / event->samples, event->correct,
                       event->samples, (double)event->loss);
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
    case FEDCLIENT_REFUSED:
    case FEDCLIENT_RETRY:
    case FEDCLIENT_DECLINED:
        break;
    }
}

void fedclientd_say_why(const fed_log *log, const char *program, const char *why) {
    if (log->write_about != NULL) {
        fed_logf(log, FED_LOG_ERROR, "%s", why);
    } else {
        fprintf(stderr, "%s: %s\n", program, why);
    }
}
