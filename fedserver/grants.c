/* Tokens, for the command line: who may enrol, and as what. */
#include <string.h>

#include "fedserver/server.h"

/* 32 bytes as 43 characters of base64url without padding (RFC 4648, section 5). */
static void token_text(const uint8_t bytes[32], char token[FEDSERVER_TOKEN]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (int k = 0; k < FEDSERVER_TOKEN - 1; k++) {
        unsigned first = (unsigned)k * 6 / 8;
        unsigned pair = (unsigned)bytes[first] << 8 | (first + 1 < 32 ? bytes[first + 1] : 0u);
        token[k] = digits[pair >> (10 - (unsigned)k * 6 % 8) & 63];
    }
    token[FEDSERVER_TOKEN - 1] = '\0';
}

fed_status fedserver_token_make(char token[FEDSERVER_TOKEN], fed_error *err) {
    uint8_t bytes[32];
    const fed_status status = fed_random(bytes, sizeof bytes);
    if (status != FED_OK) {
        return fed_fail(err, status, "the system gives no random bytes");
    }
    token_text(bytes, token);
    return FED_OK;
}

const char *fedserver_role_name(fedserver_role role) {
    static const char *const names[] = {"device", "evaluator", "operator"};
    return (size_t)role < sizeof names / sizeof names[0] ? names[role] : NULL;
}

fed_status fedserver_token_grant(fedserver *server, int64_t now_ms, const fedserver_grant *grant,
                                 char token[FEDSERVER_TOKEN], fed_error *err) {
    uint8_t hash[FED_SHA256_SIZE];
    char text[FEDSERVER_TOKEN];
    FED_TRY(fedserver_token_make(text, err));
    fedserver_token_hash(text, hash);
    fedserver_token token_row = {
        .made_ms = now_ms, .expires_ms = now_ms + grant->ttl_s * 1000, .role = grant->role};
    const char *tag = grant->tag != NULL ? grant->tag : "";
    if (strlen(tag) >= sizeof token_row.tag) {
        return fed_fail(err, FED_EINVAL, "the tag \"%.80s\" is longer than %d bytes", tag,
                        FEDSERVER_TAG - 1);
    }
    memcpy(token_row.tag, tag, strlen(tag));
    FED_TRY(fedserver_name_check(grant->name != NULL ? grant->name : "", token_row.name, err));
    fed_status status = server->store->token_add(server->db, hash, &token_row, err);
    FED_TRY(fedserver_finish(server, status, err));
    memcpy(token, text, sizeof text);
    return FED_OK;
}

fed_status fedserver_token_new(fedserver *server, int64_t now_ms, int64_t ttl_s,
                               char token[FEDSERVER_TOKEN], fed_error *err) {
    return fedserver_token_grant(server, now_ms, &(fedserver_grant){.ttl_s = ttl_s}, token, err);
}
