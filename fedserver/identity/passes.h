/* Makes tokens, and finds the passes that people and programs show instead of a certificate. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_PASSES_H
#define FEDSERVER_PASSES_H

#include <stdbool.h>

#include "fed/crypto.h"
#include "fed/error.h"
#include "fedserver/fedserver.h"
#include "fedserver/stores/store.h"

/* A token is 43 characters; the store keeps only its SHA-256. There are two uses. A device enrols
 * with an enrolment token. A pass allows its holder to read the page: a link is used once and
 * becomes a session, which the browser keeps as a cookie; a reader's pass is a bearer token for
 * programs such as Prometheus. */

/** Make a new random token as text. */
fed_status fedserver_token_make(char token[FEDSERVER_TOKEN], fed_error *err) FED_CHECKED;

/** Write the token of a wish of a session: the same each time. Only who knows the session's token
 * can make it. */
void fedserver_token_of(const char *session, const char *wish, char token[FEDSERVER_TOKEN]);

/** Compute the hash by which the store knows a token. */
void fedserver_token_hash(const char *token, uint8_t hash[FED_SHA256_SIZE]);

/** Write the first digits of the token's hash, by which people and logs name a token or pass. */
enum { FEDSERVER_PASS_ID = sizeof((fedserver_token_entry *)NULL)->id };
void fedserver_pass_id(const char *token, char id[FEDSERVER_PASS_ID]);

/** Write the token that a page must show to act for a session, so that no page of another site can:
 * it can be made from the session's token, which other sites can't read, and from nothing else. */
void fedserver_pass_act_token(const char *token, char act[FED_SHA256_HEX]);

/** Make a pass and store it. */
fed_status fedserver_pass_make(const fedserver_store *store, void *db, fedserver_pass_kind kind,
                               int64_t expires_ms, char token[FEDSERVER_TOKEN],
                               fed_error *err) FED_CHECKED;

/** Find the pass of that token. If there is none, *pass is all zeros, so it has expired. */
fed_status fedserver_pass_find(const fedserver_store *store, void *db, const char *token,
                               fedserver_pass *pass, fed_error *err) FED_CHECKED;

/** Set *holds: is the token an unused pass of that kind that is valid at now_ms? */
fed_status fedserver_pass_holds(const fedserver_store *store, void *db, const char *token,
                                fedserver_pass_kind kind, int64_t now_ms, bool *holds,
                                fed_error *err) FED_CHECKED;

#endif
