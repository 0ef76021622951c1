/* Labelled samples: where they come from, and how they are handed to a net. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_DATASET_H
#define FEDTRAIN_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"
#include "fed/rng.h"
#include "fedtrain/file_bytes.h"

FED_API_BEGIN

/** Samples that lie one after another in memory: sample i begins at first + i * stride. */
typedef struct fedtrain_block {
    fedtrain_bytes bytes;
    const uint8_t *first;
    size_t count, stride;
} fedtrain_block;

enum { FEDTRAIN_BLOCKS = 8, FEDTRAIN_CLASSES = 256 };

/**
 * Samples of one shape, read-only once opened: any number of threads and clients share a set.
 * Pictures stay bytes; a table's rows become floats.
 */
typedef struct fedtrain_dataset {
    size_t count;
    fed_shape shape;  /* shape of a sample; a row of n features is {n, 1, 1} */
    uint32_t classes; /* 1 + the largest label; 256 at most */
    uint8_t *label;   /* uint8[count]; NULL: the samples have targets instead */
    /* digest of the classes' names in their order; 0: the classes have no names */
    uint64_t class_names;
    float *target; /* float32[count], a number to predict for each sample; NULL: classes */

    bool is_float; /* samples are float32[c, h, w], else uint8[c, h, w] */
    size_t block_count;
    fedtrain_block block[FEDTRAIN_BLOCKS];
    float *scale, *shift; /* float32[c] each: x = value * scale + shift; NULL: not normalised */
} fedtrain_dataset;

/**
 * Open one split, "train" or "test", of a data set, by its name and directory:
 *
 *   mnist, fashion-mnist   an IDX pair under its usual names, such as train-images-idx3-ubyte
 *   cifar10                data_batch_1.bin to data_batch_5.bin; test_batch.bin
 *   cifar100               train.bin; test.bin; the labels are the fine ones, of 100 classes
 *   csv, csv:label=COLUMN  train.csv; test.csv: a line a sample, numbers separated by commas.
 *                          COLUMN holds the classes: "first", "last" (the default), or a name
 *                          from the header
 *   csv:target=COLUMN      the same files for regression: COLUMN holds the number to predict, of a
 *                          model that ends in "dense 1 | mse". Targets are never normalised
 *
 * Classes are whole numbers from 0 to 255. Where there is a file classes.txt, classes are the names
 * in that file, one a line, from class 0 on: all devices and the evaluator need the same file. Sets
 * with targets ignore the file. The first line of a table is a header if one of its fields is
 * neither a number, nor the name of a class, nor the mark of a missing value. Fields may stand in
 * double quotes; blank lines are skipped. Tables and classes.txt may have any form that
 * fed_text_clean (fed/file.h) reads.
 *
 * Where a file is missing, the same name with .gz is tried. A file that begins as gzip does is
 * unpacked into memory. Other files are mapped, so they must not shrink while the set is open.
 *
 * Errors  name the file, and the byte offset in it (of a packed one: in what it unpacks to), or
 *         line and column. FED_EINVAL an unknown name or split; FED_ENOTFOUND, FED_EIO, FED_ENOMEM;
 *         FED_EFORMAT sizes that do not fit the file, truncated files, labels out of range, a table
 *         in UTF-16; FED_ERANGE more than 2 GiB; FED_EVERSION a packed file, in a build without
 *         zlib
 * Owner   fedtrain_dataset_free
 */
fed_status fedtrain_dataset_open(const char *name, const char *directory, const char *part,
                                 fedtrain_dataset *set, fed_error *err) FED_CHECKED;

/** The k-th name that fedtrain_dataset_open knows; NULL past the last. */
const char *fedtrain_dataset_name(size_t k);

/** Open a pair of IDX files of any name: images (magic 0x00000803) and labels (0x00000801),
 * big-endian heads, as on the MNIST page. Errors and owner as for fedtrain_dataset_open. */
fed_status fedtrain_dataset_load_idx(const char *images, const char *labels, fedtrain_dataset *set,
                                     fed_error *err) FED_CHECKED;

/** Call fedtrain_dataset_open with "mnist". The part may also be called "t10k". */
fed_status fedtrain_dataset_load_mnist(const char *directory, const char *part,
                                       fedtrain_dataset *set, fed_error *err) FED_CHECKED;

/** Make a set of a device's own pictures. pixel uint8[count, c, h, w] stays the caller's and must
 * outlive the set; label uint8[count] is copied. FED_EINVAL no samples or an empty shape;
 * FED_ENOMEM. */
fed_status fedtrain_dataset_wrap(const uint8_t *pixel, const uint8_t *label, size_t count,
                                 fed_shape shape, fedtrain_dataset *set) FED_CHECKED;

/** Safe on a zeroed set. */
void fedtrain_dataset_free(fedtrain_dataset *set);

/**
 * Compute mean and standard deviation of each channel (of a table: of each column) over all
 * samples, of the values that fedtrain_dataset_gather would give without normalisation. The
 * deviation of a constant channel is 1. mean, deviation float32[c]
 */
void fedtrain_dataset_measure(const fedtrain_dataset *set, float *mean, float *deviation);

/**
 * From now on fedtrain_dataset_gather gives (value - mean) / deviation. A new set is not
 * normalised. All clients and the test set must use the same numbers, such as
 * fedtrain_dataset_measure's for the training set. No other thread may read the set during this
 * call. mean and deviation, float32[c], are copied.
 * Errors FED_EINVAL not finite, or a deviation that is not positive; FED_ENOMEM
 */
fed_status fedtrain_dataset_normalise(fedtrain_dataset *set, const float *mean,
                                      const float *deviation) FED_CHECKED;

/**
 * Normalise a set by the mean and deviation of n samples of the set `by`, such as a device's own
 * shard; `by` may be the set itself. index uint32[n], each < by->count; NULL: the first n samples.
 * Errors FED_EINVAL n is 0, the sets' channels differ, or as for fedtrain_dataset_normalise;
 * FED_ENOMEM
 */
fed_status fedtrain_dataset_normalise_by(fedtrain_dataset *set, const fedtrain_dataset *by,
                                         const uint32_t *index, size_t n) FED_CHECKED;

/** Copy samples out as floats: x[b] is pixels / 255, or a table's row. They are normalised if the
 * set is. index uint32[n], each < count   x float32[n, c, h, w]   label uint32[n], untouched where
 * the samples have targets */
void fedtrain_dataset_gather(const fedtrain_dataset *set, const uint32_t *index, size_t n, float *x,
                             uint32_t *label);

/** Copy the targets of these samples out; the set must have targets (set->target).
 * index uint32[n], each < count   target float32[n] */
void fedtrain_dataset_gather_targets(const fedtrain_dataset *set, const uint32_t *index, size_t n,
                                     float *target);

/** Random variation of pictures in training. A zeroed struct varies nothing. */
typedef struct fedtrain_augment {
    uint32_t padding; /* black pixels around a picture, before a random cut of its size */
    bool flip;        /* mirror left and right with probability 1/2 */
} fedtrain_augment;

/** Gather pictures, and vary each at random. For each, rng draws two places for the cut if there
 * is padding, and then the flip if it is on. Samples must be pictures, and padding less than h
 * and w. Padding is black before normalisation, as in PyTorch's usual order of transforms. */
void fedtrain_dataset_gather_augmented(const fedtrain_dataset *set, const fedtrain_augment *augment,
                                       fed_rng *rng, const uint32_t *index, size_t n, float *x,
                                       uint32_t *label);

FED_API_END

#endif
