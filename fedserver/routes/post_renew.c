/* POST /v1/renew: answers a certificate request for an enrolled key with the next certificate. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fedserver/audit_log.h"
#include "fedserver/identity/enrolment.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/router.h"

enum { HOUR_MS = 3600 * 1000 };

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
    [FEDSERVER_TOKEN_WITHDRAWN] = {401, "token_withdrawn",
                                   "this token was withdrawn; ask the operator for a new one"},
    [FEDSERVER_REQUEST_MALFORMED] = {400, "bad_request", NULL},
    [FEDSERVER_REQUEST_REFUSED] = {403, "csr_refused", NULL},
    [FEDSERVER_KEY_KNOWN] = {409, "key_known",
                             "this key is enrolled already; renew its certificate, or make a new "
                             "key"},
    [FEDSERVER_KEY_UNKNOWN] = {403, "device_unknown",
                               "this key is not enrolled here; enrol the device with a new token"},
    [FEDSERVER_DEVICE_REVOKED] = {403, "device_revoked",
                                  "this device was shut out; if that was an error, the operator "
                                  "gives you a new token to enrol it again"},
    [FEDSERVER_DEVICE_EXPIRED] = {403, "device_unknown",
                                  "this device's certificate has expired; enrol it again"},
};

fed_status fedserver_answer_certificate(fedserver *server, const fedserver_call *call,
                                        fedserver_enrolment outcome, const fedserver_issued *issued,
                                        const fed_error *why, fedserver_response *response,
                                        fed_error *err) {
    if (outcome != FEDSERVER_ENROLLED) {
        FED_TRY(fedserver_audit_refusal(server, call->now_ms, refusals[outcome].word, err));
        const char *message = refusals[outcome].message;
        return fedserver_answer_error(response, err, refusals[outcome].status,
                                      refusals[outcome].word, "%s",
                                      message != NULL ? message : why->text);
    }
    fed_writer body;
    fed_writer_growing(&body);
    /* Append ca.pem, so that a device learns of a new CA. If it does not fit, it is left out, and a
     * person must give it to the device. */
    const char *cas = server->ca_bundle.text;
    cas = strlen(issued->cert.text) + strlen(cas) < FED_PEM_SIZE ? cas : "";
    fed_write_printf(&body, "devices-port: %u\n%s%s", server->devices_port, issued->cert.text, cas);
    return fedserver_answer(response, 200, "application/x-pem-file", &body, err);
}

fed_status fedserver_post_renew(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    fedserver_auth auth;
    fedserver_enrolment outcome;
    fedserver_issued issued;
    fed_error why = {0};
    FED_TRY(fedserver_auth_open(server, &auth, err));
    FED_TRY(fedserver_renew(&auth, call->request->body, call->request->body_len, call->now_ms,
                            &outcome, &issued, &why, err));
    /* A device that renews over and over must not push other rows out of the audit log. */
    const int64_t part_ms = auth.life_s * 1000 / 4;
    if (outcome == FEDSERVER_ENROLLED &&
        issued.longer_ms >= (part_ms < HOUR_MS ? part_ms : HOUR_MS)) {
        char digits[17];
        fed_hex(issued.device.fingerprint, 8, digits);
        FED_TRY(fedserver_audit(server, FED_LOG_INFO, call->now_ms, "renewed", err,
                                "device=%s name=\"%s\"", digits, issued.device.name));
    }
    return fedserver_answer_certificate(server, call, outcome, &issued, &why, response, err);
}
