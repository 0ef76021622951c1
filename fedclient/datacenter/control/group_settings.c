/* Compare settings, line by line, and tell which differ. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/group_settings.h"

#include <stdio.h>
#include <string.h>

#include "fed/bytes.h"

enum { EXCERPT = 40, BEFORE = 16, NAME = 24, OTHERS = 48 /* bytes */ };

typedef struct setting {
    const char *name, *value;
    size_t name_len, value_len;
} setting;

/* Read the line at *at, and go on to the next. false: there is no further line. */
static bool next(const char **at, setting *s) {
    const size_t len = strcspn(*at, "\n"), name = strcspn(*at, "=\n");
    if (**at == '\0') {
        return false;
    }
    const size_t begin = name < len ? name + 1 : len;
    *s = (setting){.name = *at, .name_len = name, .value = *at + begin, .value_len = len - begin};
    *at += len + ((*at)[len] == '\n');
    return true;
}

/* Find the line with this name. false: there is none, and *s has the value "". */
static bool find(const char *text, const setting *like, setting *s) {
    while (next(&text, s)) {
        if (s->name_len == like->name_len && memcmp(s->name, like->name, s->name_len) == 0) {
            return true;
        }
    }
    *s = (setting){.name = like->name, .name_len = like->name_len, .value = ""};
    return false;
}

static bool same(const setting *a, const setting *b) {
    return a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0;
}

static void write_text(fed_writer *w, const char *text, size_t len) {
    for (size_t k = 0; k < len; k++) {
        fed_write_printf(w, "%c", text[k] >= ' ' && text[k] <= '~' ? text[k] : '?');
    }
}

/* Write the part of a value around the first byte that differs. */
static void write_excerpt(fed_writer *w, const setting *s, size_t differs) {
    const size_t begin = differs > EXCERPT / 2 ? differs - BEFORE : 0;
    const size_t left = s->value_len > begin ? s->value_len - begin : 0;
    fed_write_printf(w, "\"%s", begin > 0 ? "..." : "");
    write_text(w, s->value + (left > 0 ? begin : 0), left < EXCERPT ? left : EXCERPT);
    fed_write_printf(w, "%s\"", left > EXCERPT ? "..." : "");
}

static size_t first_difference(const setting *a, const setting *b) {
    size_t k = 0;
    while (k < a->value_len && k < b->value_len && a->value[k] == b->value[k]) {
        k++;
    }
    return k;
}

static size_t name_length(const setting *s) {
    return s->name_len < NAME ? s->name_len : NAME;
}

typedef struct comparison {
    fed_writer why;
    uint32_t different;
    size_t others; /* bytes of the names after the first, and 2 for each of these names */
} comparison;

static void tell(comparison *c, const setting *member, const setting *group) {
    const size_t name = name_length(member), at = first_difference(member, group);
    if (c->different++ == 0) {
        fed_write_printf(&c->why, "its ");
        write_text(&c->why, member->name, name);
        fed_write_printf(&c->why, " is ");
        write_excerpt(&c->why, member, at);
        fed_write_printf(&c->why, ", and the worker group's is ");
        write_excerpt(&c->why, group, at);
    } else if (c->others + name < OTHERS) {
        fed_write_printf(&c->why, "%s", c->different == 2 ? "; also different: " : ", ");
        write_text(&c->why, member->name, name);
        c->others += name + 2;
    }
}

bool feddc_group_settings_equal(const char *member, const char *group, char *why, size_t cap) {
    comparison c = {0};
    setting s, other;
    fed_writer_fixed(&c.why, why, cap);
    if ((member[0] == '\0') != (group[0] == '\0')) {
        fed_write_printf(&c.why, "%s: use the same release of the programs on all machines",
                         member[0] == '\0' ? "it does not tell its settings"
                                           : "the worker group has members that tell no settings");
        return false;
    }
    for (const char *at = group; next(&at, &s);) {
        (void)find(member, &s, &other);
        if (!same(&other, &s)) {
            tell(&c, &other, &s);
        }
    }
    for (const char *at = member; next(&at, &s);) {
        if (!find(group, &s, &other) && s.value_len > 0) {
            tell(&c, &s, &other);
        }
    }
    fed_write_printf(&c.why, "; give all machines the same options and data");
    return c.different == 0;
}

fed_status feddc_group_settings_check(const char *settings, fed_error *err) {
    return settings == NULL || strlen(settings) < FEDDC_SETTINGS
               ? FED_OK
               : fed_fail(err, FED_EINVAL, "a worker's settings have at most %d bytes",
                          FEDDC_SETTINGS - 1);
}
