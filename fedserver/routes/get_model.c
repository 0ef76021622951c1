/* GET /v1/model?task=T&have=V&want=W&can=C: what a device lacks of a version, or the rest of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"
#include "fedserver/versions/blob.h"

/* Cut the whole answer, which *response is, to the range that the request wants. */
static fed_status answer_range(const fedserver_request *request, uint64_t tag,
                               fedserver_response *response, fed_error *err) {
    size_t total = 0;
    uint64_t first = 0, len = 0;
    (void)fedserver_blob_data(response->body, &total);
    fedserver_range_kind kind =
        fedserver_range_read(request->range, request->if_range, total, tag, &first, &len);
    if (kind == FEDSERVER_RANGE_WHOLE) {
        return FED_OK;
    }
    fedserver_blob *whole = response->body;
    response->body = NULL;
    if (kind == FEDSERVER_RANGE_NONE) {
        fedserver_blob_free(whole);
        snprintf(response->content_range, sizeof response->content_range, "bytes */%zu", total);
        return fedserver_answer_error(response, err, 416, "bad_range",
                                      "the answer has %zu bytes, and the range begins behind them; "
                                      "ask for all of it",
                                      total);
    }
    response->status = 206;
    snprintf(response->content_range, sizeof response->content_range,
             "bytes %" PRIu64 "-%" PRIu64 "/%zu", first, first + len - 1, total);
    response->body = fedserver_blob_slice(whole, (size_t)first, (size_t)len);
    fedserver_blob_free(whole); /* the slice holds a reference */
    return response->body != NULL ? FED_OK
                                  : fed_fail(err, FED_ENOMEM, "out of memory for a model download");
}

fed_status fedserver_get_model(fedserver *server, const fedserver_call *call,
                               fedserver_response *response, fed_error *err) {
    const char *query = call->request->query;
    size_t len = 0;
    const char *text = fedserver_query_value(query, "have", &len);
    bool none = text != NULL && len == 4 && memcmp(text, "none", 4) == 0;
    uint64_t task;
    uint64_t want;
    uint64_t have = 0;
    uint64_t can = 0;
    if (!fedserver_query_number(query, "task", UINT64_MAX, &task) ||
        !fedserver_query_number(query, "want", UINT32_MAX, &want) ||
        (!none && !fedserver_query_number(query, "have", UINT32_MAX, &have))) {
        return fedserver_answer_error(response, err, 400, "bad_request",
                                      "the query must be task=T&have=V&want=W in numbers, where "
                                      "have may be none");
    }
    if (!fedserver_query_number(query, "can", UINT32_MAX, &can)) {
        can = 0; /* a device of an older release does not say what it has */
    }
    fedserver_training *t = fedserver_rounds_task(&server->rounds, task);
    uint64_t tag = 0;
    fed_status status = FED_ENOTFOUND;
    if (t != NULL) {
        const fedserver_wish wish = {.any = none,
                                     .have = (uint32_t)have,
                                     .want = (uint32_t)want,
                                     .patches = can & FED_CAN_PATCH};
        fedserver_archive archive = fedserver_rounds_archive(&server->rounds, t);
        const fedserver_past past = {.values = fedserver_past_values, .user = &archive};
        status = fedserver_downloads_get(&t->downloads, &t->versions, &past, &wish, call->now_ms,
                                         &response->body, &tag, err);
    }
    if (status == FED_ENOTFOUND) {
        return fedserver_answer_error(response, err, 404, "model_gone",
                                      "that version is not kept any more, or never was; check in "
                                      "again");
    }
    FED_TRY(status);
    response->content_type = "application/octet-stream";
    fedserver_tag_write(tag, response->etag);
    return answer_range(call->request, tag, response, err);
}
