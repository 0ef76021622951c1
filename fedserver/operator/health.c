/* Checks whether a process serves a coordinator's directory, and answers. For health checks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "fed/clock.h"
#include "fedserver/front/relay.h"
#include "fedserver/operator.h"

/* The answer 200 to this path says that the rounds' process runs, and that it can read the
 * store. */
static const char question[] = "/healthz";

static fed_status await_answer(fedserver_relay *relay, const char *directory,
                               fedserver_response *response, fed_error *err) {
    const int64_t start_ms = fed_clock_monotonic_ms();
    fedserver_request request = {.path = question};
    unsigned alone = 0; /* times in a row without a connection */
    for (;;) {
        const int64_t now_ms = fed_clock_monotonic_ms();
        request.waited_ms = now_ms - start_ms;
        *response = (fedserver_response){0};
        if (!fedserver_relay_ask(relay, &request, now_ms, response)) {
            return fed_fail(
                err, FED_EIO,
                "the process that serves %s does not answer: its log says why, its disk "
                "hangs, or it is of another release than this program",
                directory);
        }
        if (!response->hold) {
            return FED_OK;
        }
        struct pollfd readable = {.fd = fedserver_relay_fd(relay), .events = POLLIN};
        alone = readable.fd < 0 ? alone + 1 : 0;
        if (alone == 2) {
            return fed_fail(err, FED_EIO,
                            "nobody serves %s; `fedserver run` does, on a directory that "
                            "`fedserver init` made",
                            directory);
        }
        /* without a descriptor, poll only waits */
        (void)poll(&readable, 1, (int)response->hold_ms);
        (void)fedserver_relay_receive(relay);
    }
}

fed_status fedserver_health(const char *directory, fed_error *err) {
    fedserver_relay *relay = NULL;
    fedserver_response response = {0};
    FED_TRY(fedserver_relay_open(directory, FEDSERVER_GATE, NULL, &relay, err));
    fed_status status = await_answer(relay, directory, &response, err);
    if (status == FED_OK && response.status != 200) {
        status = fed_fail(err, FED_EIO,
                          "the process that serves %s answers with %d: it can't read its store; "
                          "its log says why",
                          directory, response.status);
    }
    fedserver_blob_free(response.body);
    fedserver_relay_close(relay);
    return status;
}
