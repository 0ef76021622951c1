/* Sends one request to the coordinator, and turns the answer's HTTP status into a result. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fedclient/net/requests.h"

enum { MOST_S = 3600 }; /* a longer Retry-After is taken as this many seconds */

static const char paths[][sizeof FED_PATH_CHECKIN] = {
    [FED_REQUEST_ENROL] = FED_PATH_ENROL,     [FED_REQUEST_RENEW] = FED_PATH_RENEW,
    [FED_REQUEST_CHECKIN] = FED_PATH_CHECKIN, [FED_REQUEST_MODEL] = FED_PATH_MODEL,
    [FED_REQUEST_UPDATE] = FED_PATH_UPDATE,   [FED_REQUEST_PIECE] = FED_PATH_PIECE,
    [FED_REQUEST_METRIC] = FED_PATH_METRIC,   [FED_REQUEST_DECLINE] = FED_PATH_DECLINE,
    [FED_REQUEST_LAYOUT] = FED_PATH_LAYOUT,   [FED_REQUEST_WORKER_GROUP] = FED_PATH_WORKER_GROUP};

void fedclient_answer_free(fedclient_answer *answer) {
    fed_writer_free(&answer->body);
}

static fed_status span_read(void *user, void *dst, size_t cap, size_t *len) {
    fedclient_span *span = user;
    if (span->left == 0) {
        span->data = span->more;
        span->left = span->more_left;
        span->more_left = 0;
    }
    size_t n = cap < span->left ? cap : span->left;
    memcpy(dst, span->data, n);
    span->data += n;
    span->left -= n;
    *len = n;
    return FED_OK;
}

fedclient_body fedclient_body_of(fedclient_span *span) {
    return (fedclient_body){.user = span,
                            .size = span->left + span->more_left,
                            .read = span_read,
                            .data = span->more_left == 0 ? span->data : NULL};
}

/** Copy the string after "key": in a flat JSON object into dst, cut to cap bytes; "" if absent.
 * Escapes other than \" and \\ become a blank, which is good enough for a sentence that a person
 * reads. */
static void json_string(const char *text, size_t len, const char *key, char *dst, size_t cap) {
    char quoted[32];
    size_t name = (size_t)snprintf(quoted, sizeof quoted, "\"%s\"", key);
    size_t at = 0, out = 0;
    dst[0] = '\0';
    while (at + name <= len && memcmp(text + at, quoted, name) != 0) {
        at++;
    }
    at += name;
    while (at < len && (text[at] == ' ' || text[at] == ':')) {
        at++;
    }
    if (at >= len || text[at] != '"') {
        return;
    }
    for (at++; at < len && text[at] != '"' && out + 1 < cap; at++) {
        char c = text[at];
        if (c == '\\' && at + 1 < len) {
            c = text[++at];
            c = c == '"' || c == '\\' ? c : ' ';
        }
        dst[out++] = (unsigned char)c < ' ' ? ' ' : c;
    }
    dst[out] = '\0';
}

static void read_refusal(fedclient_answer *answer) {
    const char *text = (const char *)answer->body.data;
    json_string(text, answer->body.len, "error", answer->error, sizeof answer->error);
    json_string(text, answer->body.len, "message", answer->message, sizeof answer->message);
    if (answer->error[0] == '\0') {
        snprintf(answer->error, sizeof answer->error, "status %d", answer->status);
    }
    if (answer->message[0] == '\0') {
        snprintf(answer->message, sizeof answer->message,
                 "the answer has HTTP status %d and no sentence", answer->status);
    }
}

/** Does the coordinator refuse this device's identity? A proxy's 403 has other words. */
static bool refuses_device(const fedclient_answer *answer) {
    static const char *const words[] = {"device_unknown", "device_revoked", "device_refused",
                                        "role"};
    bool found = false;
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        found = found || strcmp(answer->error, words[k]) == 0;
    }
    return found && answer->status == 403;
}

static fed_status judge(fedclient *client, const char *url, fedclient_answer *answer,
                        fed_error *err) {
    int status = answer->status;
    if (status == 200 || status == 202 || status == 204 || status == 206) {
        return FED_OK;
    }
    if (status < 400) {
        return fed_fail(err, FED_EFORMAT,
                        "%s answered with HTTP status %d: is this the coordinator's address?", url,
                        status);
    }
    read_refusal(answer);
    if (status == 401 || status == 403) {
        client->forbidden = true;
        client->refused = refuses_device(answer);
        return fed_fail(err, FED_EAUTH, "the coordinator refuses this device: %s (%s)",
                        answer->message, answer->error);
    }
    if (status == 408 || status == 429 || status >= 500) {
        client->heals = true;
        client->unreached = status >= 500;
        client->asked_ms =
            1000U * (answer->retry_after_s < MOST_S ? answer->retry_after_s : MOST_S);
        return fed_fail(err, FED_EBUSY, "the coordinator can't serve %s now: %s (%s)", url,
                        answer->message, answer->error);
    }
    return FED_OK;
}

/** TLS has refused a certificate. The reason may be this device's clock, or that its certificate
 * has expired. A device without a battery boots in 1970, and its clock is set a little later. */
static fed_status explain_times(fedclient *client, fed_status status, fed_error *err) {
    const int64_t released_s = 1767225600; /* 2026-01-01, before this release */
    const fedclient_platform *platform = client->options.platform;
    const int64_t now_s = platform->unix_ms(platform->user) / 1000;
    if (now_s < released_s || now_s < client->begins_s) {
        client->heals = true;
        return fed_fail(err, FED_EBUSY,
                        "no certificate can be checked, because this device's clock is behind "
                        "(%lld s since 1970): this device waits until its clock is set",
                        (long long)now_s);
    }
    if (client->expires_s == 0 || now_s <= client->expires_s) {
        return status;
    }
    client->refused = true;
    return fed_fail(err, FED_EAUTH,
                    "this device's certificate has expired: enrol it again with a "
                    "new token (and check the device's clock)");
}

fed_status fedclient_exchange(fedclient *client, const fedclient_call *call,
                              fedclient_answer *answer, fed_error *err) {
    *answer = (fedclient_answer){0};
    client->asked_ms = 0;
    client->refused = client->forbidden = false;
    fed_writer_growing(&answer->body);
    char url[FEDCLIENT_URL + 160];
    snprintf(url, sizeof url, "%s%s%s", call->base,
             call->path != NULL ? call->path : paths[call->kind],
             call->query != NULL ? call->query : "");
    const bool named = call->introduces && call->bearer != NULL && client->name[0] != '\0';
    const bool asks = call->kind == FED_REQUEST_CHECKIN;
    const bool says = asks && client->computes_on[0] != '\0';
    char digits[17], *classes = asks && client->options.classes != 0 ? digits : NULL;
    snprintf(digits, sizeof digits, "%016" PRIx64, client->options.classes);
    /* an enrolment is no step, so its silences are not counted, and its patience could not grow */
    const uint32_t patience_ms =
        call->kind != FED_REQUEST_ENROL ? fedclient_addresses_patience(client, call->hold_ms) : 0;
    const bool is_get = call->kind == FED_REQUEST_MODEL || call->kind == FED_REQUEST_LAYOUT;
    const fedclient_request request = {.kind = call->kind,
                                       .method = is_get ? "GET" : "POST",
                                       .url = url,
                                       .bearer = call->bearer,
                                       .body = call->body,
                                       .range = call->range,
                                       .retry_after_s = &answer->retry_after_s,
                                       .answer_limit = call->answer_limit,
                                       .hold_ms = call->hold_ms,
                                       .patience_ms = patience_ms,
                                       .device_name = named ? client->name : NULL,
                                       .software =
                                           call->introduces ? client->options.software : NULL,
                                       .computes_on = says ? client->computes_on : NULL,
                                       .classes = classes};
    const fedclient_transport *transport = client->options.transport;
    fed_status status =
        transport->send(transport->user, &request, &answer->status, &answer->body, err);
    if (status == FED_EAUTH) {
        return explain_times(client, status, err);
    }
    client->unreached = status == FED_ENET || status == FED_ETIMEOUT;
    client->heals = client->heals || client->unreached;
    FED_TRY(status);
    FED_REQUIRE(answer->body.status == FED_OK, FED_ENOMEM);
    return judge(client, url, answer, err);
}
