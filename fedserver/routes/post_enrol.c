/* POST /v1/enrol: a one-time token and a certificate request in, a certificate out. */
#include "fedserver/router.h"

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
        const char *name = issued.device.name;
        fed_hex(issued.device.fingerprint, 8, digits);
        fed_logf(server->log, FED_LOG_INFO, "%s %s...%s%s%s has enrolled",
                 fedserver_role_name(issued.device.role), digits, name[0] != '\0' ? " (" : "", name,
                 name[0] != '\0' ? ")" : "");
    }
    return fedserver_answer_certificate(server, outcome, &issued, &why, response, err);
}
