/* POST /v1/piece: an update in pieces, for connections that break before all of it is sent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedserver/rounds/leases.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/message_pieces.h"

bool fedserver_piece_read(const fedserver_request *request, fedserver_piece *p) {
    fed_reader r;
    fed_reader_init(&r, request->body, request->body_len);
    if (fed_piece_read(&r, &p->head) != FED_OK) {
        return false;
    }
    p->len = fed_reader_left(&r);
    p->data = fed_read_bytes(&r, p->len);
    return p->len <= p->head.total - p->head.offset;
}

static fed_status find_end(fedserver *server, const fedserver_call *call, const fedserver_piece *p,
                           uint64_t *end, bool *other, fed_error *err) {
    fed_piece last;
    fed_error absent = {0};
    fed_status status =
        server->store->piece_find(server->db, call->device->id, &last, end, &absent);
    *other = false;
    if (status == FED_ENOTFOUND) {
        *end = 0;
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", absent.text);
    }
    if (last.lease != p->head.lease || last.digest != p->head.digest ||
        last.total != p->head.total) {
        *other = true;
        *end = 0;
    }
    return FED_OK;
}

static fed_status answer_end(fedserver_response *response, uint64_t end, fed_error *err) {
    fed_writer body;
    fed_writer_growing(&body);
    fed_write_u64(&body, end);
    return fedserver_answer(response, 202, "application/octet-stream", &body, err);
}

static fed_status take_message(fedserver *server, const fedserver_call *call,
                               const fedserver_piece *p, const uint8_t *bytes, size_t len,
                               fedserver_message_take take, fedserver_response *response,
                               fed_error *err) {
    if (fed_digest_bytes(bytes, len) == p->head.digest) {
        return take(server, call, bytes, len, p->head.digest, response, err);
    }
    server->rounds.counters.updates_bad++;
    call->device->refused++;
    return fedserver_answer_error(response, err, 400, "bad_update",
                                  "the pieces do not make the message that was announced (its "
                                  "digest differs)");
}

static fed_status take_whole(fedserver *server, const fedserver_call *call,
                             const fedserver_piece *p, fedserver_message_take take,
                             fedserver_response *response, fed_error *err) {
    const size_t total = (size_t)p->head.total;
    size_t len = 0;
    uint8_t *bytes = malloc(total);
    if (bytes == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for an update of %zu bytes", total);
    }
    fed_status status = FED_OK;
    if (p->head.offset > 0) {
        status = server->store->piece_join(server->db, call->device->id, bytes, total - p->len,
                                           &len, err);
    }
    if (status == FED_OK) {
        memcpy(bytes + len, p->data, p->len);
        status = take_message(server, call, p, bytes, len + p->len, take, response, err);
    }
    free(bytes);
    return status;
}

fed_status fedserver_piece_take(fedserver *server, const fedserver_call *call,
                                const fedserver_piece *p, fedserver_message_take take,
                                fedserver_response *response, fed_error *err) {
    const fedserver_store *store = server->store;
    const int64_t device = call->device->id;
    uint64_t end = 0;
    bool other = false;
    FED_TRY(find_end(server, call, p, &end, &other, err));
    bool last = p->head.offset == end && end + p->len == p->head.total;
    if (p->head.offset != end || p->len == 0 || (!last && p->len < p->head.total / FED_PIECES)) {
        /* An empty piece asks how much has arrived. Other pieces that do not fit are not stored. */
        return answer_end(response, end, err);
    }
    if (last) {
        FED_TRY(take_whole(server, call, p, take, response, err));
        return end > 0 || other ? store->piece_clear(server->db, device, err) : FED_OK;
    }
    if (other) {
        FED_TRY(store->piece_clear(server->db, device, err));
    }
    FED_TRY(store->piece_add(server->db, device, &p->head, p->data, p->len, err));
    return answer_end(response, end + p->len, err);
}

fed_status fedserver_post_piece(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    fedserver_piece p;
    if (!fedserver_piece_read(call->request, &p)) {
        server->rounds.counters.updates_bad++;
        call->device->refused++;
        return fedserver_answer_error(
            response, err, 400, "bad_update",
            "the body is not a piece of an update as in docs/protocol.md");
    }
    /* The lease is checked as if a whole update with this head had come. */
    const fed_update head = {
        .task = p.head.task, .round = p.head.round, .lease = p.head.lease, .samples = 1};
    if (fedserver_leases_update_event(fedserver_rounds_task(&server->rounds, head.task),
                                      call->device, &head, p.head.digest,
                                      call->now_ms) != FEDSERVER_ON_UPDATE_LEASED) {
        /* No update of this lease can be counted now: answer as if the whole update had come. */
        uint8_t bytes[64];
        fed_writer w;
        fed_writer_fixed(&w, bytes, sizeof bytes);
        fed_update_write(&w, &head);
        return fedserver_update_take(server, call, bytes, w.len, p.head.digest, response, err);
    }
    if (p.head.total > fedserver_update_limit(server)) {
        server->rounds.counters.updates_too_large++;
        call->device->refused++;
        return fedserver_answer_error(response, err, 413, "too_large",
                                      "no update of this task can be so large; check that the "
                                      "client has the coordinator's task");
    }
    return fedserver_piece_take(server, call, &p, fedserver_update_take, response, err);
}
