/* Checkpoints in the safetensors format, so that PyTorch and Hugging Face tools open them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CHECKPOINT_H
#define FED_CHECKPOINT_H

#include "fed/api.h"
#include "fed/error.h"
#include "fed/model.h"

FED_API_BEGIN

/**
 * Write a model as a safetensors file: 8 bytes header length, a JSON header (padded with blanks to
 * 8 bytes), the values as little-endian F32 in the layout's order. The file appears whole or not at
 * all, if it is a plain one (FED_FILE_OUTPUT in fed/file.h). Its mode is 0644. metadata: NULL, or
 * a list of key, value, ..., NULL for "__metadata__". Errors: FED_ENONFINITE a NaN or infinity
 * (names the tensor); FED_EIO, FED_ENOSPC with the path and the reason.
 */
fed_status fed_checkpoint_save(const char *path, const fed_layout *layout, const float *values,
                               const char *const *metadata, fed_error *err) FED_CHECKED;

/** Write a file as fed_checkpoint_save does, with a mode as for fed_file_replace. */
fed_status fed_checkpoint_save_as(const char *path, unsigned mode, const fed_layout *layout,
                                  const float *values, const char *const *metadata,
                                  fed_error *err) FED_CHECKED;

/**
 * Read a safetensors file with all its tensors, in the order of their data. F16 and BF16 become
 * float32. Refused are unknown header keys, tensors of other types, offsets that do not cover the
 * data exactly once, and values that are not finite.
 * Errors: FED_ENOTFOUND, FED_EIO, FED_ERANGE the file is too large, FED_EFORMAT, FED_ENONFINITE,
 * FED_ENOMEM.
 * *err names the path and what is wrong. The caller frees the model with fed_model_free.
 */
fed_status fed_checkpoint_load(const char *path, fed_model *model, fed_error *err) FED_CHECKED;

/** Read a model as fed_checkpoint_load does, but from bytes in memory, for a fuzzer. Errors have
 * name in place of the path. */
fed_status fed_checkpoint_parse(const char *name, const uint8_t *data, size_t len, fed_model *model,
                                fed_error *err) FED_CHECKED;

/** A file that is open for reading and mapped. It must not shrink while it is open. */
typedef struct fed_checkpoint fed_checkpoint;

/** Open a file. Its values are not checked yet. Errors: as fed_checkpoint_load. Close it with
 * fed_checkpoint_close, which accepts NULL. */
fed_status fed_checkpoint_open(const char *path, fed_checkpoint **file, fed_error *err) FED_CHECKED;
void fed_checkpoint_close(fed_checkpoint *file);

/** Return the metadata's value of a key, valid while the file is open. NULL: there is none in
 * printable ASCII. */
const char *fed_checkpoint_note(const fed_checkpoint *file, const char *key);

/** Return the shape of a tensor by its name, or NULL. The tensor's offset has no meaning here. */
const fed_tensor *fed_checkpoint_find(const fed_checkpoint *file, const char *name);

/**
 * Read the tensors of a layout by their names, in any order, so also from files of PyTorch. The
 * file must have exactly these tensors. Two kinds are skipped unless the layout has them, since
 * they are not weights: "num_batches_tracked" of PyTorch's batch normalization, and names that
 * begin with "optimizer.".
 *
 * values float32[layout->size]; changed also on failure
 * Errors FED_EFORMAT, naming tensors that are missing, unexpected, or of another shape or type;
 *        FED_ENONFINITE
 */
fed_status fed_checkpoint_read(const fed_checkpoint *file, const fed_layout *layout, float *values,
                               fed_error *err) FED_CHECKED;

FED_API_END

#endif
