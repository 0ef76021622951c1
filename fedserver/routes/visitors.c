/* Finds out which visitor asks at the front, and refuses visitors who may not see a path. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/visitors.h"

#include <stdio.h>
#include <string.h>

#include "fedserver/identity/passes.h"
#include "fedserver/routes/answers.h"

static bool find_cookie(const char *header, char value[FEDSERVER_TOKEN]) {
    static const char name[] = FEDSERVER_COOKIE "=";
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
        /* The certificate's role, or the visitor at the front, was checked before. */
        return FED_OK;
    }
    if (find_cookie(request->cookie, cookie)) {
        FED_TRY(fedserver_pass_holds(server->store, server->db, cookie, FEDSERVER_PASS_SESSION,
                                     now_ms, &holds, err));
    }
    if (holds) {
        return FED_OK;
    }
    *visitor = FEDSERVER_VISITOR_READER;
    if (page == FEDSERVER_PAGE_ALL || (page == FEDSERVER_PAGE_LOOPBACK && request->loopback)) {
        return FED_OK;
    }
    if (request->bearer != NULL) {
        FED_TRY(fedserver_pass_holds(server->store, server->db, request->bearer,
                                     FEDSERVER_PASS_READER, now_ms, &holds, err));
    }
    *visitor = holds ? FEDSERVER_VISITOR_READER : FEDSERVER_VISITOR_STRANGER;
    return FED_OK;
}

bool fedserver_visitor_shows_pass(const fedserver_request *request) {
    char cookie[FEDSERVER_TOKEN];
    return request->bearer != NULL || find_cookie(request->cookie, cookie);
}

bool fedserver_visitor_act_token(const fedserver_request *request, char act[FED_SHA256_HEX]) {
    char cookie[FEDSERVER_TOKEN];
    if (!find_cookie(request->cookie, cookie)) {
        return false;
    }
    fedserver_pass_act_token(cookie, act);
    return true;
}

bool fedserver_visitor_token_of(const fedserver_request *request, const char *wish,
                                char token[FEDSERVER_TOKEN]) {
    char cookie[FEDSERVER_TOKEN];
    if (!find_cookie(request->cookie, cookie)) {
        return false;
    }
    fedserver_token_of(cookie, wish, token);
    return true;
}

static size_t put_pass(char *by, size_t len, const char *what, const char *token) {
    char id[FEDSERVER_PASS_ID];
    fedserver_pass_id(token, id);
    const int more = snprintf(by + len, FEDSERVER_VISITOR - len, " %s=%s", what, id);
    return len + (size_t)more;
}

void fedserver_visitor_name(const fedserver_request *request, bool enrols,
                            char by[FEDSERVER_VISITOR]) {
    enum { DIGITS = 16 };
    char cookie[FEDSERVER_TOKEN], key[DIGITS + 1];
    const char *address = request->address != NULL ? request->address : "?";
    size_t len = (size_t)snprintf(by, FEDSERVER_VISITOR, "address=%.45s", address);
    if (request->fingerprint != NULL) {
        fed_hex(request->fingerprint, DIGITS / 2, key);
        snprintf(by + len, FEDSERVER_VISITOR - len, " certificate=%s", key);
        return;
    }
    if (!enrols && find_cookie(request->cookie, cookie)) {
        len = put_pass(by, len, "session", cookie);
    }
    if (request->bearer != NULL) {
        put_pass(by, len, enrols ? "token" : "bearer", request->bearer);
    }
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
