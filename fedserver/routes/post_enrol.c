/* POST /v1/enrol: takes a one-time token and a certificate request, answers with a certificate. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/audit_log.h"
#include "fedserver/identity/enrolment.h"
#include "fedserver/routes/router.h"

fed_status fedserver_post_enrol(fedserver *server, const fedserver_call *call,
                                fedserver_response *response, fed_error *err) {
    const fedserver_request *request = call->request;
    fedserver_auth auth;
    fedserver_enrolment outcome;
    fedserver_issued issued;
    fed_error why = {0};
    FED_TRY(fedserver_auth_open(server, &auth, err));
    const fedserver_applicant applicant = {.token = request->bearer,
                                           .name = request->device_name,
                                           .request = request->body,
                                           .len = request->body_len};
    FED_TRY(fedserver_enrol(&auth, &applicant, call->now_ms, &outcome, &issued, &why, err));
    if (outcome == FEDSERVER_ENROLLED) {
        char digits[17];
        fed_hex(issued.device.fingerprint, 8, digits);
        FED_TRY(fedserver_audit(server, FED_LOG_INFO, call->now_ms, "enrolled", err,
                                "device=%s role=%s tag=\"%s\" name=\"%s\"", digits,
                                fedserver_role_name(issued.device.role), issued.device.tag,
                                issued.device.name));
    }
    return fedserver_answer_certificate(server, call, outcome, &issued, &why, response, err);
}
