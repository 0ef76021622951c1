/* Records the history of a run, and checks the rules H1 to H5 (fed_history.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One event of a history. Unused fields are 0. */
typedef struct deed {
    unsigned device; /* a device, or the number of a log */
    uint32_t number; /* a round or a version */
    uint32_t updates;
    uint64_t lease, digest;
} deed;

typedef struct list {
    deed *items;
    size_t count, cap;
} list;

struct fed_history {
    list acknowledged, announced, committed, stored;
    unsigned logs;
};

fed_history *fed_history_new(void) {
    fed_history *history = calloc(1, sizeof *history);
    if (history == NULL) {
        abort();
    }
    return history;
}

void fed_history_free(fed_history *history) {
    if (history != NULL) {
        free(history->acknowledged.items);
        free(history->announced.items);
        free(history->committed.items);
        free(history->stored.items);
    }
    free(history);
}

static void append(list *l, deed d) {
    if (l->count == l->cap) {
        l->cap = l->cap > 0 ? 2 * l->cap : 64;
        l->items = realloc(l->items, l->cap * sizeof *l->items);
        if (l->items == NULL) {
            abort();
        }
    }
    l->items[l->count++] = d;
}

void fed_history_acknowledged(fed_history *history, unsigned device, uint64_t lease, uint32_t round,
                              uint64_t digest) {
    append(&history->acknowledged,
           (deed){.device = device, .number = round, .lease = lease, .digest = digest});
}

void fed_history_announced(fed_history *history, unsigned device, uint32_t version,
                           uint64_t digest) {
    append(&history->announced, (deed){.device = device, .number = version, .digest = digest});
}

void fed_history_committed(fed_history *history, uint32_t round, uint32_t updates) {
    append(&history->committed,
           (deed){.device = history->logs, .number = round, .updates = updates});
}

void fed_history_next_log(fed_history *history) {
    history->logs++;
}

void fed_history_stored(fed_history *history, uint32_t round, uint32_t updates) {
    append(&history->stored, (deed){.number = round, .updates = updates});
}

bool fed_history_read_log(fed_history *history, const char *path) {
    FILE *file = fopen(path, "r");
    char line[1000];
    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned round = 0, updates = 0;
        const char *at = strstr(line, " round ");
        if (at != NULL &&
            sscanf(at, " round %u: committed with %u updates", &round, &updates) == 2) {
            fed_history_committed(history, round, updates);
        }
    }
    fclose(file);
    return true;
}

#define BROKEN(...) (snprintf(why, cap, __VA_ARGS__), false)

static int by_lease(const void *a, const void *b) {
    const deed *x = a, *y = b;
    return (x->lease > y->lease) - (x->lease < y->lease);
}

static bool each_lease_once(list *l, char *why, size_t cap) {
    size_t kept = 0;
    if (l->count > 0) { /* qsort must not get NULL */
        qsort(l->items, l->count, sizeof *l->items, by_lease);
    }
    for (size_t k = 0; k < l->count; k++) {
        const deed *d = &l->items[k], *last = kept > 0 ? &l->items[kept - 1] : NULL;
        const bool again = last != NULL && last->lease == d->lease;
        if (again && last->device != d->device) {
            return BROKEN("H1: lease %llx was acknowledged to devices %u and %u",
                          (unsigned long long)d->lease, last->device, d->device);
        }
        if (again && last->digest != d->digest) {
            return BROKEN("H1: two messages of device %u were acknowledged for lease %llx",
                          d->device, (unsigned long long)d->lease);
        }
        if (!again) {
            l->items[kept++] = *d;
        }
    }
    l->count = kept;
    return true;
}

static size_t count_of(const list *l, uint32_t round) {
    size_t count = 0;
    for (size_t k = 0; k < l->count; k++) {
        count += l->items[k].number == round;
    }
    return count;
}

static bool rounds_count_what_was_acknowledged(const list *acknowledged, const list *stored,
                                               char *why, size_t cap) {
    size_t in = 0;
    const bool known = count_of(acknowledged, 0) == 0;
    for (size_t k = 0; k < stored->count; k++) {
        const deed *row = &stored->items[k];
        const size_t said = count_of(acknowledged, row->number);
        in += row->updates;
        if (known && said != row->updates) {
            return BROKEN("H2: round %u counted %u updates, %zu were acknowledged", row->number,
                          row->updates, said);
        }
    }
    return in == acknowledged->count
               ? true
               : BROKEN("H2: all rounds counted %zu updates, %zu were acknowledged", in,
                        acknowledged->count);
}

static bool rounds_commit_once(const list *committed, const list *stored, char *why, size_t cap) {
    for (size_t k = 1; k < committed->count; k++) {
        const deed *last = &committed->items[k - 1], *d = &committed->items[k];
        if (d->number <= last->number && d->device == last->device) {
            return BROKEN("H3: round %u committed after round %u", d->number, last->number);
        }
        for (size_t j = 0; j < k; j++) {
            if (committed->items[j].number == d->number) {
                return BROKEN("H3: two coordinators have committed round %u", d->number);
            }
        }
    }
    for (size_t k = 0; k < committed->count; k++) {
        const deed *said = &committed->items[k];
        size_t same = 0;
        for (size_t r = 0; r < stored->count; r++) {
            same += stored->items[r].number == said->number &&
                    stored->items[r].updates == said->updates;
        }
        if (same != 1) {
            return BROKEN("H3: the log said that round %u committed with %u updates; the store "
                          "has %zu such rounds",
                          said->number, said->updates, same);
        }
    }
    for (size_t k = 0; k < stored->count; k++) {
        if (count_of(stored, stored->items[k].number) != 1) {
            return BROKEN("H3: round %u is stored more than once", stored->items[k].number);
        }
    }
    return true;
}

static bool versions_have_one_content(const list *announced, char *why, size_t cap) {
    for (size_t k = 0; k < announced->count; k++) {
        const deed *d = &announced->items[k];
        for (size_t j = 0; j < k; j++) {
            const deed *other = &announced->items[j];
            if (other->number == d->number && other->digest != d->digest) {
                return BROKEN("H4: version %u had two contents: for device %u and for device %u",
                              d->number, other->device, d->device);
            }
            if (other->number == d->number) {
                break;
            }
        }
    }
    return true;
}

static bool no_device_goes_back(const list *announced, char *why, size_t cap) {
    for (size_t k = 0; k < announced->count; k++) {
        const deed *d = &announced->items[k];
        size_t j = k;
        while (j-- > 0 && announced->items[j].device != d->device) {
        }
        if (j != SIZE_MAX && announced->items[j].number > d->number) {
            return BROKEN("H5: device %u was sent to version %u after version %u", d->device,
                          d->number, announced->items[j].number);
        }
    }
    return true;
}

bool fed_history_holds(const fed_history *history, char *why, size_t cap) {
    list said = {.count = 0};
    for (size_t k = 0; k < history->acknowledged.count; k++) {
        append(&said, history->acknowledged.items[k]);
    }
    const bool holds = each_lease_once(&said, why, cap) &&
                       rounds_count_what_was_acknowledged(&said, &history->stored, why, cap) &&
                       rounds_commit_once(&history->committed, &history->stored, why, cap) &&
                       versions_have_one_content(&history->announced, why, cap) &&
                       no_device_goes_back(&history->announced, why, cap);
    free(said.items);
    return holds;
}
