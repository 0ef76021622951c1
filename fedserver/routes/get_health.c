/* GET /healthz: does the coordinator serve? For load balancers, probes and `fedserver health`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/clock.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

/* AGAIN_MS: how soon a front looks again for an answer. */
enum { AGAIN_MS = 5, PATIENCE_MS = 10 * 1000 };

static fed_status answer_ok(fedserver_response *response, fed_error *err) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "ok\n");
    return fedserver_answer(response, 200, "text/plain; charset=utf-8", &w, err);
}

static fed_status refuse(fedserver_response *response, const char *why, fed_error *err) {
    response->retry_after_s = 1;
    return fedserver_answer_error(response, err, 503, "busy", "%s", why);
}

/* A front asks the thread that tells whether the rounds' process is alive. */
static fed_status ask_rounds(fedserver *server, const fedserver_call *call,
                             fedserver_response *response, fed_error *err) {
    const int64_t now_ms = fed_clock_monotonic_ms(), waited_ms = call->request->waited_ms;
    switch (fedserver_life_ask(&server->life, server->directory, now_ms - waited_ms, now_ms)) {
    case FEDSERVER_LIFE_WELL:
        return answer_ok(response, err);
    case FEDSERVER_LIFE_STUCK:
        return refuse(response,
                      "the rounds wait for the coordinator's disk or store: its log says more",
                      err);
    case FEDSERVER_LIFE_ABSENT:
        return refuse(response, "nobody serves the rounds, they may be starting: ask again", err);
    case FEDSERVER_LIFE_UNKNOWN:
        break;
    }
    if (waited_ms >= PATIENCE_MS) {
        return refuse(response, "the coordinator does not answer: see that it is not stopped", err);
    }
    response->hold = true;
    response->hold_ms = AGAIN_MS;
    return FED_OK;
}

/* Elsewhere, counting the devices proves that the store can be read. */
fed_status fedserver_get_health(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    if (server->setup.part == FEDSERVER_GATE) {
        return ask_rounds(server, call, response, err);
    }
    uint64_t devices = 0;
    FED_TRY(server->store->device_count(server->db, &devices, err));
    return answer_ok(response, err);
}
