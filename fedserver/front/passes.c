/* Who may read the page, and the passes by which operators and programs prove who they are. */
#include "fedserver/front/passes.h"
#include "fedserver/audit_log.h"

#include <stdio.h>
#include <string.h>

#define COOKIE                                                                                     \
    "__Host-fed" /* browsers take such a name only over TLS, for this host and path /              \
                  */

/* -- what the command line asks for -- */

fed_status fedserver_pass_grant(fedserver *server, int64_t now_ms, fedserver_pass_kind kind,
                                int64_t ttl_s, char token[FEDSERVER_TOKEN], fed_error *err) {
    char text[FEDSERVER_TOKEN];
    uint8_t hash[FED_SHA256_SIZE];
    FED_TRY(fedserver_token_make(text, err));
    fedserver_token_hash(text, hash);
    const fedserver_pass pass = {.kind = kind, .expires_ms = now_ms + ttl_s * 1000};
    fed_status status = server->store->pass_end(server->db, now_ms, err);
    if (status == FED_OK) {
        status = server->store->pass_add(server->db, hash, &pass, err);
    }
    FED_TRY(fedserver_finish(server, status, err));
    memcpy(token, text, sizeof text);
    return FED_OK;
}

fed_status fedserver_pass_revoke_all(fedserver *server, fed_error *err) {
    return fedserver_finish(server, server->store->pass_end(server->db, INT64_MAX, err), err);
}

/* -- who asks -- */

/* FED_OK too where there is none: then it has expired long ago. */
static fed_status find_pass(fedserver *server, const char *token, fedserver_pass *pass,
                            fed_error *err) {
    uint8_t hash[FED_SHA256_SIZE];
    fed_error absent = {0};
    *pass = (fedserver_pass){0};
    fedserver_token_hash(token, hash);
    fed_status status = server->store->pass_find(server->db, hash, pass, &absent);
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", absent.text);
}

/* Is it a pass of that kind, today? */
static fed_status pass_holds(fedserver *server, const char *token, fedserver_pass_kind kind,
                             int64_t now_ms, bool *holds, fed_error *err) {
    fedserver_pass pass;
    FED_TRY(find_pass(server, token, &pass, err));
    *holds = pass.kind == kind && pass.used_ms == 0 && pass.expires_ms > now_ms;
    return FED_OK;
}

/* The value of our cookie in a Cookie header. */
static bool find_cookie(const char *header, char value[FEDSERVER_TOKEN]) {
    static const char name[] = COOKIE "=";
    for (const char *at = header; at != NULL && *at != '\0'; at += strcspn(at, ";")) {
        at += strspn(at, "; ");
        if (strncmp(at, name, sizeof name - 1) == 0) {
            const char *text = at + sizeof name - 1;
            const size_t len = strcspn(text, "; ");
            if (len != FEDSERVER_TOKEN - 1) {
                return false;
            }
            memcpy(value, text, len);
            value[len] = '\0';
            return true;
        }
    }
    return false;
}

fed_status fedserver_visitor_find(fedserver *server, const fedserver_request *request,
                                  int64_t now_ms, fedserver_visitor *visitor, fed_error *err) {
    const fedserver_page page = server->setup.page;
    char cookie[FEDSERVER_TOKEN];
    bool holds = false;
    *visitor = FEDSERVER_VISITOR_OPERATOR;
    if (request->listener == FEDSERVER_DEVICES || server->setup.part == FEDSERVER_ROUNDS) {
        return FED_OK; /* the certificate's role said so; or the front, which asks, has looked */
    }
    if (find_cookie(request->cookie, cookie)) {
        FED_TRY(pass_holds(server, cookie, FEDSERVER_PASS_SESSION, now_ms, &holds, err));
    }
    if (holds) {
        return FED_OK;
    }
    *visitor = FEDSERVER_VISITOR_READER;
    if (page == FEDSERVER_PAGE_ALL || (page == FEDSERVER_PAGE_LOOPBACK && request->loopback)) {
        return FED_OK;
    }
    if (request->bearer != NULL) {
        FED_TRY(pass_holds(server, request->bearer, FEDSERVER_PASS_READER, now_ms, &holds, err));
    }
    *visitor = holds ? FEDSERVER_VISITOR_READER : FEDSERVER_VISITOR_STRANGER;
    return FED_OK;
}

fed_status fedserver_visitor_refuse(const fedserver *server, const fedserver_request *request,
                                    fedserver_visitor visitor, fedserver_response *response,
                                    fed_error *err) {
    const bool program =
        strncmp(request->path, "/v1/", 4) == 0 || strcmp(request->path, "/metrics") == 0;
    const int status = visitor == FEDSERVER_VISITOR_STRANGER ? 401 : 403;
    return program
               ? fedserver_answer_error(
                     response, err, status, "login",
                     "this is for operators: run `fedserver page --dir DIR` on the coordinator's "
                     "machine and open its link (a program: `fedserver page --bearer`), or ask "
                     "port %u with an operator's certificate",
                     server->devices_port)
               : fedserver_answer_page(response, status, "/login", err);
}

/* -- POST /v1/login -- */

static fed_status begin_session(fedserver *server, const uint8_t link[FED_SHA256_SIZE],
                                int64_t now_ms, fedserver_response *response, fed_error *err) {
    char text[FEDSERVER_TOKEN];
    uint8_t hash[FED_SHA256_SIZE];
    const fedserver_pass pass = {.kind = FEDSERVER_PASS_SESSION,
                                 .expires_ms = now_ms + FEDSERVER_SESSION_S * 1000LL};
    FED_TRY(fedserver_token_make(text, err));
    fedserver_token_hash(text, hash);
    FED_TRY(server->store->pass_use(server->db, link, now_ms, err));
    FED_TRY(server->store->pass_add(server->db, hash, &pass, err));
    snprintf(response->set_cookie, sizeof response->set_cookie,
             COOKIE "=%s; Path=/; Max-Age=%d; Secure; HttpOnly; SameSite=Strict", text,
             FEDSERVER_SESSION_S);
    FED_TRY(fedserver_audit(server, FED_LOG_INFO, now_ms, "logged_in", err, "by=link"));
    return fedserver_answer_json(response, 200, json_pack("{s:i}", "seconds", FEDSERVER_SESSION_S),
                                 err);
}

fed_status fedserver_post_login(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    char token[FEDSERVER_TOKEN] = "";
    uint8_t hash[FED_SHA256_SIZE];
    fedserver_pass pass;
    if (request->body_len == sizeof token - 1) {
        memcpy(token, request->body, request->body_len);
    }
    FED_TRY(find_pass(server, token, &pass, err));
    const char *word = pass.kind != FEDSERVER_PASS_LINK  ? "link_unknown"
                       : pass.used_ms != 0               ? "link_used"
                       : pass.expires_ms <= call->now_ms ? "link_expired"
                                                         : NULL;
    if (word == NULL) {
        fedserver_token_hash(token, hash);
        return begin_session(server, hash, call->now_ms, response, err);
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
