/* Opens the fast backend with chosen kernels, for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_FAST_H
#define FEDTRAIN_FAST_H

#include "fedclient/train/backend_vtable.h"
#include "fedclient/train/kernels.h"

/** Do what fedtrain_backend_fast.open does, with these kernels. */
fed_status fedtrain_fast_open(const fed_arch *arch, size_t max_batch,
                              const fedtrain_kernels *kernels, void **self) FED_CHECKED;

#endif
