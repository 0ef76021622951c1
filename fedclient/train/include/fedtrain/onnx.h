/* Models as ONNX files, for inference elsewhere. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_ONNX_H
#define FEDTRAIN_ONNX_H

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"

FED_API_BEGIN

/**
 * Write a model with its weights as an ONNX file (IR version 7, operators of version 13), which
 * appears whole or not at all.
 *
 *   input    "input" float32[batch, c, h, w], or float32[batch, n] of a table's row; or "tokens"
 *            int64[batch, T]
 *   output   "scores" float32[batch, classes], before the softmax, or float32[batch, T, classes]
 *
 * The batch may have any size. The file has the net for inference: dropout is left out, batch
 * normalization uses the running statistics, and LSTMs begin each call with a state of 0. The
 * weights have the names of their tensors; an LSTM's are put in ONNX's order of gates under names
 * of its own.
 *
 * params    float32[layout.size]
 * metadata  NULL, or a list of key, value, ..., NULL
 * Errors    FED_ENONFINITE a value that is not finite: *err names its tensor; FED_ERANGE more than
 *           2 GiB, the format's limit; FED_ENOMEM; the errors of fed_file_create, such as FED_EIO
 */
fed_status fedtrain_onnx_save(const char *path, const fed_arch *arch, const float *params,
                              const char *const *metadata, fed_error *err) FED_CHECKED;

FED_API_END

#endif
