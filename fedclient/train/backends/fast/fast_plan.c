/* The fast backend's plan: which node reads which value, merged nodes, and shared memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"

void *fedtrain_fast_take(fast_arena *a, fast_part part, size_t n) {
    float *at = a->base[part] != NULL ? a->base[part] + a->used[part] : NULL;
    a->used[part] += fedtrain_fast_round_up(n + FEDTRAIN_SLACK, FAST_LINE);
    return at;
}

static void connect(fast_net *f) {
    const fed_arch *arch = f->arch;
    f->values[0].shape = arch->input;
    f->values[0].size = fedtrain_shape_size(arch->input);
    for (size_t l = 0; l < arch->layer_count; l++) {
        fast_node *s = &f->nodes[l];
        fast_value *out = &f->values[l + 1];
        s->out = out;
        out->shape = s->layer->out;
        out->size = fedtrain_shape_size(s->layer->out);
        out->trained = fedtrain_has_parameters(s->layer);
        for (size_t i = 0; i < s->layer->inputs; i++) {
            s->in[i] = &f->values[s->layer->input[i]];
            s->in[i]->readers++;
            out->trained |= s->in[i]->trained;
        }
        s->keeps_output = s->op->keeps_output;
    }
}

/* Find weights that several layers share. The last of these layers begins the gradient in the
 * backward pass, and the others add to it. */
static void find_tied(fast_net *f) {
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        fast_node *s = &f->nodes[l];
        for (size_t k = l + 1; k < f->arch->layer_count && fedtrain_has_parameters(s->layer); k++) {
            const fed_layer *later = f->nodes[k].layer;
            s->adds_weight |= fedtrain_has_parameters(later) && later->weight == s->layer->weight;
        }
        f->has_tied |= s->adds_weight;
    }
}

static void merge(fast_net *f) {
    for (size_t l = 0; l + 1 < f->arch->layer_count; l++) {
        fast_node *s = &f->nodes[l], *next = s + 1;
        if (!s->is_merged && s->op->merges != NULL && next->layer->inputs == 1 &&
            next->in[0] == s->out && s->out->readers == 1 && s->op->merges(s->layer, next->layer)) {
            s->merged = next;
            s->keeps_output |= s->op->keeps_merged;
            s->out = next->out;
            next->is_merged = true;
        }
    }
}

/* Return the node that computes a value, or NULL for the net's input. */
static const fast_node *giver(const fast_net *f, const fast_value *v) {
    size_t index = (size_t)(v - f->values);
    const fast_node *s = index > 0 ? &f->nodes[index - 1] : NULL;
    return s != NULL && s->is_merged ? s - 1 : s;
}

/* Return an input that this node may write its output over, or NULL for none. */
static const fast_value *overwritten(const fast_net *f, const fast_node *s) {
    for (size_t i = 0; s->op->in_place && i < s->layer->inputs; i++) {
        const fast_node *from = giver(f, s->in[i]);
        if (s->in[i]->readers == 1 && s->in[i]->size == s->out->size &&
            (from == NULL || !from->keeps_output)) {
            return s->in[i];
        }
    }
    return NULL;
}

static void plan_values(fast_net *f, fast_arena *a) {
    f->values[0].data = fedtrain_fast_take(a, FAST_ACTIVATIONS, f->max_batch * f->values[0].size);
    for (size_t l = 0; l < f->arch->layer_count - f->borrows_scores; l++) {
        fast_node *s = &f->nodes[l];
        if (s->is_merged) {
            continue;
        }
        const fast_value *in = overwritten(f, s);
        s->out->data = in != NULL
                           ? in->data
                           : fedtrain_fast_take(a, FAST_ACTIVATIONS, f->max_batch * s->out->size);
    }
}

/* ---- Gradients: slots of memory, each used by one value at a time ---- */

typedef struct slot_set {
    size_t count;
    size_t *size; /* [count]: number of values in a sample */
    bool *used;
} slot_set;

static const size_t NO_SLOT = SIZE_MAX;

/* Take the smallest free slot that is large enough, or let the largest free one grow. If none is
 * free, make a new one. */
static size_t slot_take(slot_set *s, size_t size) {
    size_t best = s->count;
    for (size_t k = 0; k < s->count; k++) {
        if (s->used[k]) {
            continue;
        }
        bool fits = s->size[k] >= size;
        if (best == s->count || (fits ? s->size[best] < size || s->size[k] < s->size[best]
                                      : s->size[best] < size && s->size[k] > s->size[best])) {
            best = k;
        }
    }
    s->count += best == s->count;
    s->size[best] = s->size[best] > size ? s->size[best] : size;
    s->used[best] = true;
    return best;
}

/* Take slots for the gradients that a node writes, and free the slot of the gradient that the node
 * reads, unless an input's gradient takes that slot over. */
static void slots_pass(slot_set *slots, fast_node *s) {
    bool handed_on = false;
    if (s->out->slot == NO_SLOT) {
        s->begins_grad = true;
        s->out->slot = slot_take(slots, s->out->size);
    }
    for (size_t i = 0; i < s->layer->inputs; i++) {
        fast_value *in = s->in[i];
        if (!in->trained) {
            continue;
        }
        s->adds[i] = in->slot != NO_SLOT;
        if (s->adds[i]) {
            continue;
        }
        if (s->op->grad_in_place && !handed_on && in->size == s->out->size) {
            in->slot = s->out->slot;
            handed_on = true;
        } else {
            in->slot = slot_take(slots, in->size);
        }
    }
    slots->used[s->out->slot] = handed_on;
}

static void assign_slots(fast_net *f, slot_set *slots) {
    size_t count = f->arch->layer_count;
    for (size_t v = 0; v <= count; v++) {
        f->values[v].slot = NO_SLOT;
    }
    f->values[count].slot = slot_take(slots, f->borrows_scores ? 0 : f->values[count].size);
    for (size_t l = count; l-- > 0;) {
        fast_node *s = &f->nodes[l];
        if (!s->is_merged && s->out->trained) {
            slots_pass(slots, s);
        }
    }
}

/* Set the gradients' pointers, which are NULL in the first of the two planning passes. */
static void plan_slots(fast_net *f, const slot_set *slots, float **at, fast_arena *a) {
    for (size_t k = 0; k < slots->count; k++) {
        at[k] = fedtrain_fast_take(a, FAST_GRADIENTS, f->max_batch * slots->size[k]);
    }
    for (size_t v = 0; v <= f->arch->layer_count; v++) {
        fast_value *value = &f->values[v];
        value->grad = value->slot != NO_SLOT ? at[value->slot] : NULL;
    }
}

static void plan_all(fast_net *f, const slot_set *slots, float **at, fast_arena *a) {
    size_t shared = 0;
    plan_values(f, a);
    plan_slots(f, slots, at, a);
    for (size_t l = 0; l < f->arch->layer_count; l++) {
        fast_node *s = &f->nodes[l];
        a->used[FAST_SHARED] = 0;
        if (s->op->plan != NULL) {
            s->op->plan(f, s, a);
        }
        shared = a->used[FAST_SHARED] > shared ? a->used[FAST_SHARED] : shared;
    }
    a->used[FAST_SHARED] = shared;
}

static fed_status allocate(fast_net *f, const slot_set *slots, float **at) {
    fast_arena a = {0};
    plan_all(f, slots, at, &a);
    size_t floats = 0;
    for (size_t part = 0; part < FAST_PARTS; part++) {
        floats += a.used[part];
    }
    f->memory = aligned_alloc(FAST_LINE * sizeof(float), floats * sizeof(float));
    FED_REQUIRE(f->memory != NULL, FED_ENOMEM);
    memset(f->memory, 0, floats * sizeof(float));
    f->bytes.activations = a.used[FAST_ACTIVATIONS] * sizeof(float);
    f->bytes.gradients = a.used[FAST_GRADIENTS] * sizeof(float);
    f->bytes.workspace += (a.used[FAST_WORKSPACE] + a.used[FAST_SHARED]) * sizeof(float);
    float *base = f->memory;
    for (size_t part = 0; part < FAST_PARTS; part++) {
        a.base[part] = base;
        base += a.used[part];
        a.used[part] = 0;
    }
    plan_all(f, slots, at, &a);
    return FED_OK;
}

fed_status fedtrain_fast_plan(fast_net *f) {
    size_t most = f->arch->layer_count + 1;
    slot_set slots = {.size = calloc(most, sizeof *slots.size),
                      .used = calloc(most, sizeof *slots.used)};
    float **at = calloc(most, sizeof *at);
    fed_status status = FED_ENOMEM;
    if (slots.size != NULL && slots.used != NULL && at != NULL) {
        connect(f);
        find_tied(f);
        merge(f);
        f->borrows_scores = f->nodes[most - 2].op->is_exact && !f->nodes[most - 2].is_merged;
        assign_slots(f, &slots);
        status = allocate(f, &slots, at);
    }
    free(slots.size);
    free(slots.used);
    free(at);
    return status;
}
