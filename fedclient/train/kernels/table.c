/* The table of one vector unit's kernels, with products of float32 or of bfloat16. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/small.h"
#include "fedclient/train/kernels/isa.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

#ifdef FEDTRAIN_PRODUCTS
#define NAME TEXT(FEDTRAIN_PRODUCTS)
#else
#define NAME TEXT(FEDTRAIN_ISA)
#endif

extern const fedtrain_kernels PRODUCT(kernels);

const fedtrain_kernels PRODUCT(kernels) = {
    .isa = NAME,
    .lanes = LANES,
    .panel = PANEL,
#ifdef FEDTRAIN_PRODUCTS
    .pairs = PRODUCT(pairs),
#endif
    .sgd = KERNEL(sgd),
    .momentum = FED_UNLESS_SMALL(KERNEL(momentum)),
    .adam = FED_UNLESS_SMALL(KERNEL(adam)),
    .norm = FED_UNLESS_SMALL(KERNEL(norm)),
    .relu = KERNEL(relu),
    .relu_grad = KERNEL(relu_grad),
    .add = KERNEL(add),
    .moments = FED_UNLESS_SMALL(KERNEL(moments)),
    .normalize = FED_UNLESS_SMALL(KERNEL(normalize)),
    .normalize_sums = FED_UNLESS_SMALL(KERNEL(normalize_sums)),
    .normalize_grad = FED_UNLESS_SMALL(KERNEL(normalize_grad)),
    .transpose = KERNEL(transpose),
    .sum_rows = KERNEL(sum_rows),
    .tanh = FED_UNLESS_SMALL(KERNEL(tanh)),
    .tanh_grad = FED_UNLESS_SMALL(KERNEL(tanh_grad)),
    .sigmoid = FED_UNLESS_SMALL(KERNEL(sigmoid)),
    .sigmoid_grad = FED_UNLESS_SMALL(KERNEL(sigmoid_grad)),
    .dropout = FED_UNLESS_SMALL(KERNEL(dropout)),
    .cross_entropy = KERNEL(cross_entropy),
    .gemm_pack = FED_UNLESS_SMALL(PRODUCT(gemm_pack)),
    .gemm = FED_UNLESS_SMALL(PRODUCT(gemm)),
    .lstm = FED_UNLESS_SMALL(KERNEL(lstm)),
    .lstm_grad = FED_UNLESS_SMALL(KERNEL(lstm_grad)),
    .dense = KERNEL(dense),
    .dense_many = FED_UNLESS_SMALL(KERNEL(dense_many)),
    .dense_grad = KERNEL(dense_grad),
    .conv = PRODUCT(conv),
    .conv_weight_grad = PRODUCT(conv_weight_grad),
    .winograd = FED_UNLESS_SMALL(KERNEL(winograd)),
    .winograd_weight_grad = FED_UNLESS_SMALL(KERNEL(winograd_weight_grad)),
    .winograd_weights = FED_UNLESS_SMALL(KERNEL(winograd_weights)),
    .winograd_weights_grad = FED_UNLESS_SMALL(KERNEL(winograd_weights_grad)),
    .sparse_input_grad = KERNEL(sparse_input_grad),
    .sparse_weight_grad = KERNEL(sparse_weight_grad),
    .im2col = FED_UNLESS_SMALL(KERNEL(im2col)),
    .maxpool = KERNEL(maxpool),
};
