/* The table of routes, and the checks that come before every one of them. */
#include "fedserver/routes/router.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fedserver/front/passes.h"
#include "fedserver/front/relay.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/routes/metrics.h"

#define FEDSERVER_BODY_UPDATE UINT64_MAX

/* Bits of a route's roles. */
enum {
    DEVICE = 1 << FEDSERVER_ROLE_DEVICE,
    EVALUATOR = 1 << FEDSERVER_ROLE_EVALUATOR,
    OPERATOR = 1 << FEDSERVER_ROLE_OPERATOR,
    READER = 1 << 8, /* of the front: whoever --page lets in, and operators */
    ANYBODY = 0
};

typedef struct route {
    fedserver_listener listener;
    unsigned roles;
    const char *method, *path;
    fedserver_route_function function;
    uint64_t body_limit;
} route;

static const route routes[] = {
#define FEDSERVER_ROUTE(listener, roles, method, path, function, body)                             \
    {listener, roles, method, path, function, body},
#include "fedserver/routes/routes.def"
#undef FEDSERVER_ROUTE
};

/* Why a request is not let through, or status 0. */
typedef struct refusal {
    int status;
    const char *word, *message;
} refusal;

uint64_t fedserver_update_limit(const fedserver *server) {
    const fedserver_training *t = &server->rounds.training;
    uint64_t limit = t->loaded ? t->update_limit : fedserver_intake_head_bytes();
    return limit > server->rounds.update_limit ? limit : server->rounds.update_limit;
}

static uint64_t body_limit(const fedserver *server, const route *to) {
    return to->body_limit != FEDSERVER_BODY_UPDATE ? to->body_limit
                                                   : fedserver_update_limit(server);
}

/* Who asks. A device of an old database is known by its certificate until it is seen. */
static fedserver_device *device_of(const fedserver *server, const fedserver_request *request) {
    if (request->listener != FEDSERVER_DEVICES || request->fingerprint == NULL) {
        return NULL;
    }
    fedserver_device *device =
        fedserver_devices_find(&server->rounds.devices, request->fingerprint);
    return device != NULL || request->certificate == NULL
               ? device
               : fedserver_devices_find(&server->rounds.devices, request->certificate);
}

/* The route of this request and the device behind it, or why there is none. */
static refusal admit(const fedserver *server, const fedserver_request *request, uint64_t body_len,
                     const route **to, fedserver_device **device) {
    bool path_known = false;
    *to = NULL;
    for (size_t k = 0; k < sizeof routes / sizeof routes[0]; k++) {
        if (routes[k].listener == request->listener && strcmp(routes[k].path, request->path) == 0) {
            path_known = true;
            *to = strcmp(routes[k].method, request->method) == 0 ? &routes[k] : *to;
        }
    }
    *device = device_of(server, request);
    if (request->listener == FEDSERVER_DEVICES && *device == NULL) {
        return (refusal){
            403, "device_unknown",
            "this certificate is not enrolled here; enrol the device with a new token"};
    }
    if (*device != NULL && (*device)->revoked_ms != 0) {
        return (refusal){403, "device_revoked",
                         "this device was shut out; if that was an error, the operator gives you a "
                         "new token to enrol it again"};
    }
    if (!path_known) {
        return (refusal){404, "not_found",
                         "there is no such path on this port; docs/protocol.md lists them"};
    }
    if (*to == NULL) {
        return (refusal){405, "method_not_allowed", "this path does not take that method"};
    }
    if (*device != NULL && ((*to)->roles >> (*device)->role & 1) == 0) {
        return (refusal){403, "role",
                         "this certificate is not for that; a token of the right role "
                         "(fedserver token --role) enrols one that is"};
    }
    if (body_len > body_limit(server, *to)) {
        return (refusal){413, "too_large",
                         "the body is larger than any right one can be; check the client's task"};
    }
    return (refusal){0};
}

const char *fedserver_methods(const fedserver_request *head) {
    bool get = false, post = false;
    for (size_t k = 0; k < sizeof routes / sizeof routes[0]; k++) {
        if (routes[k].listener == head->listener && strcmp(routes[k].path, head->path) == 0) {
            get = get || strcmp(routes[k].method, "GET") == 0;
            post = post || strcmp(routes[k].method, "POST") == 0;
        }
    }
    return get && post ? "GET, HEAD, POST" : get ? "GET, HEAD" : post ? "POST" : "";
}

bool fedserver_body_in_parts(const fedserver_request *head) {
    return head->listener == FEDSERVER_DEVICES && strcmp(head->path, "/v1/piece") == 0;
}

int fedserver_body_refused(fedserver *server, const fedserver_request *head, uint64_t len) {
    const route *to;
    fedserver_device *device;
    if (head->listener == FEDSERVER_DEVICES && device_of(server, head) == NULL) {
        fed_error ignored = {0}; /* it comes again when the next batch begins */
        (void)!fedserver_notice_others(server, &ignored); /* it may have enrolled just now */
    }
    const int status = admit(server, head, len, &to, &device).status;
    return status == 403 && len < FED_PEM_SIZE ? 0 : status; /* small: read it, to say why */
}

/* An expired certificate resumes old TLS sessions without being looked at again: so look here. */
static bool expired(const fedserver_device *device, int64_t now_ms) {
    return device != NULL && device->expires_ms <= now_ms;
}

/* From now on it is known by its key, as every device is: so that it can renew its certificate. */
static fed_status adopt(fedserver *server, fedserver_device **device, const uint8_t *fingerprint,
                        fed_error *err) {
    if (*device == NULL || memcmp((*device)->fingerprint, fingerprint, FED_SHA256_SIZE) == 0) {
        return FED_OK;
    }
    FED_TRY(server->store->device_name(server->db, (*device)->id, fingerprint, err));
    if (fedserver_devices_name(&server->rounds.devices, *device, fingerprint) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a device's name");
    }
    *device = fedserver_devices_find(&server->rounds.devices, fingerprint);
    return FED_OK;
}

/* A change of the CA waits for this: so it is stored at once. */
static fed_status note_authority(fedserver *server, fedserver_device *device, uint64_t authority,
                                 fed_error *err) {
    if (device == NULL || authority == 0 || device->authority == authority) {
        return FED_OK;
    }
    device->authority = authority;
    return fedserver_device_save(&server->rounds, device, err);
}

bool fedserver_route_relayed(const fedserver_request *request) {
    return strcmp(request->method, "GET") == 0 &&
           (strcmp(request->path, "/v1/status") == 0 || strcmp(request->path, "/metrics") == 0);
}

/* Who may read at the front, and does this peer? False: *response says what to do. */
static fed_status admit_visitor(fedserver *server, const route *to, const fedserver_call *call,
                                bool *admitted, fedserver_response *response, fed_error *err) {
    fedserver_visitor visitor = FEDSERVER_VISITOR_OPERATOR;
    if (to->listener == FEDSERVER_FRONT && to->roles != ANYBODY) {
        FED_TRY(fedserver_visitor_find(server, call->request, call->now_ms, &visitor, err));
    }
    *admitted = visitor >=
                ((to->roles & READER) != 0 ? FEDSERVER_VISITOR_READER : FEDSERVER_VISITOR_OPERATOR);
    return *admitted ? FED_OK
                     : fedserver_visitor_refuse(server, call->request, visitor, response, err);
}

static fed_status dispatch(fedserver *server, const fedserver_request *request, int64_t now_ms,
                           fedserver_response *response, fed_error *err) {
    const route *to;
    fedserver_call call = {.request = request, .now_ms = now_ms};
    refusal refused = admit(server, request, request->body_len, &to, &call.device);
    if (refused.status == 413 && strcmp(request->path, "/v1/update") == 0) {
        server->rounds.counters.updates_too_large++;
        if (call.device != NULL) {
            call.device->refused++;
        }
    }
    if (refused.status != 0) {
        return fedserver_answer_error(response, err, refused.status, refused.word, "%s",
                                      refused.message);
    }
    if (expired(call.device, now_ms)) {
        return fedserver_answer_error(response, err, 403, "device_unknown",
                                      "this device's certificate has expired; enrol it again");
    }
    FED_TRY(adopt(server, &call.device, request->fingerprint, err));
    fedserver_device_seen(call.device, request->agent, now_ms);
    FED_TRY(note_authority(server, call.device, request->authority, err));
    bool admitted = false;
    FED_TRY(admit_visitor(server, to, &call, &admitted, response, err));
    if (!admitted) {
        return FED_OK;
    }
    if (server->setup.part == FEDSERVER_GATE && fedserver_route_relayed(request)) {
        FED_TRY(fedserver_relay_ask(server->relay, &call, response, err));
        return !response->hold && response->status == 200 && strcmp(request->path, "/metrics") == 0
                   ? fedserver_metrics_append(server, response, err)
                   : FED_OK;
    }
    return to->function(server, &call, response, err);
}

fed_status fedserver_route(fedserver *server, const fedserver_request *request, int64_t now_ms,
                           fedserver_response *response, fed_error *err) {
    FED_TRY(dispatch(server, request, now_ms, response, err));
    if (response->hold) {
        return FED_OK; /* it comes back */
    }
    uint64_t received = request->wire_bytes != 0 ? request->wire_bytes : request->body_len;
    size_t sent = 0;
    if (response->body != NULL) {
        (void)fedserver_blob_data(response->body, &sent);
    }
    server->traffic.requests++;
    server->traffic.received_bytes += received;
    server->traffic.sent_bytes += sent;
    return FED_OK;
}

/* -- answers -- */

fed_status fedserver_answer(fedserver_response *response, int status, const char *content_type,
                            fed_writer *bytes, fed_error *err) {
    fedserver_blob *body = fedserver_blob_new(bytes);
    if (body == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for an answer");
    }
    response->status = status;
    response->content_type = content_type;
    response->body = body;
    return FED_OK;
}

static int append_json(const char *text, size_t len, void *user) {
    fed_write_bytes(user, text, len);
    return 0;
}

fed_status fedserver_answer_json(fedserver_response *response, int status, json_t *value,
                                 fed_error *err) {
    fed_writer text;
    fed_writer_growing(&text);
    int failed = json_dump_callback(value, append_json, &text, JSON_COMPACT);
    json_decref(value);
    if (failed) {
        fed_writer_free(&text);
        return fed_fail(err, FED_ENOMEM, "out of memory for an answer");
    }
    return fedserver_answer(response, status, "application/json", &text, err);
}

fed_status fedserver_answer_error(fedserver_response *response, fed_error *err, int status,
                                  const char *word, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    for (char *c = message; *c != '\0'; c++) { /* it may quote bytes that came from outside */
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
    return fedserver_answer_json(response, status,
                                 json_pack("{s:s, s:s}", "error", word, "message", message), err);
}
