/* GET /v1/model?task=T&have=V&want=W&can=C: the parts between two versions, or a byte range. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/hash.h"
#include "fedserver/rounds/closing.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/query.h"
#include "fedserver/routes/router.h"

/* A download from a cache needs a second request, so up to this many bytes are sent directly. */
enum { WORTH_A_CACHE = 4096 };

static fed_status seal_runs(fedserver *server, const fedserver_training *t,
                            const fedserver_run *runs, size_t count, int64_t now_ms, fed_writer *w,
                            uint64_t *len) {
    fedserver_rounds *rounds = &server->rounds;
    *len = 0;
    for (size_t k = 0; k < count; k++) {
        const fedserver_object_request request = {.task = t->task.wire.id,
                                                  .limit = FEDSERVER_OBJECT_CACHE_SNAPSHOTS *
                                                           (uint64_t)t->versions.snapshot_limit,
                                                  .run = runs[k]};
        fed_address address;
        fed_error why = {0};
        fed_status status = fedserver_object_cache_get(&rounds->object_cache, rounds->directory,
                                                       &request, now_ms, &address, &why);
        if (status != FED_OK && status != FED_EBUSY) {
            fed_logf(rounds->log, FED_LOG_WARN,
                     "downloads for caches can't be stored, so devices get the bytes from the "
                     "coordinator: %s",
                     why.text);
        }
        FED_TRY(status);
        fed_address_write(w, &address);
        *len += address.len;
    }
    return w->status;
}

static fed_status write_cache_download(const fedserver_download_request *request,
                                       const fed_writer *addresses, fedserver_response *response,
                                       uint64_t *tag) {
    const fed_part part = {.kind = FED_PART_CACHE,
                           .from = request->any ? request->want : request->have,
                           .to = request->want,
                           .envelope = addresses->data,
                           .envelope_len = addresses->len};
    fed_writer body;
    fed_writer_growing(&body);
    fed_part_write(&body, &part);
    *tag = fed_digest_bytes(body.data, body.len);
    response->body = fedserver_blob_new(&body);
    return response->body != NULL ? FED_OK : FED_ENOMEM;
}

/* Answer with addresses of sealed files, which the device gets from a cache. response->body stays
 * NULL where bytes are to be sent instead. */
static fed_status answer_cache_download(fedserver *server, fedserver_training *t,
                                        const fedserver_old_versions *old,
                                        const fedserver_download_request *request, int64_t now_ms,
                                        fedserver_response *response, uint64_t *tag,
                                        fed_error *err) {
    fedserver_run runs[FED_ADDRESSES];
    size_t count = 0;
    uint64_t len = 0;
    fed_writer addresses;
    fed_writer_growing(&addresses);
    FED_TRY(fedserver_downloads_runs(&t->downloads, &t->versions, old, request, now_ms, runs,
                                     &count, err));
    uint64_t total = 0;
    for (size_t k = 0; k < count; k++) {
        size_t bytes = 0;
        (void)fedserver_blob_data(runs[k].blob, &bytes);
        total += bytes;
    }
    if (total > WORTH_A_CACHE &&
        seal_runs(server, t, runs, count, now_ms, &addresses, &len) == FED_OK &&
        write_cache_download(request, &addresses, response, tag) == FED_OK) {
        server->rounds.counters.cache_downloads++;
        server->rounds.counters.cache_download_bytes += len;
    }
    fed_writer_free(&addresses);
    for (size_t k = 0; k < count; k++) {
        fedserver_blob_free(runs[k].blob);
    }
    return FED_OK;
}

static fed_status answer_parts(fedserver *server, fedserver_training *t,
                               const fedserver_download_request *request, bool from_cache,
                               int64_t now_ms, fedserver_response *response, uint64_t *tag,
                               fed_error *err) {
    fedserver_archive archive = fedserver_rounds_archive(&server->rounds, t);
    const fedserver_old_versions old = {.values = fedserver_old_versions_values, .user = &archive};
    if (from_cache && t->task.wire.downloads[0] != '\0') {
        FED_TRY(answer_cache_download(server, t, &old, request, now_ms, response, tag, err));
    }
    return response->body != NULL
               ? FED_OK
               : fedserver_downloads_get(&t->downloads, &t->versions, &old, request, now_ms,
                                         &response->body, tag, err);
}

fed_status fedserver_get_model(fedserver *server, const fedserver_call *call,
                               fedserver_response *response, fed_error *err) {
    const char *query = call->request->query;
    size_t len = 0;
    const char *text = fedserver_query_value(query, "have", &len);
    bool none = text != NULL && len == 4 && memcmp(text, "none", 4) == 0;
    uint64_t task, want, have = 0, can = 0;
    if (!fedserver_query_number(query, "task", UINT64_MAX, &task) ||
        !fedserver_query_number(query, "want", UINT32_MAX, &want) ||
        (!none && !fedserver_query_number(query, "have", UINT32_MAX, &have))) {
        return fedserver_answer_error(response, err, 400, "bad_request",
                                      "the query must be task=T&have=V&want=W in numbers, where "
                                      "have may be none");
    }
    if (!fedserver_query_number(query, "can", UINT32_MAX, &can)) {
        can = 0;
    }
    fedserver_training *t = fedserver_rounds_task(&server->rounds, task);
    uint64_t tag = 0;
    fed_status status = FED_ENOTFOUND;
    if (t != NULL) {
        const fedserver_download_request request = {.any = none,
                                                    .have = (uint32_t)have,
                                                    .want = (uint32_t)want,
                                                    .patches = can & FED_CAN_PATCH,
                                                    .stages = can & FED_CAN_STAGES};
        status = answer_parts(server, t, &request, (can & FED_CAN_URL) != 0, call->now_ms, response,
                              &tag, err);
    }
    if (status == FED_ENOTFOUND) {
        return fedserver_answer_error(response, err, 404, "model_gone",
                                      "that version is not kept any more, or never was; check in "
                                      "again");
    }
    FED_TRY(status);
    response->content_type = "application/octet-stream";
    fedserver_tag_write(tag, response->etag);
    return fedserver_answer_range(call->request, tag, response, err);
}
