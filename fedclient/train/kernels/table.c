/* The table of this ISA's kernels. */
#include "fedclient/train/kernels/isa.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

extern const fedtrain_kernels KERNEL(kernels);

const fedtrain_kernels KERNEL(kernels) = {
    .isa = TEXT(FEDTRAIN_ISA),
    .lanes = LANES,
    .panel = PANEL,
    .sgd = KERNEL(sgd),
    .momentum = KERNEL(momentum),
    .adam = KERNEL(adam),
    .norm = KERNEL(norm),
    .relu = KERNEL(relu),
    .relu_grad = KERNEL(relu_grad),
    .add = KERNEL(add),
    .moments = KERNEL(moments),
    .normalize = KERNEL(normalize),
    .normalize_sums = KERNEL(normalize_sums),
    .normalize_grad = KERNEL(normalize_grad),
    .sum_rows = KERNEL(sum_rows),
    .tanh = KERNEL(tanh),
    .tanh_grad = KERNEL(tanh_grad),
    .sigmoid = KERNEL(sigmoid),
    .sigmoid_grad = KERNEL(sigmoid_grad),
    .dropout = KERNEL(dropout),
    .cross_entropy = KERNEL(cross_entropy),
    .gemm_pack = KERNEL(gemm_pack),
    .gemm = KERNEL(gemm),
    .lstm = KERNEL(lstm),
    .lstm_grad = KERNEL(lstm_grad),
    .dense = KERNEL(dense),
    .dense_input_grad = KERNEL(dense_input_grad),
    .dense_weight_grad = KERNEL(dense_weight_grad),
    .conv = KERNEL(conv),
    .conv_weight_grad = KERNEL(conv_weight_grad),
    .sparse_input_grad = KERNEL(sparse_input_grad),
    .sparse_weight_grad = KERNEL(sparse_weight_grad),
    .maxpool = KERNEL(maxpool),
};
