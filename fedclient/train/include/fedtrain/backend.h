/* The backends of this build: implementations of the layers, of which a net takes one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_BACKEND_H
#define FEDTRAIN_BACKEND_H

#include <stddef.h>

#include "fed/api.h"
#include "fed/arch.h"
#include "fed/error.h"

FED_API_BEGIN

/**
 * The k-th backend's name; NULL past the last. The first one is the default.
 *
 *   fast       for processors: vectors, one thread
 *   bfloat16   as fast, but convolutions, LSTMs and dense layers of sequences multiply values that
 *              are rounded to bfloat16; sums, weights and all else are float32. For processors with
 *              AVX512_BF16; slower than fast on others
 *   reference  plain, slow loops; the tests compare all other backends with it
 *   gpu        OpenCL and CUDA devices (fed/gpu.h), the first one that can be used. A device's
 *              name, such as "opencl:0" or "cuda", chooses this backend on that device. Compiled
 *              kernels are kept in the folder that the environment variable FED_GPU_CACHE names. A
 *              build without common/gpu has no such backend
 */
const char *fedtrain_backend_name(size_t k);

/** Check that there is a backend of this name, and that it runs this model. A NULL name is the
 * default backend; with a NULL arch only the name is checked. FED_EINVAL: a check failed, and *err
 * says why. */
fed_status fedtrain_backend_fits(const char *name, const fed_arch *arch,
                                 fed_error *err) FED_CHECKED;

FED_API_END

#endif
