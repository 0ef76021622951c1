/* The kernels' sources as strings, which CMake generates from the .cl files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_GPU_TEXTS_H
#define FEDCODEC_GPU_TEXTS_H

extern const char fedcodec_gpu_codec_text[];
extern const char fedcodec_gpu_blocks_text[];
extern const char fedcodec_gpu_quads_text[];
extern const char fedcodec_gpu_digest_text[];
extern const char fedcodec_gpu_random_text[];
extern const char fedcodec_gpu_narrow_text[];
extern const char fedcodec_gpu_dense_text[];
extern const char fedcodec_gpu_select_text[];
extern const char fedcodec_gpu_sparse_text[];
extern const char fedcodec_gpu_sparse_read_text[];
extern const char fedcodec_gpu_eden_few_text[];

#define FEDCODEC_GPU(folder) extern const char fedcodec_gpu_##folder##_text[];
#include "codecs/gpu/gpu_codecs.def"
#undef FEDCODEC_GPU

#endif
