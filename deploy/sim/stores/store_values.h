/* Inside the clients' stores: the values of each client, and the models that clients share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STORE_VALUES_H
#define FEDSIM_STORE_VALUES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "deploy/sim/stores/blocks.h"

enum { SIM_STORE_KEY = 24, SIM_STORE_SMALL = 8192 /* bytes of a value that needs no block */ };

/** A model that clients hold: its record. */
typedef struct sim_model {
    struct sim_model *next;
    uint8_t *data; /* a block */
    size_t len;
    size_t holders;  /* under the stores' mutex; the thread that makes it 0 frees the model */
    uint32_t number; /* in the index */
} sim_model;

/** A value of a client: small ones in malloc's memory, large ones in a block, models shared. */
typedef struct sim_value {
    struct sim_value *next;
    uint8_t *data;
    size_t len;
    bool in_block;
    sim_model *model; /* NULL: it is not shared; else data is the model's */
    char key[SIM_STORE_KEY];
} sim_value;

typedef struct sim_stores sim_stores;

/** One client's. */
typedef struct sim_store {
    sim_stores *stores;
    sim_value *values; /* a handful: a list is enough */
    float *optimizer;  /* a block */
    size_t optimizer_floats;
} sim_store;

struct sim_stores {
    sim_blocks blocks;
    uint32_t clients;
    sim_store *store; /* [clients] */
    pthread_mutex_t mutex;
    sim_model *models;
    size_t model_count;
    bool kept;          /* it has a path */
    atomic_bool synced; /* nothing has changed since */
};

/** Do clients share the values of this key? */
bool sim_key_is_shared(const char *key);

/** Where the value of that key is linked in; *(the answer) is NULL: there is none. */
sim_value **sim_store_find(sim_store *store, const char *key);
/** The value of that key, new and empty where there is none; NULL: no memory. */
sim_value *sim_store_value(sim_store *store, const char *key);
/** Replace what a value holds, and release what it held. */
void sim_value_set(sim_stores *stores, sim_value *value, uint8_t *data, size_t len, bool in_block,
                   sim_model *model);
/** Release what a value holds; not the value itself. */
void sim_value_leave(sim_stores *stores, const sim_value *value);

/** The model of a record, which is in a block of its own, with another holder. Where the same model
 * is there already, the block is given back. Another model with the same head, which nobody who
 * checks digests makes, stays apart. NULL: no memory. */
sim_model *sim_model_of(sim_stores *stores, uint8_t *block, size_t len);
/** The model whose record begins with these bytes, with another holder; NULL: there is none. */
sim_model *sim_model_hold(sim_stores *stores, const void *head, size_t len);
/** One holder less; after the last one the model is freed. */
void sim_model_leave(sim_stores *stores, sim_model *model);

#endif
