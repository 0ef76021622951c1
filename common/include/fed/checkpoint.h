/* Checkpoints in the safetensors format, so that PyTorch and Hugging Face tools open them. */
#ifndef FED_CHECKPOINT_H
#define FED_CHECKPOINT_H

#include "fed/error.h"
#include "fed/model.h"

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
 * Read one. Only F32 tensors; the tensors come in the order of their data. Unknown header keys are
 * refused, as is any header whose offsets do not cover the data exactly once, and any value that is
 * not finite. Errors: FED_ENOTFOUND, FED_EIO, FED_ERANGE a file too large, FED_EFORMAT,
 * FED_ENONFINITE; with path and what is wrong. Owner: the caller, fed_model_free.
 */
fed_status fed_checkpoint_load(const char *path, fed_model *model, fed_error *err) FED_CHECKED;

/** The same from bytes in memory (what a fuzzer calls); `name` stands for the path in messages. */
fed_status fed_checkpoint_parse(const char *name, const uint8_t *data, size_t len, fed_model *model,
                                fed_error *err) FED_CHECKED;

#endif
