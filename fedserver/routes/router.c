/* Finds a request's route in the table, and makes the checks that come before every route. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/router.h"

#include <string.h>

#include "fedserver/audit_log.h"
#include "fedserver/front/relay.h"
#include "fedserver/identity/device_table.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/routes/acting.h"
#include "fedserver/routes/answers.h"
#include "fedserver/routes/metrics.h"
#include "fedserver/routes/visitors.h"

#define FEDSERVER_BODY_UPDATE UINT64_MAX

/* Bits of route.ways: how the route's requests are handled. */
enum {
    PLAIN = 0,
    RELAYED = 1,  /* the rounds' process answers, even if the front is another process */
    IN_PARTS = 2, /* if the connection breaks, the received part of the body is handled */
    ACTS = 4      /* only the page of an operator who has logged in may send the request */
};

/* Bits of route.roles: who may ask. */
enum {
    DEVICE = 1 << FEDSERVER_ROLE_DEVICE,
    EVALUATOR = 1 << FEDSERVER_ROLE_EVALUATOR,
    OPERATOR = 1 << FEDSERVER_ROLE_OPERATOR,
    HELPER = 1 << FEDSERVER_ROLE_HELPER,
    READER = 1 << 8, /* at the front: operators, and those whom --page admits */
    ANYBODY = 0
};

typedef struct route {
    fedserver_listener listener;
    unsigned roles;
    const char *method, *path;
    fedserver_route_function function;
    uint64_t body_limit;
    unsigned ways;
} route;

static const route routes[] = {
#define FEDSERVER_ROUTE(listener, roles, method, path, function, body, ways)                       \
    {listener, roles, method, path, function, body, ways},
#include "fedserver/routes/routes.def"
#undef FEDSERVER_ROUTE
};

typedef struct refusal {
    int status;
    const char *word, *message;
} refusal;

static uint64_t body_limit(const fedserver *server, const route *to) {
    return to->body_limit != FEDSERVER_BODY_UPDATE ? to->body_limit
                                                   : fedserver_update_limit(server);
}

/* Find the device that asks; *device is NULL if it is not a known device. A database of an older
 * release knows a device by its certificate until the device's next request. */
static fed_status device_of(fedserver *server, const fedserver_request *request,
                            fedserver_device **device, fed_error *err) {
    *device = NULL;
    if (request->listener != FEDSERVER_DEVICES || request->fingerprint == NULL) {
        return FED_OK;
    }
    FED_TRY(fedserver_device_fetch(&server->rounds, request->fingerprint, device, err));
    return *device != NULL || request->certificate == NULL
               ? FED_OK
               : fedserver_device_fetch(&server->rounds, request->certificate, device, err);
}

/* A path that ends with '/' serves all paths below it, but "/" only the page. */
static bool is_at(const route *to, const char *path) {
    const size_t len = strlen(to->path);
    return strcmp(to->path, path) == 0 ||
           (len > 1 && to->path[len - 1] == '/' && strncmp(to->path, path, len) == 0);
}

static const route *find(const fedserver_request *request, bool *path_known) {
    const route *found = NULL;
    *path_known = false;
    for (size_t k = 0; k < sizeof routes / sizeof routes[0]; k++) {
        if (routes[k].listener == request->listener && is_at(&routes[k], request->path)) {
            *path_known = true;
            found = strcmp(routes[k].method, request->method) == 0 ? &routes[k] : found;
        }
    }
    return found;
}

static bool has_way(const fedserver_request *request, unsigned way) {
    bool path_known;
    const route *to = find(request, &path_known);
    return to != NULL && (to->ways & way) != 0;
}

static refusal admit(const fedserver *server, const fedserver_request *request,
                     const fedserver_device *device, uint64_t body_len, const route **to) {
    bool path_known = false;
    *to = find(request, &path_known);
    if (request->listener == FEDSERVER_DEVICES && device == NULL) {
        return (refusal){
            403, "device_unknown",
            "this certificate is not enrolled here; enrol the device with a new token"};
    }
    if (device != NULL && device->revoked_ms != 0) {
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
    if (device != NULL && ((*to)->roles >> device->role & 1) == 0) {
        return (refusal){
            403, "role",
            "the role of this certificate does not allow this request; enrol with a token "
            "of the right role (fedserver token --role)"};
    }
    if (body_len > body_limit(server, *to)) {
        return (refusal){
            413, "too_large",
            "the body is larger than this request can have; check that the client has the "
            "coordinator's task"};
    }
    return (refusal){0};
}

const char *fedserver_methods(const fedserver_request *head) {
    bool get = false, post = false;
    for (size_t k = 0; k < sizeof routes / sizeof routes[0]; k++) {
        if (routes[k].listener == head->listener && is_at(&routes[k], head->path)) {
            get = get || strcmp(routes[k].method, "GET") == 0;
            post = post || strcmp(routes[k].method, "POST") == 0;
        }
    }
    return get && post ? "GET, HEAD, POST" : get ? "GET, HEAD" : post ? "POST" : "";
}

bool fedserver_relays(const fedserver_request *head) {
    return has_way(head, RELAYED);
}

bool fedserver_body_in_parts(const fedserver_request *head) {
    return has_way(head, IN_PARTS);
}

/* Check the path and the size for a device that is not in memory. A follower knows no tasks, and
 * uses the leader's limit. Without this check, one device could reserve all the memory for
 * bodies. */
static int unknown_refused(const fedserver *server, const fedserver_request *head, uint64_t len) {
    bool path_known = false;
    const route *to = find(head, &path_known);
    if (to == NULL) {
        return path_known ? 405 : 404;
    }
    if (server->following && to->body_limit == FEDSERVER_BODY_UPDATE) {
        return server->heard_limit != 0 && len > server->heard_limit ? 503 : 0;
    }
    return len > body_limit(server, to) ? 413 : 0;
}

/* This function can't report a failure of the store, so it does not read the store. */
int fedserver_body_refused(fedserver *server, const fedserver_request *head, uint64_t len) {
    const route *to;
    if (server->following) {
        return unknown_refused(server, head, len);
    }
    const fedserver_device *device = NULL;
    if (head->listener == FEDSERVER_DEVICES) {
        const fedserver_devices *devices = &server->rounds.devices;
        if (head->fingerprint != NULL) {
            device = fedserver_devices_find(devices, head->fingerprint);
        }
        if (device == NULL && head->certificate != NULL) {
            device = fedserver_devices_find(devices, head->certificate);
        }
        if (device == NULL) {
            return unknown_refused(server, head, len);
        }
    }
    const int status = admit(server, head, device, len, &to).status;
    /* a small body is read, so that the answer can say why the request is refused */
    return status == 403 && len < FED_PEM_SIZE ? 0 : status;
}

/* An older release stored the fingerprint of a device's certificate: replace it by the fingerprint
 * of the device's key. */
static fed_status adopt(fedserver *server, fedserver_device *device, const uint8_t *fingerprint,
                        fed_error *err) {
    if (device == NULL || memcmp(device->fingerprint, fingerprint, FED_SHA256_SIZE) == 0) {
        return FED_OK;
    }
    FED_TRY(server->store->device_name(server->db, device->id, fingerprint, err));
    return fedserver_devices_name(&server->rounds.devices, device, fingerprint) == FED_OK
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory for a device's name");
}

static fed_status admit_visitor(fedserver *server, const route *to, const fedserver_call *call,
                                bool *admitted, fedserver_response *response, fed_error *err) {
    fedserver_visitor visitor = FEDSERVER_VISITOR_OPERATOR;
    if (to->listener == FEDSERVER_FRONT && to->roles != ANYBODY) {
        FED_TRY(fedserver_visitor_find(server, call->request, call->now_ms, &visitor, err));
    }
    *admitted = visitor >=
                ((to->roles & READER) != 0 ? FEDSERVER_VISITOR_READER : FEDSERVER_VISITOR_OPERATOR);
    if (*admitted) {
        return FED_OK;
    }
    if (fedserver_visitor_shows_pass(call->request)) {
        const char *reason = visitor == FEDSERVER_VISITOR_STRANGER ? "pass_unknown" : "pass_reads";
        FED_TRY(fedserver_audit_refusal(server, call->now_ms, reason, err));
    }
    return fedserver_visitor_refuse(server, call->request, visitor, response, err);
}

/* Devices at their own port make no rows of the audit log. */
static void act_for_visitor(fedserver *server, const route *to, const fedserver_call *call) {
    char by[FEDSERVER_VISITOR];
    const bool operates = call->device != NULL && call->device->role == FEDSERVER_ROLE_OPERATOR;
    if (to->listener == FEDSERVER_FRONT || operates) {
        fedserver_visitor_name(call->request, to->roles == ANYBODY, by);
        fedserver_act_for(server, by);
    }
}

static fed_status ask_rounds(fedserver *server, const route *to, const fedserver_call *call,
                             fedserver_response *response, fed_error *err) {
    if (!fedserver_relay_ask(server->relay, call->request, call->now_ms, response)) {
        response->retry_after_s = 1;
        return fedserver_answer_error(response, err, 503, "busy",
                                      "the coordinator does not answer, it may be starting: ask "
                                      "again");
    }
    return !response->hold && response->status == 200 && to->function == fedserver_get_metrics
               ? fedserver_metrics_append(server, response, err)
               : FED_OK;
}

static fed_status dispatch(fedserver *server, const fedserver_request *request, int64_t now_ms,
                           fedserver_response *response, fed_error *err) {
    const route *to;
    fedserver_call call = {.request = request, .now_ms = now_ms};
    FED_TRY(device_of(server, request, &call.device, err));
    const refusal refused = admit(server, request, call.device, request->body_len, &to);
    if (refused.status == 413 && to->body_limit == FEDSERVER_BODY_UPDATE) {
        server->rounds.counters.updates_too_large++;
        if (call.device != NULL) {
            call.device->refused++;
        }
    }
    if (refused.status != 0) {
        return fedserver_answer_error(response, err, refused.status, refused.word, "%s",
                                      refused.message);
    }
    /* A TLS session can be resumed after its certificate has expired, so check the expiry here. */
    if (call.device != NULL && call.device->expires_ms <= now_ms) {
        return fedserver_answer_error(response, err, 403, "device_unknown",
                                      "this device's certificate has expired; enrol it again");
    }
    FED_TRY(adopt(server, call.device, request->fingerprint, err));
    bool news = fedserver_device_seen(&server->rounds, call.device, request->agent, now_ms);
    if (call.device != NULL && request->authority != 0 &&
        request->authority != call.device->authority) {
        /* Store the device's CA at once, because a change of the CA waits for all devices. */
        call.device->authority = request->authority;
        news = true;
    }
    FED_TRY(news ? fedserver_device_save(&server->rounds, call.device, err) : FED_OK);
    bool admitted = false;
    act_for_visitor(server, to, &call);
    FED_TRY(admit_visitor(server, to, &call, &admitted, response, err));
    if (admitted && (to->ways & ACTS) != 0) {
        FED_TRY(fedserver_acting_admit(server, request, now_ms, &admitted, response, err));
    }
    if (!admitted) {
        return FED_OK;
    }
    if (server->setup.part == FEDSERVER_GATE && (to->ways & RELAYED) != 0) {
        return ask_rounds(server, to, &call, response, err);
    }
    return to->function(server, &call, response, err);
}

static bool answer_alone(const fedserver *server, const fedserver_request *request,
                         fedserver_response *response) {
    bool path_known;
    fed_error why = {0};
    const route *to = find(request, &path_known);
    if (to == NULL ||
        (to->function != fedserver_get_metrics && to->function != fedserver_get_coordinator)) {
        return false;
    }
    const fed_status status = to->function == fedserver_get_metrics
                                  ? fedserver_metrics_of_follower(server, response, &why)
                                  : fedserver_coordinator_answer(server, response, &why);
    if (status != FED_OK) {
        *response = (fedserver_response){.status = 503}; /* out of memory */
    }
    return true;
}

static fed_status answer(fedserver *server, const fedserver_request *request, int64_t now_ms,
                         fedserver_response *response, fed_error *err) {
    const fed_status status = dispatch(server, request, now_ms, response, err);
    fedserver_act_for(server, "");
    FED_TRY(status);
    if (response->hold) {
        return FED_OK; /* a held request is counted when it is answered */
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

const fedserver_routing fedserver_router = {
    .answer = answer, .relayed = fedserver_relays, .alone = answer_alone};
