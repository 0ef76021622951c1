/* POST /v1/opening: a helper's reply to a question, in pieces: masks, or why there are none. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/rounds/left_out.h"
#include "fedserver/rounds/openings.h"
#include "fedserver/rounds/training.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/message_pieces.h"
#include "fedserver/task/private_task.h"

enum { HEAD_MOST = 1 << 20 /* bytes of a reply besides its masks */ };

/* A task's helper is the one that has enrolled with its seal key. Any other one is refused. */
static bool is_of_another(const fedserver *server, const fedserver_call *call, uint64_t task) {
    const fedserver_training *t = fedserver_rounds_task(&server->rounds, task);
    return t != NULL && fedserver_task_has_helper(&t->task) &&
           !fedserver_task_helped_by(&t->task, FEDSERVER_HELPERS_KEY, call->device->fingerprint);
}

static fed_status refuse_other(fedserver *server, const fedserver_call *call, uint64_t task,
                               fedserver_response *response, fed_error *err) {
    char name[FED_SHA256_HEX];
    fed_hex(call->device->fingerprint, FED_SHA256_SIZE, name);
    fed_logf(server->log, FED_LOG_WARN,
             "task %llu: device %.16s, a helper, sent an opening and is not the task's helper; if "
             "you do not know it, shut it out with `fedserver revoke`",
             (unsigned long long)task, name);
    return fedserver_answer_error(response, err, 403, "other_helper",
                                  "this task names another helper's key than the one that you "
                                  "enrolled with; only that helper opens its sums");
}

/* The helper opens nothing: say why in the log. The round goes on waiting. */
static fed_status note_refusal(fedserver *server, fedserver_training *t,
                               const fedserver_reply *reply, int64_t now_ms, fed_error *err) {
    FED_TRY(fedserver_openings_refuse(&server->rounds, t, reply, now_ms, err));
    const fed_log_about about = fedserver_task_about(&t->task, t->round.number);
    fed_logf_about(server->log, FED_LOG_ERROR, &about,
                   "task %llu: the helper does not open round %u %s",
                   (unsigned long long)t->task.wire.id, t->round.number, t->asking.refusal);
    return FED_OK;
}

static fed_status take_reply(fedserver *server, const fedserver_call *call,
                             const fedserver_reply *reply, fedserver_response *response,
                             fed_error *err) {
    fedserver_rounds *rounds = &server->rounds;
    fedserver_training *t = fedserver_rounds_task(rounds, reply->task);
    fed_error why = {0};
    bool awaits = false;
    if (t != NULL) {
        FED_TRY(fedserver_openings_await(rounds, t, &awaits, err));
    }
    if (!awaits || t->round.number != reply->round || t->task.generation != reply->generation) {
        return fedserver_answer_error(response, err, 409, "round_closed",
                                      "no round of this task waits for this opening; ask again");
    }
    const bool unopened = strcmp(reply->word, FEDSERVER_REPLY_SEALS) == 0;
    if (reply->word[0] != '\0' && !unopened) {
        return note_refusal(server, t, reply, call->now_ms, err);
    }
    const fed_status status =
        unopened ? fedserver_left_out_take(rounds, t, reply, call->now_ms, &why, err)
                 : fedserver_openings_take(rounds, t, reply, &why, err);
    if (status != FED_OK && why.text[0] != '\0') {
        const bool other = status == FED_EFORMAT;
        fedserver_openings_pause(t, call->now_ms);
        return fedserver_answer_error(response, err, other ? 409 : 400,
                                      other ? "another_set" : "bad_opening", "%s", why.text);
    }
    FED_TRY(status);
    return fedserver_training_advance(rounds, t, call->now_ms, err);
}

static fed_status take_message(fedserver *server, const fedserver_call *call, const uint8_t *bytes,
                               size_t len, uint64_t digest, fedserver_response *response,
                               fed_error *err) {
    fedserver_reply reply;
    fed_reader r;
    (void)digest;
    fed_reader_init(&r, bytes, len);
    const fed_status read = fedserver_reply_read(&r, &reply);
    if (read == FED_EFORMAT) {
        return fedserver_answer_error(response, err, 400, "bad_opening",
                                      "the body is not an opening as in docs/protocol.md");
    }
    FED_TRY(read);
    const fed_status status = is_of_another(server, call, reply.task)
                                  ? refuse_other(server, call, reply.task, response, err)
                                  : take_reply(server, call, &reply, response, err);
    fedserver_reply_free(&reply);
    return status;
}

/* The most bytes of masks of any task in memory: those of each group. */
static uint64_t most_masks(const fedserver *server) {
    uint64_t most = 0;
    for (size_t k = 0; k < server->rounds.task_count; k++) {
        const fedserver_training *t = server->rounds.tasks[k];
        const uint64_t bytes = fedserver_task_groups(&t->task) * t->update_limit;
        most = bytes > most ? bytes : most;
    }
    return most;
}

fed_status fedserver_post_opening(fedserver *server, const fedserver_call *call,
                                  fedserver_response *response, fed_error *err) {
    fedserver_piece piece;
    if (!fedserver_piece_read(call->request, &piece)) {
        return fedserver_answer_error(response, err, 400, "bad_opening",
                                      "the body is not a piece as in docs/protocol.md");
    }
    if (is_of_another(server, call, piece.head.task)) {
        return refuse_other(server, call, piece.head.task, response, err);
    }
    if (piece.head.total > most_masks(server) + HEAD_MOST) {
        return fedserver_answer_error(response, err, 413, "too_large",
                                      "no opening of a running task can be so large");
    }
    return fedserver_piece_take(server, call, &piece, take_message, response, err);
}
