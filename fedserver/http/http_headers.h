/* The headers of an answer. Most of them tell a browser what it may do with the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_HEADERS_H
#define FEDSERVER_HTTP_HEADERS_H

#include "fedserver/fedserver.h"

typedef struct http_headers_answer {
    fedserver_listener listener;
    int status;
    const char *content_type; /* NULL: no Content-Type */
    uint32_t retry_after_s;   /* 0: no Retry-After */
    const char *host;         /* the request's header Host; NULL: none */
    const char *allow;        /* HTTP methods that the path takes, for status 405 */
    bool zipped;
    const fedserver_response *response;
} http_headers_answer;

/** A function that takes one header; *value is not "" and is valid during the call only. */
typedef void (*http_headers_put)(void *user, const char *name, const char *value);

void http_headers_each(const http_headers_answer *answer, http_headers_put put, void *user);

/** Headers that a reverse proxy adds when it passes a client's request on. NULL ends the list. */
extern const char *const http_headers_of_proxies[];

#endif
