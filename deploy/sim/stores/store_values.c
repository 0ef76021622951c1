/* The values of clients' stores. Clients share models: of each there is one copy. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/stores/store_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The head of a model's record has its task, version and digest (docs/durability.md). */
enum { SHARED_HEAD = 64 };

bool sim_key_is_shared(const char *key) {
    return strcmp(key, "model") == 0;
}

/* ---- Models ---- */

void sim_model_leave(sim_stores *stores, sim_model *model) {
    pthread_mutex_lock(&stores->mutex);
    bool last = --model->holders == 0;
    if (last) {
        sim_model **at = &stores->models;
        while (*at != model) {
            at = &(*at)->next;
        }
        *at = model->next;
        stores->model_count--;
    }
    pthread_mutex_unlock(&stores->mutex);
    if (last) {
        sim_blocks_give_back(&stores->blocks, model->data);
        free(model);
    }
}

/** The model whose record begins with these bytes. len 0: of any length. NULL: there is none. Under
 * the mutex. */
static sim_model *model_find(const sim_stores *stores, const void *head, size_t head_len,
                             size_t len) {
    sim_model *model = stores->models;
    while (model != NULL && ((len != 0 && model->len != len) || model->len < head_len ||
                             memcmp(model->data, head, head_len) != 0)) {
        model = model->next;
    }
    return model;
}

sim_model *sim_model_hold(sim_stores *stores, const void *head, size_t len) {
    pthread_mutex_lock(&stores->mutex);
    sim_model *model = model_find(stores, head, len, 0);
    if (model != NULL) {
        model->holders++;
    }
    pthread_mutex_unlock(&stores->mutex);
    return model;
}

static void model_add(sim_stores *stores, sim_model *model) {
    model->next = stores->models;
    stores->models = model;
    stores->model_count++;
}

sim_model *sim_model_of(sim_stores *stores, uint8_t *block, size_t len) {
    sim_model *own = malloc(sizeof *own);
    if (own == NULL) {
        return NULL;
    }
    *own = (sim_model){.data = block, .len = len, .holders = 1};
    const size_t head = len < SHARED_HEAD ? len : SHARED_HEAD;
    pthread_mutex_lock(&stores->mutex);
    sim_model *there = model_find(stores, block, head, len);
    if (there != NULL) {
        there->holders++;
    } else {
        model_add(stores, own);
    }
    pthread_mutex_unlock(&stores->mutex);
    if (there == NULL) {
        return own;
    }
    if (memcmp(there->data, block, len) == 0) {
        sim_blocks_give_back(&stores->blocks, block);
        free(own);
        return there;
    }
    sim_model_leave(stores, there);
    pthread_mutex_lock(&stores->mutex);
    model_add(stores, own);
    pthread_mutex_unlock(&stores->mutex);
    return own;
}

/* ---- A client's values ---- */

sim_value **sim_store_find(sim_store *store, const char *key) {
    sim_value **at = &store->values;
    while (*at != NULL && strcmp((*at)->key, key) != 0) {
        at = &(*at)->next;
    }
    return at;
}

sim_value *sim_store_value(sim_store *store, const char *key) {
    sim_value **at = sim_store_find(store, key);
    if (*at == NULL && strlen(key) < SIM_STORE_KEY) {
        *at = calloc(1, sizeof **at);
        if (*at != NULL) {
            snprintf((*at)->key, sizeof(*at)->key, "%s", key);
        }
    }
    return *at;
}

void sim_value_leave(sim_stores *stores, const sim_value *value) {
    if (value->model != NULL) {
        sim_model_leave(stores, value->model);
    } else if (value->in_block) {
        sim_blocks_give_back(&stores->blocks, value->data);
    } else {
        free(value->data);
    }
}

void sim_value_set(sim_stores *stores, sim_value *value, uint8_t *data, size_t len, bool in_block,
                   sim_model *model) {
    sim_value_leave(stores, value);
    value->data = data;
    value->len = len;
    value->in_block = in_block;
    value->model = model;
}
