/* POST /v1/enrol: a one-time token and a certificate request in, a certificate out. */
#include "fedserver/router.h"

static const struct {
    int status;
    const char *word, *message;
} refusals[] = {
    [FEDSERVER_TOKEN_MISSING] = {401, "token_missing",
                                 "send the enrolment token as: Authorization: Bearer TOKEN"},
    [FEDSERVER_TOKEN_UNKNOWN] = {401, "token_unknown",
                                 "this token was not made here; check that all of it was copied"},
    [FEDSERVER_TOKEN_USED] = {401, "token_used",
                              "this token has enrolled a device already; make a new one"},
    [FEDSERVER_TOKEN_EXPIRED] = {401, "token_expired", "this token has expired; make a new one"},
    [FEDSERVER_REQUEST_MALFORMED] = {400, "bad_request", NULL},
    [FEDSERVER_REQUEST_REFUSED] = {403, "csr_refused", NULL},
};

fed_status fedserver_post_enrol(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    const fedserver_auth auth = {.store = server->store,
                                 .db = server->db,
                                 .devices = &server->devices,
                                 .ca_key = &server->ca_key,
                                 .ca_cert = &server->ca_cert};
    fedserver_enrolment outcome;
    fed_pem cert;
    fed_error why = {0};
    FED_TRY(fedserver_enrol(&auth, request->bearer, request->body, request->body_len, call->now_ms,
                            &outcome, &cert, &why, err));
    if (outcome != FEDSERVER_ENROLLED) {
        const char *message = refusals[outcome].message;
        return fedserver_answer_error(response, err, refusals[outcome].status,
                                      refusals[outcome].word, "%s",
                                      message != NULL ? message : why.text);
    }
    char name[17]; /* the start of what the device calls itself */
    fed_hex(server->devices.items[server->devices.count - 1].fingerprint, 8, name);
    fed_logf(server->log, FED_LOG_INFO, "device %s... has enrolled: there are %zu now", name,
             server->devices.count);
    fed_writer body;
    fed_writer_growing(&body);
    fed_write_printf(&body, "devices-port: %u\n%s", server->devices_port, cert.text);
    return fedserver_answer(response, 200, "application/x-pem-file", &body, err);
}
