/* Makes tokens, and finds the passes that people and programs show instead of a certificate. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/identity/passes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Write 32 bytes as 43 characters of base64url without padding (RFC 4648, section 5). */
static void write_token(const uint8_t bytes[32], char token[FEDSERVER_TOKEN]) {
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
        return fed_fail(err, status, "the system gives no random bytes for a token");
    }
    write_token(bytes, token);
    return FED_OK;
}

void fedserver_token_of(const char *session, const char *wish, char token[FEDSERVER_TOKEN]) {
    char text[256];
    uint8_t hash[FED_SHA256_SIZE];
    const int len = snprintf(text, sizeof text, "fed token %s %s", session, wish);
    /* a wish is a key of post_token.c, which is short */
    assert(len > 0 && (size_t)len < sizeof text);
    fed_sha256(text, (size_t)len, hash);
    write_token(hash, token);
}

void fedserver_token_hash(const char *token, uint8_t hash[FED_SHA256_SIZE]) {
    fed_sha256(token, strlen(token), hash);
}

void fedserver_pass_id(const char *token, char id[FEDSERVER_PASS_ID]) {
    uint8_t hash[FED_SHA256_SIZE];
    fedserver_token_hash(token, hash);
    fed_hex(hash, (FEDSERVER_PASS_ID - 1) / 2, id);
}

void fedserver_pass_act_token(const char *token, char act[FED_SHA256_HEX]) {
    static const char purpose[] = "fed act ";
    char text[sizeof purpose + FEDSERVER_TOKEN];
    uint8_t hash[FED_SHA256_SIZE];
    const int len = snprintf(text, sizeof text, "%s%s", purpose, token);
    fed_sha256(text, (size_t)len, hash);
    fed_hex(hash, sizeof hash, act);
}

fed_status fedserver_pass_make(const fedserver_store *store, void *db, fedserver_pass_kind kind,
                               int64_t expires_ms, char token[FEDSERVER_TOKEN], fed_error *err) {
    char text[FEDSERVER_TOKEN];
    uint8_t hash[FED_SHA256_SIZE];
    const fedserver_pass pass = {.kind = kind, .expires_ms = expires_ms};
    FED_TRY(fedserver_token_make(text, err));
    fedserver_token_hash(text, hash);
    FED_TRY(store->pass_add(db, hash, &pass, err));
    memcpy(token, text, sizeof text);
    return FED_OK;
}

fed_status fedserver_pass_find(const fedserver_store *store, void *db, const char *token,
                               fedserver_pass *pass, fed_error *err) {
    uint8_t hash[FED_SHA256_SIZE];
    fed_error absent = {0};
    *pass = (fedserver_pass){0};
    fedserver_token_hash(token, hash);
    fed_status status = store->pass_find(db, hash, pass, &absent);
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", absent.text);
}

fed_status fedserver_pass_holds(const fedserver_store *store, void *db, const char *token,
                                fedserver_pass_kind kind, int64_t now_ms, bool *holds,
                                fed_error *err) {
    fedserver_pass pass;
    FED_TRY(fedserver_pass_find(store, db, token, &pass, err));
    *holds = pass.kind == kind && pass.used_ms == 0 && pass.expires_ms > now_ms;
    return FED_OK;
}
