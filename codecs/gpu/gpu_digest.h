/* Launch digest.cl's kernels, which compute the digest of an array (fed_digest of fed/hash.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_DIGEST_H
#define FEDCODEC_GPU_DIGEST_H

#include "codecs/gpu/gpu_codec_vtable.h"

/** Return the bytes of work memory that a digest takes, a multiple of FEDCODEC_GPU_ALIGN. */
size_t fedcodec_gpu_digest_size(size_t n);

/** Store the digest of the job's x as a uint64_t at the beginning of its work memory. One
 * work-group takes n / 256 steps that can't be done at once. */
fed_status fedcodec_gpu_digest(const fedcodec_gpu_job *job) FED_CHECKED;

#endif
