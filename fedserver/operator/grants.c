/* The operator's functions about tokens and passes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fedserver/audit_log.h"
#include "fedserver/identity/names.h"
#include "fedserver/identity/passes.h"
#include "fedserver/memory_note.h"
#include "fedserver/server.h"

enum { TOKEN_DIGITS = sizeof((fedserver_token_entry *)NULL)->id - 1, ID_MIN = 8 };

const char *fedserver_role_name(fedserver_role role) {
    static const char *const names[] = {"device", "evaluator", "operator", "helper"};
    return (size_t)role < sizeof names / sizeof names[0] ? names[role] : NULL;
}

/* Set *granted: was this token granted with these properties, and can it still be used? */
static fed_status granted_before(fedserver *server, const uint8_t *hash,
                                 const fedserver_token *wanted, bool *granted, fed_error *err) {
    fedserver_token row;
    fed_error absent = {0};
    const fed_status status = server->store->token_find(server->db, hash, &row, &absent);
    if (status != FED_OK) {
        *granted = false;
        return status == FED_ENOTFOUND ? FED_OK : fed_fail(err, status, "%s", absent.text);
    }
    if (row.used_ms != 0 || row.withdrawn_ms != 0) {
        return fed_fail(err, FED_ESTATE, "the token of this request is %s already: ask for another",
                        row.used_ms != 0 ? "used" : "withdrawn");
    }
    const bool lasts = row.expires_ms - row.made_ms == wanted->expires_ms - wanted->made_ms;
    if (!lasts || row.role != wanted->role || strcmp(row.tag, wanted->tag) != 0 ||
        strcmp(row.name, wanted->name) != 0) {
        return fed_fail(err, FED_ESTATE,
                        "this request has made a token with another role, name, tag or duration: "
                        "ask for another with another key");
    }
    *granted = true;
    return FED_OK;
}

fed_status fedserver_token_grant(fedserver *server, int64_t now_ms, const fedserver_grant *grant,
                                 char token[FEDSERVER_TOKEN], fed_error *err) {
    uint8_t hash[FED_SHA256_SIZE];
    char text[FEDSERVER_TOKEN], id[TOKEN_DIGITS + 1];
    bool granted = false;
    if (grant->token != NULL) {
        snprintf(text, sizeof text, "%s", grant->token);
    } else {
        FED_TRY(fedserver_token_make(text, err));
    }
    fedserver_token_hash(text, hash);
    fedserver_token token_row = {
        .made_ms = now_ms, .expires_ms = now_ms + grant->ttl_s * 1000, .role = grant->role};
    FED_TRY(fedserver_text_check("tag", grant->tag != NULL ? grant->tag : "", token_row.tag,
                                 sizeof token_row.tag, err));
    FED_TRY(fedserver_text_check("name", grant->name != NULL ? grant->name : "", token_row.name,
                                 sizeof token_row.name, err));
    fed_status status = FED_OK;
    if (grant->token != NULL) {
        status = granted_before(server, hash, &token_row, &granted, err);
    }
    if (status == FED_OK && !granted) {
        status = server->store->token_add(server->db, hash, &token_row, err);
    }
    if (status == FED_OK && !granted) {
        fed_hex(hash, TOKEN_DIGITS / 2, id);
        status = fedserver_audit(server, FED_LOG_INFO, now_ms, "token_made", err,
                                 "token=%s role=%s tag=\"%s\" name=\"%s\"", id,
                                 fedserver_role_name(grant->role), token_row.tag, token_row.name);
    }
    FED_TRY(fedserver_finish(server, status, err));
    memcpy(token, text, sizeof text);
    return FED_OK;
}

fed_status fedserver_token_new(fedserver *server, int64_t now_ms, int64_t ttl_s,
                               char token[FEDSERVER_TOKEN], fed_error *err) {
    return fedserver_token_grant(server, now_ms, &(fedserver_grant){.ttl_s = ttl_s}, token, err);
}

typedef struct token_listing {
    fedserver_token_entry_visit visit;
    void *user;
    const char *prefix;
    size_t count;
    uint8_t hash[FED_SHA256_SIZE];
} token_listing;

static fed_status list_token(void *user, const uint8_t *hash, const fedserver_token *token,
                             fed_error *err) {
    token_listing *l = user;
    fedserver_token_entry entry = {.role = token->role,
                                   .made_ms = token->made_ms,
                                   .expires_ms = token->expires_ms,
                                   .used_ms = token->used_ms,
                                   .withdrawn_ms = token->withdrawn_ms};
    fed_hex(hash, TOKEN_DIGITS / 2, entry.id);
    memcpy(entry.tag, token->tag, sizeof entry.tag);
    memcpy(entry.name, token->name, sizeof entry.name);
    if (strncmp(entry.id, l->prefix, strlen(l->prefix)) != 0) {
        return FED_OK;
    }
    l->count++;
    memcpy(l->hash, hash, sizeof l->hash);
    return l->visit(l->user, &entry, err);
}

fed_status fedserver_token_each(fedserver *server, fedserver_token_entry_visit visit, void *user,
                                fed_error *err) {
    token_listing all = {.visit = visit, .user = user, .prefix = ""};
    return server->store->token_each(server->db, list_token, &all, err);
}

static fed_status keep_token(void *user, const fedserver_token_entry *entry, fed_error *err) {
    (void)err;
    *(fedserver_token_entry *)user = *entry;
    return FED_OK;
}

fed_status fedserver_token_withdraw(fedserver *server, int64_t now_ms, const char *id,
                                    fedserver_token_entry *entry, fed_error *err) {
    token_listing found = {.visit = keep_token, .user = entry, .prefix = id};
    if (strlen(id) < ID_MIN) {
        return fed_fail(err, FED_EINVAL,
                        "\"%s\" is too short: give at least the first %d digits of a token's id",
                        id, ID_MIN);
    }
    FED_TRY(server->store->token_each(server->db, list_token, &found, err));
    if (found.count != 1 || entry->used_ms != 0 || entry->withdrawn_ms != 0) {
        return found.count == 1
                   ? fed_fail(err, FED_ENOTFOUND, "token %s is %s already", entry->id,
                              entry->used_ms != 0 ? "used" : "withdrawn")
                   : fed_fail(err, FED_ENOTFOUND,
                              "%zu tokens have an id that begins with \"%s\"; `fedserver tokens` "
                              "lists them",
                              found.count, id);
    }
    fed_status status = server->store->token_withdraw(server->db, found.hash, now_ms, err);
    if (status == FED_OK) {
        status = fedserver_audit(server, FED_LOG_INFO, now_ms, "token_withdrawn", err, "token=%s",
                                 entry->id);
    }
    FED_TRY(fedserver_finish(server, status, err));
    entry->withdrawn_ms = now_ms;
    return FED_OK;
}

fed_status fedserver_pass_grant(fedserver *server, int64_t now_ms, fedserver_pass_kind kind,
                                int64_t ttl_s, char token[FEDSERVER_TOKEN], fed_error *err) {
    char text[FEDSERVER_TOKEN], id[FEDSERVER_PASS_ID];
    const char *name = kind == FEDSERVER_PASS_LINK ? "link" : "bearer";
    fed_status status = server->store->pass_end(server->db, now_ms, err);
    if (status == FED_OK) {
        status =
            fedserver_pass_make(server->store, server->db, kind, now_ms + ttl_s * 1000, text, err);
    }
    if (status == FED_OK) {
        fedserver_pass_id(text, id);
        status = fedserver_audit(server, FED_LOG_INFO, now_ms, "pass_made", err,
                                 "kind=%s %s=%s seconds=%lld", name, name, id, (long long)ttl_s);
    }
    FED_TRY(fedserver_finish(server, status, err));
    memcpy(token, text, sizeof text);
    return FED_OK;
}

fed_status fedserver_pass_revoke_all(fedserver *server, int64_t now_ms, fed_error *err) {
    fed_status status = server->store->pass_end(server->db, INT64_MAX, err);
    if (status == FED_OK) {
        status = fedserver_audit(server, FED_LOG_INFO, now_ms, "passes_ended", err, "all");
    }
    return fedserver_finish(server, status, err);
}

uint16_t fedserver_front_port(const fedserver *server) {
    return fedserver_front_note_read(server->directory);
}
