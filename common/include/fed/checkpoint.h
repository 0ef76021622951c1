/* Checkpoints in the safetensors format, so that PyTorch and Hugging Face tools open them. */
#ifndef FED_CHECKPOINT_H
#define FED_CHECKPOINT_H

#include "fed/api.h"
#include "fed/error.h"
#include "fed/model.h"

FED_API_BEGIN

/**
 * Write a model as a safetensors file: 8 bytes header length, a JSON header (padded with blanks to
 * 8 bytes), the values as little-endian F32 in the layout's order. The file appears whole or not at
 * all (fed_file_replace). metadata: NULL, or a list of key, value, ..., NULL for "__metadata__".
 * Errors: FED_ENONFINITE a NaN or infinity (names the tensor); FED_EIO, FED_ENOSPC with the path
 * and the reason.
 */
fed_status fed_checkpoint_save(const char *path, const fed_layout *layout, const float *values,
                               const char *const *metadata, fed_error *err) FED_CHECKED;

/**
 * Read one, whatever tensors it has; they come in the order of their data. F16 and BF16 become
 * float32. Refused are unknown header keys, tensors of other types, offsets that do not cover the
 * data exactly once, and values that are not finite. Errors: FED_ENOTFOUND, FED_EIO, FED_ERANGE a
 * file too large, FED_EFORMAT, FED_ENONFINITE; with path and what is wrong. Owner: the caller,
 * fed_model_free.
 */
fed_status fed_checkpoint_load(const char *path, fed_model *model, fed_error *err) FED_CHECKED;

/** The same from bytes in memory (what a fuzzer calls); `name` stands for the path in messages. */
fed_status fed_checkpoint_parse(const char *name, const uint8_t *data, size_t len, fed_model *model,
                                fed_error *err) FED_CHECKED;

/** A file open for reading, mapped: it must not shrink meanwhile. */
typedef struct fed_checkpoint fed_checkpoint;

/** Errors as fed_checkpoint_load's, but values are not looked at yet. Owner: fed_checkpoint_close,
 * for which NULL is fine. */
fed_status fed_checkpoint_open(const char *path, fed_checkpoint **file, fed_error *err) FED_CHECKED;
void fed_checkpoint_close(fed_checkpoint *file);

/** The metadata's value of a key; NULL: there is none, or not in printable ASCII. Lives as long as
 * the file is open. */
const char *fed_checkpoint_note(const fed_checkpoint *file, const char *key);

/** The shape of a tensor by its name; NULL: there is none. Its offset means nothing here. */
const fed_tensor *fed_checkpoint_find(const fed_checkpoint *file, const char *name);

/**
 * Read the tensors of a layout by their names, in whatever order the file has them, so also what
 * PyTorch saved. The file must have just these, but for what is no weight: "num_batches_tracked" of
 * PyTorch's batch normalization, and tensors whose name begins with "optimizer.", which are skipped
 * unless the layout has them.
 *
 * values float32[layout->size]; changed also on failure
 * Errors FED_EFORMAT, naming the tensors that are missing, too many, or of another shape or type;
 *        FED_ENONFINITE
 */
fed_status fed_checkpoint_read(const fed_checkpoint *file, const fed_layout *layout, float *values,
                               fed_error *err) FED_CHECKED;

FED_API_END

#endif
