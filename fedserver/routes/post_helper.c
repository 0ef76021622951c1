/* POST /v1/helper: a helper of private sums asks what it owes, and waits until it owes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/openings.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"
#include "fedserver/task/private_task.h"

enum { HOLD_LIMIT_MS = 55000 };

static fed_status answer_question(fedserver *server, fedserver_training *t,
                                  fedserver_response *response, fed_error *err) {
    fedserver_inquiry question;
    fed_writer body;
    FED_TRY(fedserver_openings_question(&server->rounds, t, &question, err));
    fed_writer_growing(&body);
    fedserver_inquiry_write(&body, &question);
    fedserver_inquiry_free(&question);
    return fedserver_answer(response, 200, "application/octet-stream", &body, err);
}

/* Find the task to ask this helper about: of those that may be asked about now, the one that was
 * asked about longest ago. NULL: there is none. *due_ms: when the first of the others may be
 * asked about. */
static fed_status find_task(fedserver *server, const fedserver_device *helper, int64_t now_ms,
                            fedserver_training **found, int64_t *due_ms, fed_error *err) {
    *found = NULL;
    *due_ms = INT64_MAX;
    for (size_t k = 0; k < server->rounds.task_count; k++) {
        fedserver_training *t = server->rounds.tasks[k];
        const int64_t ask_ms = fedserver_openings_ask_ms(t, now_ms);
        bool waits = false;
        if (fedserver_task_helped_by(&t->task, FEDSERVER_SPARE_KEY, helper->fingerprint)) {
            t->asking.spare = true; /* for people: whose round it is, they decide */
        }
        if (fedserver_task_helped_by(&t->task, FEDSERVER_HELPERS_KEY, helper->fingerprint)) {
            FED_TRY(fedserver_openings_await(&server->rounds, t, &waits, err));
        }
        if (waits && ask_ms <= now_ms) {
            *found = *found == NULL || t->asking.turn < (*found)->asking.turn ? t : *found;
        } else if (waits && ask_ms < *due_ms) {
            *due_ms = ask_ms;
        }
    }
    return FED_OK;
}

fed_status fedserver_post_helper(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, call->request->body, call->request->body_len);
    const uint32_t hold_ms = fed_read_u32(&r);
    if (fed_reader_end(&r) != FED_OK) {
        return fedserver_answer_error(
            response, err, 400, "bad_request",
            "the body is not a helper's question: how long it waits, as in docs/protocol.md");
    }
    fedserver_training *t = NULL;
    int64_t due_ms = INT64_MAX;
    FED_TRY(find_task(server, call->device, call->now_ms, &t, &due_ms, err));
    if (t != NULL) {
        t->asking.turn = ++server->rounds.turns;
        return answer_question(server, t, response, err);
    }
    const int64_t limit_ms = hold_ms < HOLD_LIMIT_MS ? hold_ms : HOLD_LIMIT_MS;
    const int64_t left_ms = limit_ms - call->request->waited_ms;
    if (left_ms > 0) {
        const int64_t due = due_ms - call->now_ms;
        response->hold = true;
        response->hold_key = (uint64_t)call->device->id;
        response->hold_ms = (uint32_t)(due < left_ms ? due : left_ms);
        return FED_OK;
    }
    response->status = 204;
    return FED_OK;
}
