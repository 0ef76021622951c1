/* The kernels of the ISA being compiled, as table.c collects them. Shapes: see ../kernels.h. */
#ifndef FEDTRAIN_ISA_H
#define FEDTRAIN_ISA_H

#include "fedclient/train/backends/fast/kernels.h"
#include "fedclient/train/backends/fast/kernels/vector.h"

void KERNEL(sgd)(float *w, const float *g, size_t n, float rate);
void KERNEL(momentum)(float *w, float *v, const float *g, size_t n, float rate, float keep);
void KERNEL(adam)(float *w, float *m, float *v, const float *g, size_t n, const fedtrain_adam *a);

#endif
