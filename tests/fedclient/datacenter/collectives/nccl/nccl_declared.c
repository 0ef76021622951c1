/* Compares this project's declarations of NCCL's functions with nccl.h: this file compiles only
 * if they agree. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <nccl.h>

#include "fedclient/datacenter/collectives/nccl/nccl_calls.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours);
SAME(NCCL_OK, ncclSuccess)
SAME(NCCL_SUM, ncclSum)
SAME(NCCL_FLOAT32, ncclFloat32)
SAME(NCCL_BFLOAT16, ncclBfloat16)
SAME(sizeof(nccl_id), sizeof(ncclUniqueId))
SAME(sizeof(nccl_result), sizeof(ncclResult_t))
