/* The functions of libnccl.so.2 that the collective nccl calls, declared here, so that no header of
 * NCCL is needed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_NCCL_CALLS_H
#define FEDDC_NCCL_CALLS_H

#include <stddef.h>

#include "fed/error.h"

/* Types of nccl.h under other names, with unsigned for its enums. The test
 * tests/fedclient/datacenter/collectives/nccl/nccl_declared.c compares them with nccl.h. */
typedef unsigned nccl_result; /* ncclResult_t */
typedef unsigned nccl_type;   /* ncclDataType_t */
typedef unsigned nccl_op;     /* ncclRedOp_t */
typedef struct ncclComm *nccl_comm;
typedef struct CUstream_st *nccl_stream; /* cudaStream_t */

typedef struct nccl_id { /* ncclUniqueId */
    char internal[128];
} nccl_id;

enum {
    NCCL_OK = 0,
    NCCL_SUM = 0,
    NCCL_FLOAT32 = 7,
    NCCL_BFLOAT16 = 9,
    NCCL_LEAST = 21000 /* version 2.10, the first with bfloat16 */
};

/* X(result, member, symbol in libnccl.so.2, arguments) */
#define FEDDC_NCCL_CALLS(X)                                                                        \
    X(nccl_result, version, ncclGetVersion, (int *version))                                        \
    X(const char *, text, ncclGetErrorString, (nccl_result result))                                \
    X(nccl_result, id, ncclGetUniqueId, (nccl_id * id))                                            \
    X(nccl_result, init, ncclCommInitRank, (nccl_comm * comm, int ranks, nccl_id id, int rank))    \
    X(nccl_result, reduce, ncclAllReduce,                                                          \
      (const void *from, void *to, size_t count, nccl_type type, nccl_op op, nccl_comm comm,       \
       nccl_stream stream))                                                                        \
    X(nccl_result, error, ncclCommGetAsyncError, (nccl_comm comm, nccl_result * result))           \
    X(nccl_result, destroy, ncclCommDestroy, (nccl_comm comm))                                     \
    X(nccl_result, abort, ncclCommAbort, (nccl_comm comm))

typedef struct nccl_calls {
    void *library; /* NULL: not loaded */
#define X(result, member, symbol, args)                                                            \
    result(*member) args; /* NOLINT(bugprone-macro-parentheses) */
    FEDDC_NCCL_CALLS(X)
#undef X
} nccl_calls;

/** Load the library. FED_ENOTFOUND: it is not installed. FED_ESTATE: it is too old. */
fed_status feddc_nccl_load(nccl_calls *nccl, fed_error *err) FED_CHECKED;
void feddc_nccl_unload(nccl_calls *nccl);

#endif
