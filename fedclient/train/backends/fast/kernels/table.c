/* The table of this ISA's kernels. */
#include "fedclient/train/backends/fast/kernels/isa.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

extern const fedtrain_kernels KERNEL(kernels);

const fedtrain_kernels KERNEL(kernels) = {
    .isa = TEXT(FEDTRAIN_ISA),
    .lanes = LANES,
    .sgd = KERNEL(sgd),
    .momentum = KERNEL(momentum),
    .adam = KERNEL(adam),
};
