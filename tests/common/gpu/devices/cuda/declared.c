/* Compare this project's declarations of CUDA's functions with NVIDIA's headers. This file
 * compiles only if they agree. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <cuda.h>
#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#define HAS_NVRTC
#endif

#include "common/gpu/devices/cuda/driver.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours);
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define X(member, symbol, args)                                                                    \
    _Static_assert(__builtin_types_compatible_p(cuda_result(*) args, __typeof__(&(symbol))),       \
                   #symbol                                                                         \
                   ": common/gpu/devices/cuda declares it otherwise than NVIDIA's header");
/* NOLINTEND(bugprone-macro-parentheses) */
FED_CUDA_CALLS(X)
#ifdef HAS_NVRTC
FED_NVRTC_CALLS(X)
SAME(NVRTC_NO_MEMORY, NVRTC_ERROR_OUT_OF_MEMORY)
#endif
#undef X

SAME(CUDA_OK, CUDA_SUCCESS)
SAME(CUDA_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
SAME(CUDA_STUB, CUDA_ERROR_STUB_LIBRARY)
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
SAME(CUDA_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU)
SAME(CUDA_UNSUPPORTED_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
SAME(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND)
SAME(CUDA_NOT_READY, CUDA_ERROR_NOT_READY)
SAME(CUDA_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
SAME(CUDA_UNITS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
SAME(CUDA_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME(CUDA_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME(CUDA_PORTABLE, CU_MEMHOSTALLOC_PORTABLE)
SAME(CUDA_NON_BLOCKING, CU_STREAM_NON_BLOCKING)
SAME(CUDA_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING)
SAME(CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED)
