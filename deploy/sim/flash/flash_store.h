/* Inside the clients' stores: what there is of each client, and what they share. */
#ifndef FEDSIM_FLASH_STORE_H
#define FEDSIM_FLASH_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "deploy/sim/flash/blocks.h"
#include "deploy/sim/flash/flash.h"

enum { SIM_FLASH_KEY = 24, SIM_FLASH_SMALL = 8192 /* bytes of a value that needs no block */ };

/** A model that clients hold: its record. */
typedef struct sim_model {
    struct sim_model *next;
    uint8_t *data; /* a block */
    size_t len;
    size_t holders;  /* under the flash's mutex; 0: who finds it so frees it */
    uint32_t number; /* in the index */
} sim_model;

/** A value of a client: small ones in malloc's memory, large ones in a block, models shared. */
typedef struct sim_value {
    struct sim_value *next;
    uint8_t *data;
    size_t len;
    bool in_block;
    sim_model *model; /* NULL: it is not shared; else data is the model's */
    char key[SIM_FLASH_KEY];
} sim_value;

typedef struct sim_store {
    sim_flash *flash;
    sim_value *values; /* a handful: a list is enough */
    float *optimizer;  /* a block */
    size_t optimizer_floats;
} sim_store;

struct sim_flash {
    sim_blocks blocks;
    uint32_t clients;
    sim_store *stores; /* [clients] */
    pthread_mutex_t mutex;
    sim_model *models;
    size_t model_count;
    bool kept;          /* it has a path */
    atomic_bool synced; /* nothing has changed since */
};

/** A value of that name, new and empty where there is none; NULL: no memory. */
sim_value *sim_store_value(sim_store *store, const char *key);

/* flash_index.c */

/** Take up what sim_flash_sync has left in the file. */
fed_status sim_index_load(sim_flash *flash, const char *path, fed_error *err) FED_CHECKED;
/** The file is not one to resume from, and won't be seen as one, whatever dies. */
fed_status sim_index_spoil(sim_flash *flash, fed_error *err) FED_CHECKED;

#endif
