/* GET /v1/blob/NAME: an encrypted download, which caches may keep. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"
#include "fedserver/versions/object_cache.h"

fed_status fedserver_get_blob(fedserver *server, const fedserver_call *call,
                              fedserver_response *response, fed_error *err) {
    const char *name = call->request->path + strlen(FED_PATH_BLOB);
    fed_error why = {0};
    fed_status status = fedserver_object_cache_find(server->directory, name, &response->body, &why);
    if (status == FED_ENOTFOUND) {
        return fedserver_answer_error(response, err, 404, "blob_gone",
                                      "no download has that name now; ask the coordinator for the "
                                      "model instead");
    }
    if (status != FED_OK) {
        return fedserver_answer_error(response, err, 503, "busy", "%s", why.text);
    }
    server->blobs++;
    /* each name stands for the same bytes for ever, so its first 64 bits serve as the entity tag */
    char digits[17] = "";
    memcpy(digits, name, sizeof digits - 1);
    const uint64_t tag = strtoull(digits, NULL, 16);
    response->content_type = "application/octet-stream";
    response->immutable = true;
    fedserver_tag_write(tag, response->etag);
    return fedserver_answer_range(call->request, tag, response, err);
}
