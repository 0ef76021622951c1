/* Says what a task needs that the software of a device does not know. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/newer.h"

#include <stddef.h>
#include <string.h>

#include "fed/layout_reference.h"
#include "fedserver/task/phases.h"
#include "fedserver/task/private_task.h"

typedef enum place { MODEL, LAYOUT, OWN, OPTIMIZER, CODEC, UP, CLIP, VARIATES } place;

static const struct {
    place place;
    const char *word;
    uint8_t protocol;
    uint32_t capability; /* 0: none is needed */
} newer[] = {
#define FEDSERVER_NEWER(place, word, protocol, capability) {place, word, protocol, capability},
#include "fedserver/rounds/newer.def"
#undef FEDSERVER_NEWER
};

enum { NEWER = sizeof newer / sizeof newer[0] };

static bool knows(const fed_checkin *checkin, size_t k) {
    return checkin->protocol >= newer[k].protocol &&
           (newer[k].capability == 0 || (newer[k].capability & checkin->capabilities) != 0);
}

bool fedserver_knows_all(const fed_checkin *checkin) {
    bool all = true;
    for (size_t k = 0; k < NEWER; k++) {
        all = all && knows(checkin, k);
    }
    return all;
}

static bool has_word(const char *text, const char *word, size_t len) {
    static const char between[] = " \t\n:,;=+|(){}";
    bool found = false;
    while (*text != '\0' && !found) {
        text += strspn(text, between);
        const size_t next = strcspn(text, between);
        found = next == len && memcmp(text, word, len) == 0;
        text += next;
    }
    return found;
}

/* Is `word` one of the words of a model or a spec? A name in a model is a word, too. For
 * "CODEC:KEY": are both words there? */
static bool has(const char *text, const char *word) {
    const size_t len = strcspn(word, ":");
    return has_word(text, word, len) &&
           (word[len] == '\0' || has_word(text, word + len + 1, strlen(word + len + 1)));
}

/* Is `word` in the codec of a delta up to that of round `round`? */
static bool came_down(const fedserver_task *task, uint32_t round, const char *word) {
    bool found = false;
    for (uint32_t k = 0; k <= fedserver_phase_number(task, round) && !found; k++) {
        const fedserver_phase phase = fedserver_phase_at(task, k);
        found = has(phase.codec_down, word);
    }
    return found;
}

/* The key of the task in which the word is; NULL: in none. */
static const char *key_of(const fedserver_task *task, uint32_t round, const fed_task *told,
                          size_t k) {
    const char *word = newer[k].word;
    switch (newer[k].place) {
    case MODEL:
        return has(told->model, word) ? "model" : NULL;
    case LAYOUT:
        return fed_layout_is_reference(told->model) ? "model" : NULL;
    case OWN:
        return told->private_layers[0] != '\0' ? "keys" : NULL;
    case VARIATES:
        return told->codec_variates[0] != '\0' ? "keys" : NULL;
    case CLIP:
        return fedserver_task_adapts(task) ? "clip_quantile" : NULL;
    case OPTIMIZER:
        return has(told->optimizer, word) ? "optimizer" : NULL;
    case CODEC:
        if (came_down(task, round, word)) {
            return "codec_down";
        }
        if (has(told->codec_variates, word)) {
            return "codec_variates";
        }
        return has(told->codec_up, word) ? "codec_up" : NULL;
    default:
        return has(told->codec_up, word) ? "codec_up" : NULL;
    }
}

fedserver_unknown fedserver_newer(const fedserver_task *task, uint32_t round, const fed_task *told,
                                  const fed_checkin *checkin) {
    for (size_t k = 0; k < NEWER; k++) {
        const char *key = knows(checkin, k) ? NULL : key_of(task, round, told, k);
        if (key != NULL) {
            return (fedserver_unknown){newer[k].word, key};
        }
    }
    return (fedserver_unknown){0};
}
