/* Checks whether a process serves a coordinator's directory, and answers. For health checks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "fed/clock.h"
#include "fedserver/front/liveness.h"
#include "fedserver/operator.h"

enum { PATIENCE_MS = 10 * 1000, AGAIN_MS = 50 };

static fedserver_life await_answer(const char *directory) {
    const int64_t start_ms = fed_clock_monotonic_ms();
    fedserver_life_question question = FEDSERVER_LIFE_QUESTION;
    fedserver_life life = FEDSERVER_LIFE_UNKNOWN;
    for (int64_t now_ms = start_ms;
         life == FEDSERVER_LIFE_UNKNOWN && now_ms - start_ms < PATIENCE_MS;
         now_ms = fed_clock_monotonic_ms()) {
        life = fedserver_life_ask(&question, directory, start_ms, now_ms);
        struct pollfd readable = {.fd = question.fd, .events = POLLIN};
        if (life == FEDSERVER_LIFE_UNKNOWN) {
            (void)poll(&readable, 1, AGAIN_MS); /* without a descriptor, poll only waits */
        }
    }
    fedserver_life_forget(&question);
    return life;
}

fed_status fedserver_health(const char *directory, fed_error *err) {
    switch (await_answer(directory)) {
    case FEDSERVER_LIFE_WELL:
        return FED_OK;
    case FEDSERVER_LIFE_STUCK:
        return fed_fail(err, FED_EIO,
                        "the process that serves %s waits for its disk or its store for %d s: its "
                        "log says more",
                        directory, FEDSERVER_BUSY_MOST_MS / 1000);
    case FEDSERVER_LIFE_ABSENT:
        return fed_fail(err, FED_EIO,
                        "nobody serves %s, or a process of another release than this program does; "
                        "`fedserver run` serves a directory that `fedserver init` made",
                        directory);
    default:
        return fed_fail(err, FED_EIO,
                        "the process that serves %s does not answer: see that it is not stopped",
                        directory);
    }
}
