/* POST /v1/token: an operator makes an enrolment token, which this answer alone shows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/identity/passes.h"
#include "fedserver/routes/acting.h"
#include "fedserver/routes/router.h"
#include "fedserver/routes/visitors.h"

enum { HOURS = 24, HOURS_MOST = 24 * 30, KEY_LEAST = 32, KEY_MOST = 64 };

static const char *text_of(const json_t *body, const char *key) {
    const char *text = json_string_value(json_object_get(body, key));
    return text != NULL ? text : "";
}

/* A session lasts for hours, and an operator's certificate for years: so the page makes none. */
static bool read_grant(const json_t *body, fedserver_grant *grant) {
    const json_t *hours = json_object_get(body, "hours");
    const json_int_t count = hours != NULL ? json_integer_value(hours) : HOURS;
    const char *role = text_of(body, "role");
    const bool evaluator = strcmp(role, fedserver_role_name(FEDSERVER_ROLE_EVALUATOR)) == 0;
    const bool trains = strcmp(role, fedserver_role_name(FEDSERVER_ROLE_DEVICE)) == 0;
    *grant = (fedserver_grant){.ttl_s = count * 3600,
                               .role = evaluator ? FEDSERVER_ROLE_EVALUATOR : FEDSERVER_ROLE_DEVICE,
                               .tag = text_of(body, "tag"),
                               .name = text_of(body, "name")};
    return (evaluator || trains) && count >= 1 && count <= HOURS_MOST;
}

/* A request that is repeated, because its answer was lost, has the same key, so the same token. */
static bool read_key(const fedserver_request *request, const json_t *body,
                     char token[FEDSERVER_TOKEN], fedserver_grant *grant) {
    const char *key = text_of(body, "key");
    const size_t len = strlen(key);
    if (json_object_get(body, "key") == NULL) {
        return true;
    }
    grant->token = token;
    return len >= KEY_LEAST && len <= KEY_MOST && strspn(key, "0123456789abcdef") == len &&
           fedserver_visitor_token_of(request, key, token);
}

static fed_status answer_token(fedserver *server, const char *token, fedserver_response *response,
                               fed_error *err) {
    uint8_t hash[FED_SHA256_SIZE];
    fedserver_token row;
    fedserver_token_hash(token, hash);
    FED_TRY(server->store->token_find(server->db, hash, &row, err));
    return fedserver_answer_json(response, 200,
                                 json_pack("{s:s, s:s, s:I}", "token", token, "role",
                                           fedserver_role_name(row.role), "expires_ms",
                                           (json_int_t)row.expires_ms),
                                 err);
}

fed_status fedserver_post_token(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    char token[FEDSERVER_TOKEN], wanted[FEDSERVER_TOKEN];
    fed_error why = {0};
    fedserver_grant grant;
    fed_status status;
    json_t *body = fedserver_acting_body(call->request, response, &status, err);
    if (body == NULL) {
        return status;
    }
    if (!read_grant(body, &grant) || !read_key(call->request, body, wanted, &grant)) {
        json_decref(body);
        return fedserver_answer_error(response, err, 400, "format",
                                      "\"role\" is device or evaluator, \"hours\" is a number "
                                      "from 1 to %d, and \"key\" has %d to %d hex digits",
                                      HOURS_MOST, KEY_LEAST, KEY_MOST);
    }
    status = fedserver_token_grant(server, call->now_ms, &grant, token, &why);
    json_decref(body); /* tag and name lie in it */
    return status == FED_OK ? answer_token(server, token, response, err)
                            : fedserver_acting_refusal(status, &why, response, err);
}
