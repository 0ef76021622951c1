/* POST /v1/revoke: an operator shuts a device out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/routes/acting.h"
#include "fedserver/routes/router.h"

fed_status fedserver_post_revoke(fedserver *server, const fedserver_call *call,
                                 fedserver_response *response, fed_error *err) {
    char fingerprint[FED_SHA256_HEX] = "";
    fedserver_entry entry;
    fed_error why = {0};
    fed_status status;
    json_t *body = fedserver_acting_body(call->request, response, &status, err);
    if (body == NULL) {
        return status;
    }
    const char *text = json_string_value(json_object_get(body, "fingerprint"));
    if (text != NULL && strlen(text) < sizeof fingerprint) {
        strcpy(fingerprint, text);
    }
    json_decref(body);
    status = fedserver_device_revoke(server, call->now_ms, fingerprint, &entry, &why);
    return status == FED_OK ? fedserver_answer_json(response, 200,
                                                    json_pack("{s:s, s:s, s:s, s:I}", "fingerprint",
                                                              entry.fingerprint, "name", entry.name,
                                                              "state", entry.state, "revoked_ms",
                                                              (json_int_t)entry.revoked_ms),
                                                    err)
                            : fedserver_acting_refusal(status, &why, response, err);
}
