/* Acting through the page: who may, and what an operator's function answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/acting.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "fedserver/audit_log.h"
#include "fedserver/routes/visitors.h"

enum { MINUTE_MS = 60 * 1000 };

const char *fedserver_acting_off(const fedserver *server) {
    return server->setup.page_reads
               ? "this coordinator's page only shows (`--page read`): act with `fedserver` on its "
                 "machine"
               : NULL;
}

/* Does the browser say that a page of this front has sent the request? */
static bool is_from_this_page(const fedserver_request *request) {
    static const char scheme[] = "https://";
    const size_t len = sizeof scheme - 1;
    if (request->fetch_site != NULL) {
        return strcmp(request->fetch_site, "same-origin") == 0;
    }
    return request->origin != NULL && request->host != NULL &&
           strncmp(request->origin, scheme, len) == 0 &&
           strcasecmp(request->origin + len, request->host) == 0;
}

/* The time that this takes does not tell at which digit the texts differ. */
static bool shows_token(const fedserver_request *request) {
    char wanted[FED_SHA256_HEX];
    unsigned differs = 0;
    if (request->act == NULL || strlen(request->act) != sizeof wanted - 1 ||
        !fedserver_visitor_act_token(request, wanted)) {
        return false;
    }
    for (size_t k = 0; k < sizeof wanted - 1; k++) {
        differs |= (unsigned char)request->act[k] ^ (unsigned char)wanted[k];
    }
    return differs == 0;
}

static bool is_one_too_many(fedserver *server, int64_t now_ms) {
    const int64_t since_ms = now_ms - server->acts_ms;
    if (since_ms < 0 || since_ms >= MINUTE_MS) {
        server->acts_ms = now_ms;
        server->acts = 0;
    }
    if (server->acts >= FEDSERVER_ACTS_A_MINUTE) {
        return true;
    }
    server->acts++;
    return false;
}

fed_status fedserver_acting_admit(fedserver *server, const fedserver_request *request,
                                  int64_t now_ms, bool *admitted, fedserver_response *response,
                                  fed_error *err) {
    const char *off = fedserver_acting_off(server);
    const char *word = off != NULL                   ? "reads_only"
                       : !is_from_this_page(request) ? "cross_site"
                       : !shows_token(request)       ? "act_token"
                                                     : NULL;
    *admitted = false;
    if (word != NULL) {
        FED_TRY(fedserver_audit_refusal(server, now_ms, word, err));
        return fedserver_answer_error(
            response, err, 403, word, "%s",
            off != NULL ? off
                        : "only the coordinator's own page may act: open it, and reload it if it "
                          "is open");
    }
    if (is_one_too_many(server, now_ms)) {
        FED_TRY(fedserver_audit_refusal(server, now_ms, "acts", err));
        response->retry_after_s = MINUTE_MS / 1000;
        return fedserver_answer_error(response, err, 429, "acts",
                                      "the page has acted %d times in this minute: wait, or act "
                                      "with `fedserver` on the coordinator's machine",
                                      FEDSERVER_ACTS_A_MINUTE);
    }
    *admitted = true;
    return FED_OK;
}

json_t *fedserver_acting_body(const fedserver_request *request, fedserver_response *response,
                              fed_status *status, fed_error *err) {
    json_t *body = request->body_len == 0
                       ? NULL
                       : json_loadb((const char *)request->body, request->body_len,
                                    JSON_REJECT_DUPLICATES, NULL);
    *status = FED_OK;
    if (!json_is_object(body)) {
        json_decref(body);
        *status = fedserver_answer_error(response, err, 400, "format",
                                         "the body is not a JSON object; docs/protocol.md has "
                                         "what it must be");
        return NULL;
    }
    return body;
}

fed_status fedserver_acting_refusal(fed_status status, const fed_error *why,
                                    fedserver_response *response, fed_error *err) {
    switch (status) {
    case FED_EINVAL:
        return fedserver_answer_error(response, err, 400, "value", "%s", why->text);
    case FED_ENOTFOUND:
        return fedserver_answer_error(response, err, 404, "absent", "%s", why->text);
    case FED_ESTATE:
        return fedserver_answer_error(response, err, 409, "state", "%s", why->text);
    default:
        return fed_fail(err, status, "%s", why->text);
    }
}
