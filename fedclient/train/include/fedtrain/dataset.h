/* Labelled samples: the IDX reader, and how they are split among clients. */
#ifndef FEDTRAIN_DATASET_H
#define FEDTRAIN_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/** Samples in memory, read-only once loaded: many clients share one. */
typedef struct fedtrain_dataset {
    size_t count;
    size_t sample_size; /* values a sample: height * width */
    uint32_t classes;   /* 1 + the largest label */
    uint8_t *pixel;     /* uint8[count, height, width], as in the file */
    uint8_t *label;     /* uint8[count] */
} fedtrain_dataset;

/**
 * Read an IDX pair: images (magic 0x00000803) and labels (0x00000801), big-endian heads, as on the
 * MNIST page. Errors name the file and the byte offset: FED_ENOTFOUND, FED_EIO, FED_EFORMAT (wrong
 * magic, sizes that lie, different counts). Owner: fedtrain_dataset_free.
 */
fed_status fedtrain_dataset_load_idx(const char *images, const char *labels, fedtrain_dataset *set,
                                     fed_error *err) FED_CHECKED;

/** MNIST's files in a directory: "train" or "t10k", under their usual names. */
fed_status fedtrain_dataset_load_mnist(const char *directory, const char *part,
                                       fedtrain_dataset *set, fed_error *err) FED_CHECKED;
void fedtrain_dataset_free(fedtrain_dataset *set);

/** Copy samples out as floats: x[b, :] = pixel[index[b], :] / 255, label[b].  x float32[n,
 * sample_size], label uint8[n] */
void fedtrain_dataset_gather(const fedtrain_dataset *set, const uint32_t *index, size_t n, float *x,
                             uint8_t *label);

/** Which samples one client holds. */
typedef struct fedtrain_shard {
    uint32_t *index; /* uint32[count], into the dataset */
    size_t count;
} fedtrain_shard;

typedef enum fedtrain_split { FEDTRAIN_SPLIT_IID = 0, FEDTRAIN_SPLIT_TWO_CLASS = 1 } fedtrain_split;

/** "iid" or "two-class". */
fed_status fedtrain_split_parse(const char *name, fedtrain_split *split,
                                fed_error *err) FED_CHECKED;

/**
 * Client k's part of the dataset; over k = 0 .. clients - 1 the parts are disjoint and cover every
 * sample, and the same seed gives the same parts. i.i.d.: a shuffled deck dealt out. Two-class:
 * sorted by label, cut into 2 * clients equal pieces, two random pieces a client (McMahan et al.
 * 2017, section 3), so most clients see two digits. Errors: FED_EINVAL clients 0, k >= clients, or
 * more clients than half the samples; FED_ENOMEM. Owner: fedtrain_shard_free.
 */
fed_status fedtrain_shard_take(const fedtrain_dataset *set, fedtrain_split split, uint32_t clients,
                               uint32_t k, uint64_t seed, fedtrain_shard *shard,
                               fed_error *err) FED_CHECKED;
void fedtrain_shard_free(fedtrain_shard *shard);

#endif
