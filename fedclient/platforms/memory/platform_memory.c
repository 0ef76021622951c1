/* The memory platform: a store that is lost when its process ends, for simulations and tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fedclient/memory_store.h"

typedef struct memory_value {
    struct memory_value *next;
    uint8_t *data;
    size_t len, cap; /* cap: bytes allocated, at least len */
    char key[];
} memory_value;

typedef struct memory_store {
    memory_value *first;
} memory_store;

static memory_value **find(memory_store *store, const char *key) {
    memory_value **at = &store->first;
    while (*at != NULL && strcmp((*at)->key, key) != 0) {
        at = &(*at)->next;
    }
    return at;
}

static int64_t memory_unix_ms(void *user) {
    (void)user;
    return fed_clock_unix_ms();
}

static int64_t memory_monotonic_ms(void *user) {
    (void)user;
    return fed_clock_monotonic_ms();
}

static memory_value *value_new(const char *key) {
    size_t size = strlen(key) + 1;
    memory_value *value = calloc(1, sizeof *value + size);
    if (value != NULL) {
        memcpy(value->key, key, size);
    }
    return value;
}

static fed_status memory_put(void *user, const char *key, const void *data, size_t len,
                             fed_error *err) {
    memory_value **at = find(user, key);
    memory_value *value = *at != NULL ? *at : value_new(key);
    if (value != NULL && len > value->cap) {
        uint8_t *block = malloc(len);
        if (block != NULL) {
            free(value->data);
            value->data = block;
            value->cap = len;
        }
    }
    if (value == NULL || len > value->cap) {
        if (*at == NULL) {
            free(value);
        }
        return fed_fail(err, FED_ENOMEM, "out of memory while storing \"%s\" (%zu bytes)", key,
                        len);
    }
    if (len > 0) {
        memcpy(value->data, data, len);
    }
    value->len = len;
    *at = value;
    return FED_OK;
}

static fed_status memory_get(void *user, const char *key, uint8_t **data, size_t *len,
                             fed_error *err) {
    const memory_value *value = *find(user, key);
    if (value == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "nothing is stored as \"%s\"", key);
    }
    uint8_t *copy = malloc(value->len + 1);
    if (copy == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory while reading \"%s\" (%zu bytes)", key,
                        value->len);
    }
    if (value->len > 0) {
        memcpy(copy, value->data, value->len);
    }
    *data = copy;
    *len = value->len;
    return FED_OK;
}

static void *memory_room(void *user, size_t len) {
    (void)user;
    return malloc(len);
}

static void memory_leave(void *user, void *room) {
    (void)user;
    free(room);
}

static fed_status memory_give(void *user, const char *key, void *room, size_t len, fed_error *err) {
    memory_value **at = find(user, key);
    memory_value *value = *at != NULL ? *at : value_new(key);
    if (value == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory while storing \"%s\"", key);
    }
    free(value->data);
    value->data = room;
    value->len = len;
    value->cap = len;
    *at = value;
    return FED_OK;
}

static fed_status memory_edit(void *user, const char *key, uint8_t **data, size_t *len,
                              fed_error *err) {
    const memory_value *value = *find(user, key);
    if (value == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "nothing is stored as \"%s\"", key);
    }
    *data = value->data;
    *len = value->len;
    return FED_OK;
}

static fed_status memory_lend(void *user, const char *key, const uint8_t **data, size_t *len,
                              fed_error *err) {
    uint8_t *found = NULL;
    FED_TRY(memory_edit(user, key, &found, len, err));
    *data = found;
    return FED_OK;
}

static const fedclient_memory where_they_lie = {.room = memory_room,
                                                .leave = memory_leave,
                                                .give = memory_give,
                                                .lend = memory_lend,
                                                .edit = memory_edit};

static void value_free(memory_value *value) {
    free(value->data);
    free(value);
}

static fed_status memory_drop(void *user, const char *key, fed_error *err) {
    (void)err;
    memory_value **at = find(user, key);
    memory_value *value = *at;
    if (value != NULL) {
        *at = value->next;
        value_free(value);
    }
    return FED_OK;
}

fed_status fedclient_platform_memory_open(fedclient_platform *platform, fed_error *err) {
    memory_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a client's store in memory");
    }
    *platform = (fedclient_platform){.user = store,
                                     .unix_ms = memory_unix_ms,
                                     .monotonic_ms = memory_monotonic_ms,
                                     .put = memory_put,
                                     .get = memory_get,
                                     .drop = memory_drop,
                                     .memory = &where_they_lie};
    return FED_OK;
}

void fedclient_platform_memory_close(fedclient_platform *platform) {
    memory_store *store = platform->user;
    while (store != NULL && store->first != NULL) {
        memory_value *value = store->first;
        store->first = value->next;
        value_free(value);
    }
    free(store);
    *platform = (fedclient_platform){0};
}
