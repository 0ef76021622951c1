/* An HTTPS client for tests, on libcurl: with any certificate, or none. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CURL_H
#define FED_CURL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/crypto.h"

typedef struct fed_identity {
    fed_pem key, cert;
} fed_identity;

/** Make a key, and a certificate for it by that CA, valid from `from` until `until` (Unix seconds).
 * A server's certificate names localhost and 127.0.0.1. */
void fed_identity_make(const fed_pem *ca_key, const fed_pem *ca, fed_cert_purpose purpose,
                       int64_t from, int64_t until, fed_identity *who);

/** Make a handle for https://127.0.0.1:port/path that trusts only `ca`. who: the client's
 * certificate; NULL: none. */
CURL *fed_curl_new(const fed_pem *ca, const fed_identity *who, uint16_t port, const char *path);

typedef struct fed_reply {
    CURLcode code;
    long status; /* 0: no answer came */
    fed_writer body, headers;
} fed_reply;

fed_reply fed_curl_ask(CURL *curl);

/** Add a header to the handle's requests. Close the handle with fed_curl_close. */
void fed_curl_header(CURL *curl, const char *line);
void fed_curl_close(CURL *curl);

/* For requests by curl_multi: prepare the handle, and later complete the reply. */
void fed_curl_listen(CURL *curl, fed_reply *reply);
void fed_curl_conclude(CURL *curl, CURLcode code, fed_reply *reply);

/** Return the body or the headers of a reply as a string. */
const char *fed_reply_text(const fed_writer *part);
void fed_reply_free(fed_reply *reply);

/** Check that the answer has this status and that its body contains the text. Frees the reply. */
void fed_reply_assert(fed_reply *reply, long status, const char *part_of_body);

/** Make the request, and check the answer as fed_reply_assert does. */
void fed_curl_expect(CURL *curl, long status, const char *part_of_body);

/** Make a key, and enrol it with a token at this front. Returns the HTTP status; with 200, *who has
 * the certificate. */
long fed_curl_enrol(const fed_pem *ca, uint16_t front_port, const char *token, fed_identity *who);

/** Open a TLS connection, to send any bytes. */
CURL *fed_curl_raw(const fed_pem *ca, const fed_identity *who, uint16_t port);
void fed_curl_send(CURL *curl, const char *words);
/** Send data. Returns false if the other side closes before all is sent. */
bool fed_curl_send_bytes(CURL *curl, const void *data, size_t len);
/** Receive text into dst until it contains `end`, the connection closes, or the time is over (10 s,
 * or `ms`). */
void fed_curl_receive(CURL *curl, const char *end, char *dst, size_t cap);
void fed_curl_receive_for(CURL *curl, const char *end, char *dst, size_t cap, int ms);
/** Receive until these words have come. The test fails if they don't. */
void fed_curl_expect_words(CURL *curl, const char *words);

/** Open a TCP connection without TLS. Returns the socket. */
int fed_dial(uint16_t port);

#endif
