/* Writes the HTTP headers of an answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_headers.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PAGE_POLICY                                                                                \
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

typedef struct pair {
    const char *name, *value;
} pair;

static const pair of_all[] = {{"X-Content-Type-Options", "nosniff"}};
static const pair of_the_front[] = {{"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Resource-Policy", "same-origin"},
                                    {"X-Frame-Options", "DENY"}};
static const pair of_pages[] = {
    {"Content-Security-Policy", PAGE_POLICY},
    {"Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
    {"Cross-Origin-Opener-Policy", "same-origin"}};

const char *const http_headers_of_proxies[] = {
    "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via",
    NULL};

/* Strict-Transport-Security holds for all ports of a host. On "localhost" other programs may serve
 * plain HTTP, so the header is left out there. */
static bool is_localhost(const char *host) {
    static const char local[] = "localhost";
    const size_t len = sizeof local - 1;
    return strncasecmp(host, local, len) == 0 && (host[len] == '\0' || host[len] == ':');
}

static void put_text(const char *name, const char *value, http_headers_put put, void *user) {
    if (value[0] != '\0') {
        put(user, name, value);
    }
}

static void put_pairs(const pair *pairs, size_t count, http_headers_put put, void *user) {
    for (size_t k = 0; k < count; k++) {
        put(user, pairs[k].name, pairs[k].value);
    }
}

#define PUT_ALL(pairs) put_pairs(pairs, sizeof(pairs) / sizeof(pairs)[0], put, user)

static bool is_page(const http_headers_answer *a) {
    return a->content_type != NULL && strncmp(a->content_type, "text/html", 9) == 0;
}

void http_headers_each(const http_headers_answer *a, http_headers_put put, void *user) {
    char text[96];
    const bool kept = a->response->immutable && (a->status == 200 || a->status == 206);
    if (kept) {
        /* some caches need this header to pass on requests for ranges */
        put(user, "Accept-Ranges", "bytes");
    }
    put(user, "Cache-Control", kept ? "public, max-age=31536000, immutable" : "no-store");
    PUT_ALL(of_all);
    if (a->listener == FEDSERVER_FRONT || is_page(a)) {
        /* Only browsers need these headers. Other answers to devices go without them. */
        PUT_ALL(of_the_front);
        if (is_page(a)) {
            PUT_ALL(of_pages);
        } else {
            put(user, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
        }
        if (a->host != NULL && !is_localhost(a->host)) {
            put(user, "Strict-Transport-Security", "max-age=31536000");
        }
    }
    put_text("Content-Type", a->content_type != NULL ? a->content_type : "", put, user);
    put_text("ETag", a->response->etag, put, user);
    put_text("Allow", a->status == 405 && a->allow != NULL ? a->allow : "", put, user);
    if (a->zipped) {
        put(user, "Content-Encoding", "gzip");
        put(user, "Vary", "Accept-Encoding");
    }
    put_text("Content-Range", a->response->content_range, put, user);
    put_text("Set-Cookie", a->response->set_cookie, put, user);
    put_text("WWW-Authenticate", a->status == 401 ? "Bearer" : "", put, user);
    if (a->response->file_name[0] != '\0') {
        snprintf(text, sizeof text, "attachment; filename=\"%s\"", a->response->file_name);
        put(user, "Content-Disposition", text);
    }
    if (a->retry_after_s > 0) {
        snprintf(text, sizeof text, "%u", a->retry_after_s);
        put(user, "Retry-After", text);
    }
}
