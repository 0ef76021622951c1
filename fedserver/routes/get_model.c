/* GET /v1/model?task=T&have=V&want=W: what a device lacks of the newest model. */
#include <string.h>

#include "fedserver/router.h"

/* The value of `key` in a query such as "task=1&have=none"; NULL where it is missing. */
static const char *query_value(const char *query, const char *key, size_t *len) {
    size_t key_len = strlen(key);
    while (*query != '\0') {
        size_t pair = strcspn(query, "&");
        if (pair > key_len && query[key_len] == '=' && memcmp(query, key, key_len) == 0) {
            *len = pair - key_len - 1;
            return query + key_len + 1;
        }
        query += pair + (query[pair] == '&');
    }
    return NULL;
}

static bool query_number(const char *query, const char *key, uint64_t limit, uint64_t *number) {
    size_t len = 0;
    const char *text = query_value(query, key, &len);
    uint64_t value = 0;
    if (text == NULL || len == 0 || len > 19) { /* 19 digits always fit */
        return false;
    }
    for (size_t k = 0; k < len; k++) {
        if (text[k] < '0' || text[k] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text[k] - '0');
    }
    *number = value;
    return value <= limit;
}

fed_status fedserver_get_model(fedserver *server, const fedserver_call *call,
                               fedserver_response *response, fed_error *err) {
    const char *query = call->request->query;
    size_t len = 0;
    const char *text = query_value(query, "have", &len);
    bool none = text != NULL && len == 4 && memcmp(text, "none", 4) == 0;
    uint64_t task;
    uint64_t want;
    uint64_t have = 0;
    if (!query_number(query, "task", UINT64_MAX, &task) ||
        !query_number(query, "want", UINT32_MAX, &want) ||
        (!none && !query_number(query, "have", UINT32_MAX, &have))) {
        return fedserver_answer_error(response, err, 400, "bad_request",
                                      "the query must be task=T&have=V&want=W in numbers, where "
                                      "have may be none");
    }
    fedserver_training *t = &server->training;
    if (!t->loaded || task != t->task.wire.id || want != t->versions.version) {
        return fedserver_answer_error(response, err, 404, "model_gone",
                                      "only the newest version is served; check in again");
    }
    FED_TRY(fedserver_versions_get(&t->versions, none, (uint32_t)have, &response->body, err));
    response->content_type = "application/octet-stream";
    return FED_OK;
}
