/* POST /v1/login: takes the token of a login link, and answers with a session's cookie. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fedserver/audit_log.h"
#include "fedserver/identity/passes.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"
#include "fedserver/routes/visitors.h"

fed_status fedserver_post_login(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    char token[FEDSERVER_TOKEN] = "";
    uint8_t hash[FED_SHA256_SIZE];
    fedserver_pass pass;
    if (request->body_len == sizeof token - 1) {
        memcpy(token, request->body, request->body_len);
    }
    FED_TRY(fedserver_pass_find(server->store, server->db, token, &pass, err));
    const char *word = pass.kind != FEDSERVER_PASS_LINK  ? "link_unknown"
                       : pass.used_ms != 0               ? "link_used"
                       : pass.expires_ms <= call->now_ms ? "link_expired"
                                                         : NULL;
    if (word == NULL) {
        fedserver_token_hash(token, hash);
        char text[FEDSERVER_TOKEN], link[FEDSERVER_PASS_ID], session[FEDSERVER_PASS_ID];
        FED_TRY(server->store->pass_use(server->db, hash, call->now_ms, err));
        FED_TRY(fedserver_pass_make(server->store, server->db, FEDSERVER_PASS_SESSION,
                                    call->now_ms + FEDSERVER_SESSION_S * 1000LL, text, err));
        snprintf(response->set_cookie, sizeof response->set_cookie,
                 FEDSERVER_COOKIE "=%s; Path=/; Max-Age=%d; Secure; HttpOnly; SameSite=Strict",
                 text, FEDSERVER_SESSION_S);
        fedserver_pass_id(token, link);
        fedserver_pass_id(text, session);
        FED_TRY(fedserver_audit(server, FED_LOG_INFO, call->now_ms, "logged_in", err,
                                "by=link link=%s session=%s", link, session));
        return fedserver_answer_json(response, 200,
                                     json_pack("{s:i}", "seconds", FEDSERVER_SESSION_S), err);
    }
    FED_TRY(fedserver_audit_refusal(server, call->now_ms, word, err));
    const char *what = pass.kind != FEDSERVER_PASS_LINK ? "is not one of this coordinator's"
                       : pass.used_ms != 0              ? "has been used already"
                                                        : "has expired, it was good for 10 minutes";
    return fedserver_answer_error(response, err, 401, word,
                                  "this login link %s: run `fedserver page --dir DIR` again for a "
                                  "new one",
                                  what);
}
