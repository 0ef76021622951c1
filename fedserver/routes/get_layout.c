/* GET /v1/layout?task=T: the layout that the model of a task in memory names. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/hash.h"
#include "fed/layout_reference.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"

/* Make the blob that all answers share. */
static fed_status make_blob(fedserver_training *t) {
    fed_writer bytes;
    fed_writer_growing(&bytes);
    fed_write_bytes(&bytes, t->arch.text, strlen(t->arch.text));
    t->layout_blob = bytes.status == FED_OK ? fedserver_blob_new(&bytes) : NULL;
    fed_writer_free(&bytes);
    return t->layout_blob != NULL ? FED_OK : FED_ENOMEM;
}

fed_status fedserver_get_layout(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    uint64_t task;
    if (!fedserver_query_number(call->request->query, "task", UINT64_MAX, &task)) {
        return fedserver_answer_error(response, err, 400, "bad_request",
                                      "the query must be task=T, a number");
    }
    fedserver_training *t = fedserver_rounds_task(&server->rounds, task);
    if (t == NULL || !fed_layout_is_reference(t->task.wire.model)) {
        return fedserver_answer_error(response, err, 404, "layout_gone",
                                      "that task does not run any more, or its model is in the "
                                      "task itself; check in again");
    }
    if (t->layout_blob == NULL && make_blob(t) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a model's layout");
    }
    size_t len;
    const uint8_t *bytes = fedserver_blob_data(t->layout_blob, &len);
    const uint64_t tag = fed_digest_bytes(bytes, len);
    response->body = fedserver_blob_share(t->layout_blob);
    response->content_type = "application/octet-stream";
    fedserver_tag_write(tag, response->etag);
    return fedserver_answer_range(call->request, tag, response, err);
}
