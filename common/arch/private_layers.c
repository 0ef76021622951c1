/* Divides a model's tensors into those that travel and those that stay on a device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/private_layers.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"

/* The layers of a model: tensors with equal names up to the last dot. */
typedef struct groups {
    uint32_t *of;    /* uint32[layout->count]: each tensor's layer, from 0 */
    uint32_t *first; /* uint32[layout->count]: each layer's first tensor */
    uint32_t *table; /* uint32[places]: finds a layer, plus 1, by its name; 0: a free place */
    size_t places;   /* a power of 2 */
    uint32_t count;
} groups;

static size_t prefix_len(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

static bool same_layer(const fed_tensor *a, const fed_tensor *b) {
    const size_t len = prefix_len(a->name);
    return prefix_len(b->name) == len && memcmp(a->name, b->name, len) == 0;
}

/** The place of a tensor's layer in the table: a free place if the layer is new. */
static uint32_t *place_of(const groups *g, const fed_layout *layout, const fed_tensor *tensor) {
    size_t at = (size_t)fed_digest_bytes(tensor->name, prefix_len(tensor->name));
    uint32_t *place = &g->table[at & (g->places - 1)];
    while (*place != 0 && !same_layer(&layout->tensors[g->first[*place - 1]], tensor)) {
        place = &g->table[++at & (g->places - 1)];
    }
    return place;
}

static void groups_free(groups *g) {
    free(g->of);
    free(g->first);
    free(g->table);
}

static fed_status groups_make(const fed_layout *layout, groups *g) {
    *g = (groups){.places = 2};
    while (g->places < 2 * layout->count) {
        g->places *= 2;
    }
    g->of = calloc(layout->count + 1, sizeof *g->of);
    g->first = calloc(layout->count + 1, sizeof *g->first);
    g->table = calloc(g->places, sizeof *g->table);
    if (g->of == NULL || g->first == NULL || g->table == NULL) {
        groups_free(g);
        return FED_ENOMEM;
    }
    for (size_t k = 0; k < layout->count; k++) {
        uint32_t *place = place_of(g, layout, &layout->tensors[k]);
        if (*place == 0) {
            g->first[g->count++] = (uint32_t)k;
            *place = g->count;
        }
        g->of[k] = *place - 1;
    }
    return FED_OK;
}

static fed_status keep_bn(const fed_arch *arch, const groups *g, uint8_t *chosen, fed_error *err) {
    bool any = false;
    for (size_t k = 0; k < arch->layout.count; k++) {
        const char *name = arch->layout.tensors[k].name;
        if (strcmp(name + prefix_len(name), ".running_mean") == 0) {
            chosen[g->of[k]] = 1;
            any = true;
        }
    }
    return any ? FED_OK
               : fed_fail(err, FED_EINVAL,
                          "\"bn\" names the layers with running statistics, and this model has "
                          "none: name layers by their numbers");
}

static fed_status keep_head(const fed_arch *arch, const groups *g, uint8_t *chosen,
                            fed_error *err) {
    uint32_t last = 0;
    for (size_t k = 0; k < arch->layout.count; k++) {
        const bool parameter = arch->layout.tensors[k].offset < arch->trained;
        last = parameter && g->of[k] > last ? g->of[k] : last;
    }
    for (size_t l = 0; l < arch->layer_count; l++) {
        if (arch->layers[l].tied) {
            return fed_fail(err, FED_EINVAL,
                            "the weights of this model's head are those of an embedding: name "
                            "the layers by their numbers");
        }
    }
    chosen[last] = 1;
    return FED_OK;
}

static bool read_number(const char **at, uint32_t *number) {
    uint64_t n = 0;
    const char *p = *at;
    while (*p >= '0' && *p <= '9' && n <= FED_ARCH_TENSORS) {
        n = n * 10 + (uint64_t)(*p++ - '0');
    }
    const bool any = p != *at && n >= 1 && n <= FED_ARCH_TENSORS;
    *number = (uint32_t)n;
    *at = p;
    return any;
}

static fed_status keep_numbers(const char *item, size_t len, const groups *g, uint8_t *chosen,
                               fed_error *err) {
    const char *at = item;
    uint32_t low = 0, high = 0;
    bool read = read_number(&at, &low);
    high = low;
    if (read && *at == '-') {
        at++;
        read = read_number(&at, &high);
    }
    if (!read || at != item + len || high < low) {
        return fed_fail(err, FED_EINVAL,
                        "\"%.*s\" must be head, bn, a layer's number such as 1, or numbers such "
                        "as 4-6, with commas between them",
                        (int)len, item);
    }
    if (high > g->count) {
        return fed_fail(err, FED_EINVAL,
                        "there is no layer %u: this model has %u layers with tensors, from 1 on",
                        (unsigned)high, (unsigned)g->count);
    }
    memset(chosen + low - 1, 1, high - low + 1);
    return FED_OK;
}

static fed_status choose(const fed_arch *arch, const char *layers, const groups *g, uint8_t *chosen,
                         fed_error *err) {
    for (const char *at = layers;; at++) {
        const size_t len = strcspn(at, ",");
        if (len == 4 && memcmp(at, "head", len) == 0) {
            FED_TRY(keep_head(arch, g, chosen, err));
        } else if (len == 2 && memcmp(at, "bn", len) == 0) {
            FED_TRY(keep_bn(arch, g, chosen, err));
        } else {
            FED_TRY(keep_numbers(at, len, g, chosen, err));
        }
        at += len;
        if (*at == '\0') {
            return FED_OK;
        }
    }
}

/** Fill in *split from stays, whose tensors are known. */
static fed_status divide(const fed_arch *arch, fed_private_layers *split, fed_error *err) {
    for (size_t k = 0; k < arch->layout.count; k++) {
        const fed_tensor *t = &arch->layout.tensors[k];
        if (split->stays[k] != 0) {
            split->own += t->size;
            continue;
        }
        FED_TRY(fed_layout_append(&split->shared, t->name, t->rank, t->dims));
        const bool parameter = t->offset < arch->trained;
        split->trained += parameter ? t->size : 0;
        split->shared.statistics += parameter ? 0 : 1;
    }
    return split->trained > 0 ? FED_OK
                              : fed_fail(err, FED_EINVAL,
                                         "no trained layer is left to travel: at least one must "
                                         "not be private");
}

fed_status fed_private_layers_split(const fed_arch *arch, const char *layers,
                                    fed_private_layers *split, fed_error *err) {
    if (arch->scaffold) {
        return fed_fail(err, FED_EINVAL,
                        "a model with SCAFFOLD's control variates can't have private layers: they "
                        "are of the whole model; leave | scaffold or private_layers out");
    }
    const fed_layout *layout = &arch->layout;
    groups g;
    fed_private_layers made = {.stays = calloc(layout->count + 1, 1)};
    uint8_t *chosen = calloc(layout->count + 1, 1);
    fed_status status = groups_make(layout, &g);
    if (status == FED_OK) {
        status = made.stays != NULL && chosen != NULL ? choose(arch, layers, &g, chosen, err)
                                                      : FED_ENOMEM;
        for (size_t k = 0; status == FED_OK && k < layout->count; k++) {
            made.stays[k] = chosen[g.of[k]];
        }
        groups_free(&g);
    }
    if (status == FED_OK) {
        status = divide(arch, &made, err);
    }
    free(chosen);
    if (status != FED_OK) {
        fed_private_layers_free(&made);
        return status == FED_ENOMEM ? fed_fail(err, status, "out of memory for private layers")
                                    : status;
    }
    assert(made.own + made.shared.size == layout->size);
    *split = made;
    return FED_OK;
}

void fed_private_layers_free(fed_private_layers *split) {
    fed_layout_free(&split->shared);
    free(split->stays);
    *split = (fed_private_layers){0};
}

void fed_private_layers_take(const fed_private_layers *split, const fed_layout *whole,
                             const float *all, float *shared, float *own) {
    for (size_t k = 0; k < whole->count; k++) {
        const fed_tensor *t = &whole->tensors[k];
        float **to = split->stays[k] != 0 ? &own : &shared;
        if (*to != NULL) {
            memmove(*to, all + t->offset, t->size * sizeof *all);
            *to += t->size;
        }
    }
}

void fed_private_layers_join(const fed_private_layers *split, const fed_layout *whole,
                             const float *shared, const float *own, float *all) {
    for (size_t k = 0; k < whole->count; k++) {
        const fed_tensor *t = &whole->tensors[k];
        const float **from = split->stays[k] != 0 ? &own : &shared;
        if (*from != NULL) {
            memcpy(all + t->offset, *from, t->size * sizeof *all);
            *from += t->size;
        }
    }
}

fed_status fed_arch_share(fed_arch *arch, const char *layers, fed_error *err) {
    fed_private_layers split;
    if (layers[0] == '\0') {
        return FED_OK;
    }
    FED_TRY(fed_private_layers_split(arch, layers, &split, err));
    fed_layout_free(&arch->layout);
    free(arch->layers);
    arch->layers = NULL;
    arch->layer_count = 0;
    arch->layout = split.shared;
    arch->trained = split.trained;
    split.shared = (fed_layout){0};
    fed_private_layers_free(&split);
    return FED_OK;
}
