/* The transport by libcurl, with one easy handle. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fed/clock.h"
#include "fedclient/transports/transports.h"

enum {
    SMALL_BODY = 65536, /* a smaller body is kept while it is sent, to send it again */
    HEAD_MOST = 16384,
    CACHE_SPEED = 1000, /* bytes a second; a slower cache is of no use */
    /* after this many hang-ups in a row the certificate counts as refused */
    HANGUPS_TOLD = 5
};

typedef struct curl_line {
    CURL *easy;        /* NULL before the first request, and after a disconnect */
    CURLSH *tickets;   /* TLS sessions, kept across connections: resuming is cheaper */
    fed_pem key, cert; /* cert: the device's certificate, then CAs */
    char *trusted;     /* the CAs of `cert` and of the options */
    bool identified;
    unsigned hangups; /* connections in a row that ended after TLS, before a byte of an answer */
    fedclient_transport_options options;
    fedclient_traffic traffic;
    int64_t silence_ms;            /* the longest time in which no byte moves */
    int64_t moved_ms;              /* when a byte moved last, by the monotonic clock */
    bool silent;                   /* the request was ended because no byte moved */
    char problem[CURL_ERROR_SIZE]; /* curl's text for the last failure */
} curl_line;

typedef struct exchange {
    const curl_line *line;
    const fedclient_request *request;
    fed_writer *answer;
    struct curl_slist *headers;
    uint8_t *kept; /* a copy of the bytes read so far of a small body */
    size_t read;
    size_t sent; /* bytes given to curl; below `read` only after a rewind */
    fed_status body_status, answer_status;
    long head_status; /* status of the head that is being read */
    size_t head_len;  /* bytes of all heads so far */
} exchange;

/* curl_global_init is called once in a process. It is never undone, since this library can't know
 * whether the program uses libcurl elsewhere. */
static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_status;

static void global_init(void) {
    global_status = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take_body(char *dst, size_t size, size_t count, void *user) {
    exchange *x = user;
    const fedclient_body *body = x->request->body;
    size_t cap = size * count, len = 0;
    if (x->sent < x->read) { /* after a rewind, send kept bytes again */
        len = x->read - x->sent < cap ? x->read - x->sent : cap;
        memcpy(dst, x->kept + x->sent, len);
        x->sent += len;
        return len;
    }
    cap = body->size - x->read < cap ? body->size - x->read : cap;
    if (cap == 0) {
        return 0;
    }
    x->body_status = body->read(body->user, dst, cap, &len);
    if (x->body_status != FED_OK) {
        return CURL_READFUNC_ABORT;
    }
    if (x->kept != NULL) {
        memcpy(x->kept + x->read, dst, len);
    }
    x->read += len;
    x->sent = x->read;
    return len;
}

/** libcurl calls this function before it sends the body again. */
static int rewind_body(void *user, curl_off_t offset, int origin) {
    exchange *x = user;
    if (offset != 0 || origin != SEEK_SET || (x->kept == NULL && x->read > 0)) {
        return CURL_SEEKFUNC_CANTSEEK;
    }
    x->sent = 0;
    return CURL_SEEKFUNC_OK;
}

static size_t put_answer(char *src, size_t size, size_t count, void *user) {
    exchange *x = user;
    size_t len = size * count;
    if (x->answer->len + len > x->request->answer_limit) {
        x->answer_status = FED_ERANGE;
        return 0;
    }
    curl_off_t announced = 0;
    if (x->answer->len == 0 &&
        curl_easy_getinfo(x->line->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced) ==
            CURLE_OK &&
        announced > 0 && (uint64_t)announced <= x->request->answer_limit) {
        (void)fed_writer_reserve(x->answer, (size_t)announced);
    }
    fed_write_bytes(x->answer, src, len);
    x->answer_status = x->answer->status;
    return x->answer_status == FED_OK ? len : 0;
}

/** Returns the header's value, up to the end of the line; NULL: the line is another header. */
static const char *header_value(const char *line, size_t len, const char *name) {
    size_t prefix = strlen(name);
    if (len <= prefix || strncasecmp(line, name, prefix) != 0 || line[prefix] != ':') {
        return NULL;
    }
    prefix++;
    return line + prefix + strspn(line + prefix, " ");
}

/** Read an ETag of 16 hex digits in quotes as a number; 0: the ETag has another form. */
static uint64_t read_tag(const char *value) {
    bool sound = value[0] == '"' && strspn(value + 1, "0123456789abcdef") == 16 && value[17] == '"';
    return sound ? strtoull(value + 1, NULL, 16) : 0;
}

/** Read the header Content-Range: "bytes 5-9/20" gives begin 5, total 20; other texts total 0. */
static void read_content_range(const char *value, fedclient_range *range) {
    static const char unit[] = "bytes ";
    const char *dash = strchr(value, '-');
    const char *slash = strchr(value, '/');
    range->begin = range->total = 0;
    if (strncmp(value, unit, sizeof unit - 1) == 0 && dash != NULL && slash != NULL) {
        range->begin = strtoull(value + sizeof unit - 1, NULL, 10);
        range->total = strtoull(slash + 1, NULL, 10); /* 0 if the total is unknown ("*") */
    }
}

static void read_line(exchange *x, const char *line, size_t len) {
    fedclient_range *range = x->request->range;
    const char *value;
    if (strncmp(line, "HTTP/", 5) == 0) {
        x->head_status = strtol(line + strcspn(line, " "), NULL, 10);
        range->begin = range->total = range->tag = 0;
    } else if (x->head_status != 200 && x->head_status != 206) {
        return; /* the head of an interim answer or of a failure says nothing about the range */
    } else if ((value = header_value(line, len, "ETag")) != NULL) {
        range->tag = read_tag(value);
    } else if (x->head_status == 200 &&
               (value = header_value(line, len, "Content-Length")) != NULL) {
        range->total = strtoull(value, NULL, 10);
    } else if (x->head_status == 206 &&
               (value = header_value(line, len, "Content-Range")) != NULL) {
        read_content_range(value, range);
    }
}

static size_t read_header(char *src, size_t size, size_t count, void *user) {
    exchange *x = user;
    char line[128];
    size_t whole = size * count, len = whole < sizeof line ? whole : sizeof line - 1;
    memcpy(line, src, len);
    line[len] = '\0';
    x->head_len += whole;
    if (x->request->range != NULL) {
        read_line(x, line, len);
    }
    return x->head_len <= HEAD_MOST ? whole : 0;
}

/** libcurl calls this about once a second, and when bytes move. A result other than 0 ends the
 * request. libcurl's own limit for low speed looks at the mean of five seconds, so it would notice
 * silence five seconds late. */
static int look_at_stop(void *user, curl_off_t all_down, curl_off_t down, curl_off_t all_up,
                        curl_off_t up) {
    curl_line *line = user;
    (void)all_down, (void)down, (void)all_up, (void)up;
    line->silent = fed_clock_monotonic_ms() - line->moved_ms >= line->silence_ms;
    return line->silent ||
           (line->options.stopped != NULL && line->options.stopped(line->options.user));
}

/** Note when bytes move, and count those sent. libcurl's own sums count a body once or twice,
 * depending on its version. */
static int note_bytes(CURL *easy, curl_infotype what, char *data, size_t len, void *user) {
    curl_line *line = user;
    (void)easy, (void)data;
    if (what != CURLINFO_TEXT) {
        line->moved_ms = fed_clock_monotonic_ms();
    }
    if (what == CURLINFO_HEADER_OUT || what == CURLINFO_DATA_OUT) {
        line->traffic.sent_bytes += len;
    }
    return 0;
}

static void set_blob(CURL *easy, CURLoption option, const char *text, size_t len) {
    struct curl_blob blob = {
        .data = (void *)(uintptr_t)text, .len = len, .flags = CURL_BLOB_NOCOPY};
    curl_easy_setopt(easy, option, &blob);
}

/** The length of the first certificate in the text; the certificates after it are CAs. */
static size_t leaf_len(const char *pem) {
    static const char end[] = "-----END CERTIFICATE-----";
    const char *at = strstr(pem, end);
    return at != NULL ? (size_t)(at - pem) + sizeof end - 1 : strlen(pem);
}

/** Trust the options' CA and the CAs behind the first certificate in cert, which may be NULL. */
static fed_status trust(curl_line *line, const fed_pem *cert) {
    const char *more = cert != NULL ? cert->text + leaf_len(cert->text) : "";
    const char *given = line->options.ca_pem != NULL ? line->options.ca_pem : "";
    const size_t cap = strlen(given) + strlen(more) + 2;
    char *trusted = malloc(cap);
    FED_REQUIRE(trusted != NULL, FED_ENOMEM);
    snprintf(trusted, cap, "%s\n%s", given, more);
    free(line->trusted);
    line->trusted = trusted;
    return FED_OK;
}

static fed_status make_easy(curl_line *line) {
    CURL *easy = curl_easy_init();
    FED_REQUIRE(easy != NULL, FED_ENOMEM);
    line->easy = easy;
    curl_easy_setopt(easy, CURLOPT_SHARE, line->tickets);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, line->problem);
    const bool cache = line->options.for_caches;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, cache ? "https,http" : "https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION,
                     (long)(cache ? CURL_SSLVERSION_TLSv1_2 : CURL_SSLVERSION_TLSv1_3));
    if (line->options.ca_pem != NULL) {
        /* Do not trust the system's CAs. */
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        set_blob(easy, CURLOPT_CAINFO_BLOB, line->trusted, strlen(line->trusted));
    }
    if (line->identified) {
        set_blob(easy, CURLOPT_SSLCERT_BLOB, line->cert.text, leaf_len(line->cert.text));
        set_blob(easy, CURLOPT_SSLKEY_BLOB, line->key.text, strlen(line->key.text));
    }
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* A coordinator that moves keeps its name: each new connection asks for the name's address. */
    curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 16384L);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 32768L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, cache ? (long)CACHE_SPEED : 0L);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_body);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, put_answer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, read_header);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_at_stop);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, line);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L); /* note_bytes gets the output */
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, note_bytes);
    curl_easy_setopt(easy, CURLOPT_DEBUGDATA, line);
    return FED_OK;
}

static bool add_header(exchange *x, const char *header) {
    struct curl_slist *longer = curl_slist_append(x->headers, header);
    x->headers = longer != NULL ? longer : x->headers;
    return longer != NULL;
}

static bool add_range(exchange *x, const fedclient_range *range) {
    char text[80];
    if (range->first == 0 && range->most == 0) {
        return true;
    }
    int len = snprintf(text, sizeof text, "Range: bytes=%" PRIu64 "-", range->first);
    if (range->most > 0) {
        snprintf(text + len, sizeof text - (size_t)len, "%" PRIu64, range->first + range->most - 1);
    }
    if (!add_header(x, text)) {
        return false;
    }
    snprintf(text, sizeof text, "If-Range: \"%016" PRIx64 "\"", range->if_tag);
    return range->if_tag == 0 || add_header(x, text);
}

static bool add_text(exchange *x, const char *begin, const char *value) {
    if (value == NULL) {
        return true;
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_printf(&w, "%s %s", begin, value);
    fed_write_u8(&w, 0);
    bool added = w.status == FED_OK && add_header(x, (const char *)w.data);
    fed_writer_free(&w);
    return added;
}

/** Set only necessary headers, since every byte costs on a metered link. */
static fed_status set_headers(exchange *x) {
    const fedclient_request *request = x->request;
    bool large = request->body != NULL && request->body->size >= SMALL_BODY;
    FED_REQUIRE(add_header(x, "Accept:") && add_header(x, "Content-Type:"), FED_ENOMEM);
    FED_REQUIRE(add_header(x, large ? "Expect: 100-continue" : "Expect:"), FED_ENOMEM);
    FED_REQUIRE(add_text(x, "Authorization: Bearer", request->bearer) &&
                    add_text(x, "Fed-Device-Name:", request->device_name) &&
                    add_text(x, "User-Agent:", request->software) &&
                    add_text(x, "Fed-Computes-On:", request->computes_on) &&
                    add_text(x, "Fed-Classes:", request->classes),
                FED_ENOMEM);
    FED_REQUIRE(request->range == NULL || add_range(x, request->range), FED_ENOMEM);
    curl_easy_setopt(x->line->easy, CURLOPT_HTTPHEADER, x->headers);
    return FED_OK;
}

static fed_status set_body(exchange *x) {
    const fedclient_body *body = x->request->body;
    CURL *easy = x->line->easy;
    if (body == NULL) {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        return FED_OK;
    }
    const bool small = body->size < SMALL_BODY, together = small && body->data != NULL;
    if (small && !together) {
        x->kept = malloc(body->size + 1);
        FED_REQUIRE(x->kept != NULL, FED_ENOMEM);
    }
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    /* libcurl sends a body in memory with the request's head, so the coordinator wakes once. */
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, together ? body->data : NULL);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
    curl_easy_setopt(easy, CURLOPT_READDATA, x);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, x);
    return FED_OK;
}

static fed_status set_request(curl_line *line, exchange *x) {
    CURL *easy = line->easy;
    FED_TRY(set_body(x));
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, x->request->method);
    curl_easy_setopt(easy, CURLOPT_URL, x->request->url);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
    /* hold_ms is added because the coordinator may hold its answer back that long. */
    const uint32_t patience_ms = fedclient_request_patience(&line->options, x->request);
    line->silence_ms = (int64_t)patience_ms + x->request->hold_ms;
    line->moved_ms = fed_clock_monotonic_ms();
    line->silent = false;
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)patience_ms);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)((line->silence_ms + 999) / 1000));
    return set_headers(x);
}

/** Count the transfer. Returns true if it opened a connection. */
static bool count(curl_line *line) {
    long head = 0, connects = 0;
    curl_off_t down = 0;
    curl_easy_getinfo(line->easy, CURLINFO_HEADER_SIZE, &head);
    curl_easy_getinfo(line->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    curl_easy_getinfo(line->easy, CURLINFO_NUM_CONNECTS, &connects);
    line->traffic.requests++;
    line->traffic.connections += (uint64_t)connects;
    line->traffic.received_bytes += (uint64_t)head + (uint64_t)down;
    line->hangups = head > 0 ? 0 : line->hangups;
    return connects > 0;
}

/** Is this one of OpenSSL's texts for a TLS alert about a certificate? */
static bool is_certificate_alert(const char *problem) {
    return strstr(problem, "alert") != NULL &&
           (strstr(problem, "certificate") != NULL || strstr(problem, "unknown ca") != NULL);
}

static bool handshake_done(const curl_line *line) {
    curl_off_t handshake_us = 0;
    curl_easy_getinfo(line->easy, CURLINFO_APPCONNECT_TIME_T, &handshake_us);
    return handshake_us > 0;
}

static bool has_hung_up(CURLcode code) {
    return code == CURLE_GOT_NOTHING || code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR;
}

/** Does the peer speak something else than TLS? The texts are OpenSSL's. */
static bool is_not_tls(CURLcode code, const char *problem) {
    return code == CURLE_SSL_CONNECT_ERROR &&
           (strstr(problem, "wrong version number") != NULL ||
            strstr(problem, "http request") != NULL || strstr(problem, "packet length") != NULL);
}

/** Has the peer ended a connection without a client certificate, perhaps because it demands one? */
static bool wants_certificate(const curl_line *line, CURLcode code) {
    return !line->identified && !line->options.for_caches &&
           (has_hung_up(code) || is_certificate_alert(line->problem));
}

/** In TLS 1.3 the client's handshake is over before the coordinator has checked the client's
 * certificate. So a refusal is an alert, or a connection that ends at once without one. An alert
 * is believed at once, but only several ended connections in a row are taken for a refusal. */
static bool certificate_refused(curl_line *line, CURLcode code, bool fresh) {
    if (!line->identified) {
        return false;
    }
    if (is_certificate_alert(line->problem)) {
        return true;
    }
    bool hung_up = has_hung_up(code);
    long head = 0;
    curl_easy_getinfo(line->easy, CURLINFO_HEADER_SIZE, &head);
    if (hung_up && fresh && handshake_done(line) && head == 0) {
        line->hangups++;
    }
    return hung_up && line->hangups >= HANGUPS_TOLD;
}

/** The status with which a proxy on the way has refused to connect. 0: no proxy has. */
static long status_of_proxy(const curl_line *line) {
    long status = 0;
    curl_easy_getinfo(line->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    return status >= 300 ? status : 0;
}

static fed_status explain_network(curl_line *line, const exchange *x, CURLcode code, bool fresh,
                                  fed_error *err) {
    const char *method = x->request->method, *url = x->request->url;
    const char *why = line->problem[0] != '\0' ? line->problem : curl_easy_strerror(code);
    const long refused = status_of_proxy(line);
    if (refused != 0) {
        const char *todo =
            refused >= 500   ? "it can't reach that host and port now"
            : refused == 407 ? "give it its user and password, as in "
                               "https_proxy=http://USER:PASSWORD@HOST:PORT; or name the host in "
                               "no_proxy"
                             : "ask its operator to allow this host and port; or name the host in "
                               "no_proxy";
        return fed_fail(err, FED_ENET,
                        "%s %s: this device's HTTP proxy has refused to connect, with status %ld: "
                        "%s",
                        method, url, refused, todo);
    }
    if (certificate_refused(line, code, fresh)) {
        return fed_fail(err, FED_EAUTH,
                        "%s: the coordinator refused this device's certificate, or a proxy closes "
                        "the connections (%.120s): was the device removed at the coordinator, or "
                        "is this another coordinator?",
                        url, why);
    }
    if (wants_certificate(line, code)) {
        return fed_fail(
            err, FED_ENET,
            "%s %s: the connection was closed without an answer: this may be the port of enrolled "
            "devices; enrol at the coordinator's front, by default https://HOST:8443",
            method, url);
    }
    if (is_not_tls(code, line->problem)) {
        return fed_fail(err, FED_ENET,
                        "%s %s: what answers there does not speak TLS: is it another program, or a "
                        "port of plain HTTP? (%.80s)",
                        method, url, why);
    }
    return fed_fail(err, FED_ENET, "%s %s: %.200s", method, url, why);
}

/** The answer could not be kept. */
static fed_status explain_answer(const exchange *x, fed_error *err) {
    const char *method = x->request->method, *url = x->request->url;
    if (x->head_len > HEAD_MOST) {
        return fed_fail(err, FED_ENET, "%s %s: the answer's head is longer than %d bytes", method,
                        url, HEAD_MOST);
    }
    if (x->answer_status == FED_ERANGE) {
        return fed_fail(err, FED_ERANGE, "%s %s: the answer is longer than the %zu bytes allowed",
                        method, url, x->request->answer_limit);
    }
    const fed_status status = x->answer_status != FED_OK ? x->answer_status : FED_EIO;
    return fed_fail(err, status, "%s %s: the answer can't be kept: %s", method, url,
                    fed_status_text(status));
}

static fed_status explain(curl_line *line, const exchange *x, CURLcode code, bool fresh,
                          fed_error *err) {
    const char *method = x->request->method, *url = x->request->url;
    const char *why = line->problem[0] != '\0' ? line->problem : curl_easy_strerror(code);
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        if (x->body_status != FED_OK) {
            return fed_fail(err, x->body_status,
                            "%s %s: the request's body ended at byte %zu of %zu", method, url,
                            x->read, x->request->body->size);
        }
        return line->silent
                   ? fed_fail(err, FED_ETIMEOUT, "%s %s: no byte moved for %.1f s", method, url,
                              1e-3 * (double)line->silence_ms)
                   : fed_fail(err, FED_ECANCELED, "%s %s: the program asked to stop this request",
                              method, url);
    case CURLE_WRITE_ERROR:
        return explain_answer(x, err);
    case CURLE_OPERATION_TIMEDOUT:
        return fed_fail(err, FED_ETIMEOUT, "%s %s: no byte moved for too long: %.150s", method, url,
                        why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return fed_fail(err, FED_EAUTH,
                        "%s: the %s certificate can't be trusted "
                        "(%.150s): check the CA file, the host name in the address, the clock%s",
                        url, line->options.for_caches ? "cache's" : "coordinator's", why,
                        line->options.for_caches ? ""
                                                 : "; if the coordinator has changed its CA, enrol "
                                                   "anew with its new ca.pem");
    case CURLE_SSL_CERTPROBLEM:
        return fed_fail(err, FED_EAUTH,
                        "%s: this device's own key or certificate can't be used "
                        "(%.150s): enrol it again",
                        url, why);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        if (handshake_done(line)) {
            break; /* the received bytes are not HTTP/1.1 */
        }
        return fed_fail(err, FED_EINVAL,
                        "%s: not an address that can be used (%.150s): write "
                        "https://HOST:PORT",
                        url, why);
    case CURLE_OUT_OF_MEMORY:
        return fed_fail(err, FED_ENOMEM, "%s %s: out of memory", method, url);
    default:
        break;
    }
    return explain_network(line, x, code, fresh, err);
}

static fed_status transfer(curl_line *line, exchange *x, int *status, fed_error *err) {
    FED_TRY(set_request(line, x));
    line->problem[0] = '\0';
    CURLcode code = curl_easy_perform(line->easy);
    bool fresh = count(line);
    if (code != CURLE_OK) {
        return explain(line, x, code, fresh, err);
    }
    long http = 0;
    curl_easy_getinfo(line->easy, CURLINFO_RESPONSE_CODE, &http);
    *status = (int)http;
    curl_off_t wait_s = 0;
    curl_easy_getinfo(line->easy, CURLINFO_RETRY_AFTER, &wait_s);
    if (wait_s > 0 && x->request->retry_after_s != NULL) {
        *x->request->retry_after_s = wait_s < UINT32_MAX ? (uint32_t)wait_s : UINT32_MAX;
    }
    return FED_OK;
}

static fed_status curl_send(void *user, const fedclient_request *request, int *status,
                            fed_writer *answer, fed_error *err) {
    curl_line *line = user;
    if (line->easy == NULL) {
        FED_TRY(make_easy(line));
    }
    exchange x = {.line = line, .request = request, .answer = answer};
    fed_status result = transfer(line, &x, status, err);
    curl_easy_setopt(line->easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(x.headers);
    free(x.kept);
    return result;
}

static void curl_disconnect(void *user) {
    curl_line *line = user;
    curl_easy_cleanup(line->easy); /* NULL is allowed */
    line->easy = NULL;
}

static fed_status start_afresh(curl_line *line) {
    curl_disconnect(line);
    curl_share_cleanup(line->tickets);
    line->tickets = curl_share_init();
    FED_REQUIRE(line->tickets != NULL, FED_ENOMEM);
    CURLSHcode code = curl_share_setopt(line->tickets, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    return code == CURLSHE_OK ? FED_OK : FED_ENOMEM;
}

static bool belong_together(const fed_pem *key, const fed_pem *cert) {
    uint8_t of_key[FED_SHA256_SIZE], of_cert[FED_SHA256_SIZE];
    return fed_key_fingerprint(key, of_key, NULL) == FED_OK &&
           fed_cert_key_fingerprint(cert->text, of_cert, NULL) == FED_OK &&
           memcmp(of_key, of_cert, sizeof of_key) == 0;
}

static fed_status curl_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                fed_error *err) {
    curl_line *line = user;
    if ((key == NULL) != (cert == NULL)) {
        return fed_fail(err, FED_EINVAL,
                        "identify: a key needs its certificate, and a certificate its key: give "
                        "both or neither");
    }
    if (key != NULL && !belong_together(key, cert)) {
        return fed_fail(err, FED_EAUTH,
                        "this device's own key and certificate can't be used together: enrol it "
                        "again");
    }
    FED_TRY(start_afresh(line)); /* the open connection has the former identity */
    FED_TRY(trust(line, cert));
    line->identified = key != NULL;
    line->hangups = 0;
    if (line->identified) {
        line->key = *key;
        line->cert = *cert;
    }
    return FED_OK;
}

static void curl_traffic(void *user, fedclient_traffic *traffic) {
    const curl_line *line = user;
    *traffic = line->traffic;
}

static void curl_close(void *user) {
    curl_line *line = user;
    curl_disconnect(line);
    curl_share_cleanup(line->tickets);
    free((char *)(uintptr_t)line->options.ca_pem);
    free(line->trusted);
    free(line);
}

static fed_status curl_open(const fedclient_transport_options *options,
                            fedclient_transport *transport, fed_error *err) {
    pthread_once(&global_once, global_init);
    if (global_status != CURLE_OK) {
        return fed_fail(err, FED_EIO, "libcurl can't start: %s", curl_easy_strerror(global_status));
    }
    curl_line *line = calloc(1, sizeof *line);
    FED_REQUIRE(line != NULL, FED_ENOMEM);
    line->options = *options;
    line->options.ca_pem = options->ca_pem != NULL ? strdup(options->ca_pem) : NULL;
    if ((options->ca_pem != NULL && line->options.ca_pem == NULL) || trust(line, NULL) != FED_OK ||
        start_afresh(line) != FED_OK) {
        curl_close(line);
        return fed_fail(err, FED_ENOMEM, "out of memory for a connection");
    }
    *transport = (fedclient_transport){.user = line,
                                       .send = curl_send,
                                       .identify = curl_identify,
                                       .disconnect = curl_disconnect,
                                       .traffic = curl_traffic,
                                       .close = curl_close};
    return FED_OK;
}

const fedclient_transport_kind fedclient_transport_curl = {"curl", curl_open};
