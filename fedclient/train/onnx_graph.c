/*
 * Writes ONNX files: encodes the few kinds of protobuf message that a model needs.
 *
 * Numbers of fields and types are those of onnx.proto. A nested message has its length in front of
 * it. So all bytes but the weights' floats are put together in memory first; the floats go
 * straight to the file.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/onnx_graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fed/version.h"

enum { IR_VERSION = 7, OPERATORS = 13 };    /* operators of version 13 need IR 7 or later */
static const uint64_t FILE_MAX = INT32_MAX; /* the most bytes that protobuf libraries read */

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

static void put_key(fed_writer *w, unsigned field, unsigned wire) {
    fed_write_varint(w, field << 3 | wire);
}

static void put_int(fed_writer *w, unsigned field, int64_t value) {
    put_key(w, field, WIRE_VARINT);
    fed_write_varint(w, (uint64_t)value);
}

static void put_bytes(fed_writer *w, unsigned field, const void *data, size_t len) {
    put_key(w, field, WIRE_BYTES);
    fed_write_varint(w, len);
    fed_write_bytes(w, data, len);
}

static void put_text(fed_writer *w, unsigned field, const char *text) {
    put_bytes(w, field, text, strlen(text));
}

/* Write a nested message from its own writer, which is then freed. */
static void put_message(fed_writer *w, unsigned field, fed_writer *message) {
    if (message->status != FED_OK) {
        w->status = message->status;
    }
    put_bytes(w, field, message->data, message->len);
    fed_writer_free(message);
}

enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

void onnx_graph_init(onnx_graph *g) {
    *g = (onnx_graph){0};
    fed_writer_growing(&g->body);
    put_text(&g->body, GRAPH_NAME, "model");
}

void onnx_graph_free(onnx_graph *g) {
    fed_writer_free(&g->body);
    free(g->weights);
}

onnx_name onnx_name_new(onnx_graph *g) {
    onnx_name name;
    snprintf(name.text, sizeof name.text, "v%u", ++g->names);
    return name;
}

enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };

onnx_node onnx_node_new(onnx_graph *g, const char *op, const char *name) {
    onnx_node node = {.graph = g};
    fed_writer_growing(&node.bytes);
    put_text(&node.bytes, NODE_OP, op);
    put_text(&node.bytes, NODE_NAME, name);
    return node;
}

void onnx_node_input(onnx_node *node, const char *value) {
    put_text(&node->bytes, NODE_INPUT, value);
}

enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_FLOAT = 2, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8 };
enum { ATTRIBUTE_TYPE = 20, TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 };

static fed_writer begin_attribute(const char *key, int64_t type) {
    fed_writer w;
    fed_writer_growing(&w);
    put_text(&w, ATTRIBUTE_KEY, key);
    put_int(&w, ATTRIBUTE_TYPE, type);
    return w;
}

void onnx_node_int(onnx_node *node, const char *key, int64_t value) {
    fed_writer w = begin_attribute(key, TYPE_INT);
    put_int(&w, ATTRIBUTE_INT, value);
    put_message(&node->bytes, NODE_ATTRIBUTE, &w);
}

void onnx_node_ints(onnx_node *node, const char *key, const int64_t *values, size_t n) {
    fed_writer w = begin_attribute(key, TYPE_INTS);
    for (size_t i = 0; i < n; i++) {
        put_int(&w, ATTRIBUTE_INTS, values[i]);
    }
    put_message(&node->bytes, NODE_ATTRIBUTE, &w);
}

void onnx_node_float(onnx_node *node, const char *key, float value) {
    fed_writer w = begin_attribute(key, TYPE_FLOAT);
    put_key(&w, ATTRIBUTE_FLOAT, WIRE_FIXED32);
    fed_write_f32(&w, value);
    put_message(&node->bytes, NODE_ATTRIBUTE, &w);
}

void onnx_node_add(onnx_node *node, const char *output) {
    put_text(&node->bytes, NODE_OUTPUT, output);
    put_message(&node->graph->body, GRAPH_NODE, &node->bytes);
}

onnx_name onnx_constant(onnx_graph *g, const int64_t *values, size_t n) {
    onnx_name name = onnx_name_new(g);
    fed_writer raw, w;
    fed_writer_growing(&raw);
    for (size_t i = 0; i < n; i++) {
        fed_write_u64(&raw, (uint64_t)values[i]);
    }
    fed_writer_growing(&w);
    put_int(&w, TENSOR_DIMS, (int64_t)n);
    put_int(&w, TENSOR_TYPE, ONNX_INT64);
    put_text(&w, TENSOR_NAME, name.text);
    put_message(&w, TENSOR_RAW, &raw);
    put_message(&g->body, GRAPH_CONSTANT, &w);
    return name;
}

/* ValueInfoProto { name, TypeProto { Tensor { elem_type, shape { dim { value or name } } } } } */
static void put_value(onnx_graph *g, unsigned field, const char *name, onnx_type type,
                      const uint32_t *dims, size_t n) {
    enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, ELEMENT = 1, SHAPE = 2, DIM = 1 };
    enum { DIM_VALUE = 1, DIM_NAME = 2 };
    fed_writer dim, shape, tensor, of_type, value;
    fed_writer_growing(&shape);
    fed_writer_growing(&dim);
    put_text(&dim, DIM_NAME, "batch");
    put_message(&shape, DIM, &dim);
    for (size_t i = 0; i < n; i++) {
        put_int(&dim, DIM_VALUE, dims[i]); /* put_message has left the writer dim empty */
        put_message(&shape, DIM, &dim);
    }
    fed_writer_growing(&tensor);
    put_int(&tensor, ELEMENT, type);
    put_message(&tensor, SHAPE, &shape);
    fed_writer_growing(&of_type);
    put_message(&of_type, TYPE_TENSOR, &tensor);
    fed_writer_growing(&value);
    put_text(&value, VALUE_NAME, name);
    put_message(&value, VALUE_TYPE, &of_type);
    put_message(&g->body, field, &value);
}

void onnx_input(onnx_graph *g, const char *name, onnx_type type, const uint32_t *dims, size_t n) {
    put_value(g, GRAPH_INPUT, name, type, dims, n);
}

void onnx_output(onnx_graph *g, const char *name, onnx_type type, const uint32_t *dims, size_t n) {
    put_value(g, GRAPH_OUTPUT, name, type, dims, n);
}

void onnx_weight_add(onnx_graph *g, const onnx_weight *weight) {
    for (size_t i = 0; i < g->weight_count; i++) {
        if (strcmp(g->weights[i].name, weight->name) == 0) {
            return;
        }
    }
    if (g->weight_count == g->weight_cap) {
        size_t cap = g->weight_cap > 0 ? 2 * g->weight_cap : 16;
        onnx_weight *weights = realloc(g->weights, cap * sizeof *weights);
        if (weights == NULL) {
            g->status = FED_ENOMEM;
            return;
        }
        g->weights = weights;
        g->weight_cap = cap;
    }
    g->weights[g->weight_count++] = *weight;
}

enum { HEAD = 256 };

static fed_writer weight_head(const onnx_weight *weight, uint8_t bytes[HEAD]) {
    fed_writer w;
    fed_writer_fixed(&w, bytes, HEAD);
    for (uint32_t i = 0; i < weight->rank; i++) {
        put_int(&w, TENSOR_DIMS, (int64_t)weight->dims[i]);
    }
    put_int(&w, TENSOR_TYPE, ONNX_FLOAT);
    put_text(&w, TENSOR_NAME, weight->name);
    put_key(&w, TENSOR_RAW, WIRE_BYTES);
    fed_write_varint(&w, weight->parts * weight->part_size * sizeof(float));
    return w;
}

static uint64_t weight_size(const onnx_weight *weight) {
    uint8_t bytes[HEAD];
    return weight_head(weight, bytes).len +
           (uint64_t)weight->parts * weight->part_size * sizeof(float);
}

static fed_status save_weight(fed_file *file, const onnx_weight *weight, fed_error *err) {
    uint8_t key_bytes[16], bytes[HEAD];
    fed_writer key, head = weight_head(weight, bytes);
    fed_writer_fixed(&key, key_bytes, sizeof key_bytes);
    put_key(&key, GRAPH_CONSTANT, WIRE_BYTES);
    fed_write_varint(&key, weight_size(weight));
    FED_TRY(fed_file_put(file, key_bytes, key.len, err));
    FED_TRY(fed_file_put(file, bytes, head.len, err));
    for (size_t i = 0; i < weight->parts; i++) {
        FED_TRY(fed_file_put_floats(file, weight->part[i], weight->part_size, err));
    }
    return FED_OK;
}

static uint64_t graph_size(const onnx_graph *g) {
    uint64_t size = g->body.len;
    for (size_t i = 0; i < g->weight_count; i++) {
        uint64_t weight = weight_size(&g->weights[i]);
        size += 1 + fed_varint_size(weight) + weight; /* the field's key takes one byte */
    }
    return size;
}

static void put_pair(fed_writer *w, unsigned field, const char *key, const char *value) {
    fed_writer pair;
    fed_writer_growing(&pair);
    put_text(&pair, 1, key);
    put_text(&pair, 2, value);
    put_message(w, field, &pair);
}

/* Write the beginning of a ModelProto, up to the graph's first byte. */
static void write_model(fed_writer *w, uint64_t graph_bytes, const char *const *metadata) {
    enum { VERSION = 1, PRODUCER = 2, PRODUCER_VERSION = 3, GRAPH = 7, OPSET = 8, PROPERTY = 14 };
    fed_writer opset;
    fed_writer_growing(&opset);
    put_int(&opset, 2, OPERATORS);
    put_int(w, VERSION, IR_VERSION);
    put_text(w, PRODUCER, "fedtrain");
    put_text(w, PRODUCER_VERSION, FED_VERSION);
    put_message(w, OPSET, &opset);
    for (size_t i = 0; metadata != NULL && metadata[i] != NULL; i += 2) {
        put_pair(w, PROPERTY, metadata[i], metadata[i + 1]);
    }
    put_key(w, GRAPH, WIRE_BYTES);
    fed_write_varint(w, graph_bytes);
}

static fed_status save_all(fed_file *file, const onnx_graph *g, const fed_writer *head,
                           fed_error *err) {
    FED_TRY(fed_file_put(file, head->data, head->len, err));
    FED_TRY(fed_file_put(file, g->body.data, g->body.len, err));
    for (size_t i = 0; i < g->weight_count; i++) {
        FED_TRY(save_weight(file, &g->weights[i], err));
    }
    return FED_OK;
}

static fed_status save(const onnx_graph *g, const char *path, const fed_writer *head,
                       fed_error *err) {
    fed_file file;
    FED_TRY(fed_file_create(path, FED_FILE_OUTPUT | 0644, &file, err));
    fed_status status = save_all(&file, g, head, err);
    if (status != FED_OK) {
        fed_file_abandon(&file);
        return status;
    }
    return fed_file_commit(&file, err);
}

fed_status onnx_graph_save(const onnx_graph *g, const char *path, const char *const *metadata,
                           fed_error *err) {
    uint64_t size = graph_size(g);
    fed_writer head;
    fed_writer_growing(&head);
    write_model(&head, size, metadata);
    fed_status status = FED_OK;
    if (g->status != FED_OK || g->body.status != FED_OK || head.status != FED_OK) {
        status = fed_fail(err, FED_ENOMEM, "%s: out of memory", path);
    } else if (size > FILE_MAX - head.len) {
        status = fed_fail(err, FED_ERANGE,
                          "%s: the model takes %" PRIu64 " bytes, but an ONNX file has at most "
                          "2 GiB: write it as .safetensors",
                          path, size);
    } else {
        status = save(g, path, &head, err);
    }
    fed_writer_free(&head);
    return status;
}
