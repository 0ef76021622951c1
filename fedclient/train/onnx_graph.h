/* An ONNX graph that is being written: nodes in memory, weights in the caller's arrays. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_ONNX_GRAPH_H
#define FEDTRAIN_ONNX_GRAPH_H

#include "fed/bytes.h"
#include "fed/error.h"
#include "fed/model.h"

enum { ONNX_RANK = 4, ONNX_PARTS = 8, ONNX_NAME = FED_TENSOR_NAME + 16 };

/** The type of the elements of an input, output or constant, by ONNX's numbers. */
typedef enum onnx_type { ONNX_FLOAT = 1, ONNX_INT64 = 7 } onnx_type;

/** A weight: floats of a few arrays, one after the other. */
typedef struct onnx_weight {
    char name[ONNX_NAME];
    uint32_t rank;
    uint64_t dims[ONNX_RANK];
    size_t parts;
    const float *part[ONNX_PARTS];
    size_t part_size; /* floats of each array */
} onnx_weight;

typedef struct onnx_graph {
    fed_writer body; /* nodes, constants, inputs and outputs: fields of a GraphProto */
    onnx_weight *weights;
    size_t weight_count, weight_cap;
    unsigned names; /* number of names made up so far */
    fed_status status;
} onnx_graph;

/** A node that is being written: op and name first, then inputs and attributes. onnx_node_add gives
 * the node its only output, and ends the node. */
typedef struct onnx_node {
    onnx_graph *graph;
    fed_writer bytes;
} onnx_node;

typedef struct onnx_name {
    char text[ONNX_NAME];
} onnx_name;

void onnx_graph_init(onnx_graph *g);
void onnx_graph_free(onnx_graph *g);

/** Make a name that nothing else in the graph has. */
onnx_name onnx_name_new(onnx_graph *g);

/** op: an operator, such as "Conv". name: for people who look at the graph. */
onnx_node onnx_node_new(onnx_graph *g, const char *op, const char *name);
void onnx_node_input(onnx_node *node, const char *value);
void onnx_node_int(onnx_node *node, const char *key, int64_t value);
void onnx_node_ints(onnx_node *node, const char *key, const int64_t *values, size_t n);
void onnx_node_float(onnx_node *node, const char *key, float value);
void onnx_node_add(onnx_node *node, const char *output);

/** Add a constant of n whole numbers. Returns its name. */
onnx_name onnx_constant(onnx_graph *g, const int64_t *values, size_t n);

/** Add a weight, unless one of this name was added before. The floats must outlive the graph. */
void onnx_weight_add(onnx_graph *g, const onnx_weight *weight);

/** Add an input or output of dimensions {batch, dims...}. */
void onnx_input(onnx_graph *g, const char *name, onnx_type type, const uint32_t *dims, size_t n);
void onnx_output(onnx_graph *g, const char *name, onnx_type type, const uint32_t *dims, size_t n);

/** metadata: NULL, or a list of key, value, ..., NULL. Errors: those of fedtrain_onnx_save. */
fed_status onnx_graph_save(const onnx_graph *g, const char *path, const char *const *metadata,
                           fed_error *err) FED_CHECKED;

#endif
