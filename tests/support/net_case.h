/* Nets with every kind of layer, their weights and samples, and the engines that can run them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_CASE_H
#define NET_CASE_H

#include "fed_test.h"

#include "fed/arch.h"
#include "fedclient/train/backend_vtable.h"
#include "fedtrain/net.h"

enum { NET_CASE_BATCH = 9, NET_CASE_MOST = 20 };

/** Return the text of the k-th net; NULL after the last. */
const char *net_case_text(size_t k);

/** A net with random weights and samples. */
typedef struct net_case {
    const char *text;
    fed_arch arch;
    float *params;     /* float32[layout.size] */
    float *x;          /* float32[NET_CASE_MOST, c, h, w] */
    float *score_grad; /* float32[NET_CASE_MOST, positions, classes] */
    uint32_t *label;   /* uint32[NET_CASE_MOST, positions] */
} net_case;

void net_case_make(net_case *c, const char *text);
void net_case_free(net_case *c);

/** Return a training pass or a batch of the first `batch` samples. */
fedtrain_pass net_case_pass(const net_case *c, size_t batch);
fedtrain_batch net_case_batch(const net_case *c, size_t batch);

size_t net_case_scores(const net_case *c, size_t batch);

/** Allocate n floats. The test fails if memory runs out. */
float *net_case_floats(size_t n);

/** Return the name of the device under test: FED_TEST_DEVICE, or "gpu". NULL: there is none. */
const char *net_case_device(void);

/** Return the name of the k-th backend that can run this model. NULL after the last. */
const char *net_case_backend(size_t k, const fed_arch *arch);

/** An engine: the reference, the fast backend with one set of kernels, or another backend. */
typedef struct net_engine {
    const fedtrain_backend_vtable *backend;
    const char *name;
    void *work;
} net_engine;

/** Return the number of engines on the processor. Engines on devices have higher numbers. */
size_t net_engine_hosts(void);

/** Open the k-th engine. The reference is the first. Returns false after the last. */
bool net_engine_open(size_t k, const fed_arch *arch, net_engine *engine);
void net_engine_close(net_engine *engine);

/** Run one pass. The test fails if the pass fails. grad: float32[trained]. */
void net_engine_forward(const net_engine *engine, const fedtrain_pass *pass, float *score);
void net_engine_backward(const net_engine *engine, const fedtrain_pass *pass,
                         const float *score_grad, float *grad);

/** Call check for every net on each engine of the processor, and to save time for some nets on
 * those of devices. */
void net_case_each(void (*check)(const net_case *c, const net_engine *e));

#endif
