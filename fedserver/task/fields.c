/* The table of a task's keys, and the conversion of their values from and to JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/fields.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/utf8.h"

#define IN_CONFIG(member) (((fedserver_config *)0)->member)
#define IN_PHASE(name)    (((fedserver_phase *)0)->name)
#define TYPE_OF(expression)                                                                        \
    _Generic((expression), char *: FEDSERVER_CHARS, uint32_t: FEDSERVER_U32,                       \
             uint64_t: FEDSERVER_U64, int64_t: FEDSERVER_I64, float: FEDSERVER_F32,                \
             double: FEDSERVER_F64, default: FEDSERVER_OTHER)

/* Initializers of where, type and offsets for a line of task_keys.def whose column `where` is
 * TASK, BOTH or PHASE. */
#define TASK_MEMBERS(name, member)                                                                 \
    .where = FEDSERVER_IN_TASK, .type = TYPE_OF(IN_CONFIG(member)),                                \
    .offset = offsetof(fedserver_config, member), .size = sizeof IN_CONFIG(member)
#define BOTH_MEMBERS(name, member)                                                                 \
    .where = FEDSERVER_IN_BOTH, .type = TYPE_OF(IN_CONFIG(member)),                                \
    .offset = offsetof(fedserver_config, member), .size = sizeof IN_CONFIG(member),                \
    .phase_offset = offsetof(fedserver_phase, name)
#define PHASE_MEMBERS(name, member)                                                                \
    .where = FEDSERVER_IN_PHASE, .type = TYPE_OF(IN_PHASE(name)), .size = sizeof IN_PHASE(name),   \
    .phase_offset = offsetof(fedserver_phase, name)

const fedserver_field fedserver_fields[FEDSERVER_FIELDS] = {
#define FEDSERVER_TASK_KEY(id, key, in, form, member, room, least, most, otherwise, must, meaning) \
    [FEDSERVER_FIELD_##id] = {.name = #key,                                                        \
                              in##_MEMBERS(key, member),                                           \
                              .kind = FEDSERVER_##form,                                            \
                              .low = (least),                                                      \
                              .high = (most),                                                      \
                              .preset = (otherwise),                                               \
                              .right = (must)},
#include "fedserver/task_keys.def"
};
static_assert(offsetof(fedserver_config, task) == 0, "offsets are those of a fedserver_task, too");
static_assert(FEDSERVER_PHASES == 32, "task_keys.def says 32 in the line of PHASES");

#define TASK_FITS(name, member)
#define PHASE_FITS(name, member)
#define BOTH_FITS(name, member)                                                                    \
    static_assert(sizeof IN_PHASE(name) == sizeof IN_CONFIG(member) &&                             \
                      TYPE_OF(IN_PHASE(name)) == TYPE_OF(IN_CONFIG(member)),                       \
                  #name " has another type in a phase than in the task");
#define FEDSERVER_TASK_KEY(id, key, in, form, member, room, ...) in##_FITS(key, member)
#include "fedserver/task_keys.def"

bool fedserver_field_kept(const fedserver_field *field) {
    return (field->where & FEDSERVER_IN_TASK) != 0 && field->kind != FEDSERVER_PATH;
}

bool fedserver_field_told(const fedserver_field *field) {
    const size_t wire = offsetof(fedserver_config, task.wire);
    return (field->where & FEDSERVER_IN_TASK) != 0 && field->offset >= wire &&
           field->offset < wire + sizeof(fed_task);
}

bool fedserver_field_unset(const fedserver_field *field, const void *member) {
    const bool none = (field->type == FEDSERVER_CHARS && ((const char *)member)[0] == '\0') ||
                      (field->type == FEDSERVER_F32 && *(const float *)member == 0) ||
                      (field->type == FEDSERVER_U32 && field->kind == FEDSERVER_INTEGER &&
                       *(const uint32_t *)member == 0);
    return none && field->preset != NULL && field->preset[0] == '\0';
}

const char *fedserver_field_right(const fedserver_field *field, char dst[96]) {
    if (field->right != NULL) {
        return field->right;
    }
    snprintf(dst, 96, "%s from %.12g to %.12g",
             field->kind == FEDSERVER_INTEGER ? "an integer" : "a number", field->low, field->high);
    return dst;
}

static size_t choice_take(const char **right, const char **text) {
    static const char comma[] = ", ", or [] = " or ";
    *text = *right;
    const char *end = strstr(*right, comma) != NULL ? strstr(*right, comma) : strstr(*right, or);
    const size_t len = end != NULL ? (size_t)(end - *right) : strlen(*right);
    *right += len;
    *right += strncmp(*right, comma, 2) == 0 ? 2 : strncmp(*right, or, 4) == 0 ? 4 : 0;
    return len;
}

static bool choice_find(const fedserver_field *field, const char *wanted, uint32_t *value) {
    const char *right = field->right, *text;
    for (uint32_t k = 0; *right != '\0'; k++) {
        const size_t len = choice_take(&right, &text);
        if (strlen(wanted) == len && memcmp(wanted, text, len) == 0) {
            *value = k;
            return true;
        }
    }
    return false;
}

void fedserver_field_preset(const fedserver_field *field, void *member) {
    const char *preset = field->preset != NULL ? field->preset : "";
    switch (field->type) {
    case FEDSERVER_CHARS:
        snprintf(member, field->size, "%s", preset);
        break;
    case FEDSERVER_U32:
        if (field->kind != FEDSERVER_CHOICE) {
            *(uint32_t *)member = (uint32_t)strtoul(preset, NULL, 10);
        } else if (!choice_find(field, preset, member)) {
            *(uint32_t *)member = 0;
        }
        break;
    case FEDSERVER_U64:
        *(uint64_t *)member = strtoull(preset, NULL, 10);
        break;
    case FEDSERVER_I64:
        *(int64_t *)member = llround(strtod(preset, NULL) * 1000.0);
        break;
    case FEDSERVER_F32:
        *(float *)member = strtof(preset, NULL);
        break;
    case FEDSERVER_F64:
        *(double *)member = strtod(preset, NULL);
        break;
    case FEDSERVER_OTHER:
        break;
    }
}

static const char *too_long(size_t len, size_t most, char found[96]) {
    snprintf(found, 96, "too long: it has %zu bytes, and the limit is %zu", len, most);
    return found;
}

static const char *take_text(const fedserver_field *field, char *member, const json_t *value,
                             bool bounded, char found[96]) {
    const char *text = json_string_value(value);
    if (text == NULL) {
        return "not a text";
    }
    const size_t len = json_string_length(value);
    if (len == 0 && bounded) {
        return "empty";
    }
    if (field->kind == FEDSERVER_CHOICE) {
        snprintf(found, 96, "\"%.60s\"", text);
        return choice_find(field, text, (uint32_t *)(void *)member) ? NULL : found;
    }
    const size_t most = field->kind == FEDSERVER_PATH ? (size_t)field->high : field->size - 1;
    if (strlen(text) != len) {
        return "a text with a NUL character";
    }
    if (len > most) {
        return too_long(len, most, found);
    }
    memcpy(member, text, len + 1);
    return NULL;
}

static const char *take_object(const fedserver_field *field, char *member, const json_t *value,
                               char found[96]) {
    if (!json_is_object(value)) {
        return "not an object";
    }
    const size_t len = json_dumpb(value, member, field->size - 1, JSON_COMPACT);
    if (len == 0 || len >= field->size) {
        return too_long(len, field->size - 1, found);
    }
    member[len] = '\0';
    return NULL;
}

static void put_number(const fedserver_field *field, void *member, const json_t *value) {
    switch (field->type) {
    case FEDSERVER_U32:
        *(uint32_t *)member = (uint32_t)json_integer_value(value);
        break;
    case FEDSERVER_U64:
        *(uint64_t *)member = (uint64_t)json_integer_value(value);
        break;
    case FEDSERVER_I64:
        *(int64_t *)member = llround(json_number_value(value) * 1000.0);
        break;
    case FEDSERVER_F32:
        *(float *)member = (float)json_number_value(value);
        break;
    default:
        *(double *)member = json_number_value(value);
        break;
    }
}

const char *fedserver_field_take(const fedserver_field *field, void *member, const json_t *value,
                                 bool bounded, char found[96]) {
    if (field->kind == FEDSERVER_LIST) {
        return !json_is_array(value)                          ? "not a list"
               : json_array_size(value) > (size_t)field->high ? "too long"
                                                              : NULL;
    }
    if (field->kind == FEDSERVER_OBJECT) {
        return take_object(field, member, value, found);
    }
    if (field->type == FEDSERVER_CHARS || field->kind == FEDSERVER_CHOICE) {
        return take_text(field, member, value, bounded, found);
    }
    const bool integer = field->kind == FEDSERVER_INTEGER;
    if (integer ? !json_is_integer(value) : !json_is_number(value)) {
        return integer ? "not an integer" : "not a number";
    }
    const double number = json_number_value(value);
    const bool fits = bounded                        ? number >= field->low && number <= field->high
                      : field->type == FEDSERVER_U32 ? number >= 0 && number <= UINT32_MAX
                      : field->type == FEDSERVER_F32 ? isfinite((float)number)
                                                     : true;
    if (!fits) {
        snprintf(found, 96, "%.12g", number);
        return found;
    }
    put_number(field, member, value);
    return NULL;
}

/* JSON needs UTF-8, so other bytes are replaced. */
static void write_text(const char *text, size_t len, fed_writer *w) {
    json_t *value = json_stringn(text, len);
    if (value == NULL) {
        char clean[4096];
        snprintf(clean, sizeof clean, "%.*s", (int)len, text);
        fed_utf8_clean(clean);
        value = json_string(clean);
    }
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (quoted != NULL) {
        fed_write_printf(w, "%s", quoted);
    } else {
        w->status = FED_ENOMEM;
    }
    free(quoted);
}

static void write_number(double x, bool single, fed_writer *w) {
    char text[40];
    int digits = 0;
    if (x == floor(x) && fabs(x) < 1e15) {
        fed_write_printf(w, "%.0f", x);
        return;
    }
    do {
        snprintf(text, sizeof text, "%.*g", ++digits, x);
    } while (digits < 17 && (single ? (double)strtof(text, NULL) : strtod(text, NULL)) != x);
    fed_write_printf(w, "%s", text);
}

static void write_choice(const fedserver_field *field, uint32_t value, fed_writer *w) {
    const char *right = field->right, *text = right;
    size_t len = 0;
    for (uint32_t k = 0; k <= value && *right != '\0'; k++) {
        len = choice_take(&right, &text);
    }
    write_text(text, len, w);
}

void fedserver_field_write(const fedserver_field *field, const void *member, fed_writer *w) {
    switch (field->type) {
    case FEDSERVER_CHARS:
        if (field->kind != FEDSERVER_OBJECT) {
            write_text(member, strlen(member), w);
        } else {
            const char *text = member;
            fed_write_printf(w, "%s", text[0] != '\0' ? text : "null");
        }
        break;
    case FEDSERVER_U32:
        if (field->kind == FEDSERVER_CHOICE) {
            write_choice(field, *(const uint32_t *)member, w);
        } else {
            fed_write_printf(w, "%lu", (unsigned long)*(const uint32_t *)member);
        }
        break;
    case FEDSERVER_U64: /* written as signed, since jansson's integers are signed 64-bit numbers */
        fed_write_printf(w, "%lld", (long long)*(const uint64_t *)member);
        break;
    case FEDSERVER_I64:
        write_number((double)*(const int64_t *)member / 1000.0, false, w);
        break;
    case FEDSERVER_F32:
        write_number((double)*(const float *)member, true, w);
        break;
    case FEDSERVER_F64:
        write_number(*(const double *)member, false, w);
        break;
    case FEDSERVER_OTHER:
        break;
    }
}
