/* A device's transport to a coordinator in the test's own process. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_inproc.h"

enum { BODY_MOST = 16384 };

static fed_status read_body(const fedclient_body *body, uint8_t data[BODY_MOST], size_t *len) {
    *len = 0;
    for (size_t got = 1; body != NULL && *len < body->size && got > 0; *len += got) {
        FED_TRY(body->read(body->user, data + *len, BODY_MOST - *len, &got));
    }
    return FED_OK;
}

static fed_status handle(fed_inproc *line, const fedserver_request *asked, int *status,
                         fed_writer *reply, fed_error *err) {
    fedserver_response response;
    FED_TRY(fedserver_handle(line->c->server, asked, line->c->now_ms, &response, err));
    coordinator_commit(line->c);
    size_t len = 0;
    const uint8_t *data = response.body != NULL ? fedserver_blob_data(response.body, &len) : NULL;
    fed_write_bytes(reply, data, len);
    fedserver_blob_free(response.body);
    *status = response.status;
    return FED_OK;
}

static fed_status line_send(void *user, const fedclient_request *request, int *status,
                            fed_writer *reply, fed_error *err) {
    fed_inproc *line = user;
    const bool breaks = line->requests++ == line->breaks_at;
    if (breaks && !line->breaks_answering) {
        return fed_fail(err, FED_ENET,
                        "the connection to the coordinator broke (planned by the test)");
    }
    uint8_t body[BODY_MOST];
    size_t len = 0;
    char path[256];
    snprintf(path, sizeof path, "%s", strchr(request->url + strlen("https://"), '/'));
    char *query = strchr(path, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    FED_TRY(read_body(request->body, body, &len));
    if (line->before != NULL) {
        line->before(line->user, path, body, len);
    }
    const bool front = strcmp(path, "/v1/enrol") == 0;
    const fedserver_request asked = {.listener = front ? FEDSERVER_FRONT : FEDSERVER_DEVICES,
                                     .method = request->method,
                                     .path = path,
                                     .query = query != NULL ? query : "",
                                     .bearer = request->bearer,
                                     .body = body,
                                     .body_len = len,
                                     .fingerprint = front ? NULL : line->fingerprint};
    FED_TRY(handle(line, &asked, status, reply, err));
    if (line->after != NULL) {
        line->after(line->user, path, body, len, *status, reply);
    }
    return breaks ? fed_fail(err, FED_ENET, "the answer was lost (planned by the test)") : FED_OK;
}

static fed_status line_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                fed_error *err) {
    fed_inproc *line = user;
    (void)key;
    return cert != NULL ? fed_cert_key_fingerprint(cert->text, line->fingerprint, err) : FED_OK;
}

void fed_inproc_open(fed_inproc *line, coordinator *c) {
    *line = (fed_inproc){.c = c, .breaks_at = UINT64_MAX};
    line->transport =
        (fedclient_transport){.user = line, .send = line_send, .identify = line_identify};
}
