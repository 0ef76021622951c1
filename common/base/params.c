/* Parse spec strings: parameters by a table, and numbers with the same result on every machine. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/params.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fed_word_is(fed_word w, const char *text) {
    return strlen(text) == w.len && memcmp(w.text, text, w.len) == 0;
}

fed_word fed_word_take(const char **text, const char *stops) {
    fed_word w = {*text, strcspn(*text, stops)};
    *text += w.len;
    return w;
}

void fed_names_add(fed_names *list, const char *name) {
    size_t used = strlen(list->text);
    snprintf(list->text + used, sizeof list->text - used, "%s%s", used > 0 ? ", " : "", name);
}

/*
 * The limits of a decimal number. With at most 15 digits, digits * 10^exponent has exact operands
 * and one rounding, so every machine gets the same double. strtod would depend on the locale.
 */
enum { NUMBER_DIGITS = 15, NUMBER_EXPONENT = 22 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool scale_number(double digits, int exponent, double *value) {
    if (exponent < -NUMBER_EXPONENT || exponent > NUMBER_EXPONENT) {
        return false;
    }
    double power = 1.0; /* powers of ten are exact up to 10^22 */
    for (int k = exponent < 0 ? -exponent : exponent; k > 0; k--) {
        power *= 10.0;
    }
    *value = exponent < 0 ? digits / power : digits * power;
    return true;
}

/* Add an exponent such as "e-06" to *exponent. Returns false for other text or a huge number. */
static bool parse_exponent(const char *text, const char *end, int *exponent) {
    if (text == end) {
        return true;
    }
    if (*text != 'e' && *text != 'E') {
        return false;
    }
    text++;
    bool negative = text < end && *text == '-';
    text += text < end && (*text == '-' || *text == '+');
    if (text == end || end - text > 3) {
        return false;
    }
    int value = 0;
    for (; text < end; text++) {
        if (!is_digit(*text)) {
            return false;
        }
        value = 10 * value + (*text - '0');
    }
    *exponent += negative ? -value : value;
    return true;
}

bool fed_word_number(fed_word w, double *value) {
    const char *at = w.text, *end = w.text + w.len;
    bool negative = at < end && *at == '-';
    at += negative;
    double digits = 0.0;
    int count = 0, seen = 0, exponent = 0;
    bool point = false;
    for (; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        digits = 10.0 * digits + (*at - '0');
        count += digits > 0.0;
        seen++;
        exponent -= point;
    }
    if (seen == 0 || count > NUMBER_DIGITS || !parse_exponent(at, end, &exponent) ||
        !scale_number(digits, exponent, value)) {
        return false;
    }
    *value = negative ? -*value : *value;
    return true;
}

bool fed_text_number(const char *text, double *value) {
    char local[512]; /* the number with the point that strtod expects in this locale */
    const char *point = localeconv()->decimal_point, *dot = strchr(text, '.');
    if (text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') {
        return false;
    }
    if (dot != NULL && strcmp(point, ".") != 0) {
        const int n =
            snprintf(local, sizeof local, "%.*s%s%s", (int)(dot - text), text, point, dot + 1);
        if (n < 0 || (size_t)n >= sizeof local) {
            return false;
        }
        text = local;
    }
    char *end = NULL;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

typedef struct owner {
    const char *kind, *name; /* for example "codec" and "sbc" */
    const fed_param *params;
} owner;

static fed_status find_param(const owner *o, fed_word key, size_t *found, fed_error *err) {
    fed_names keys = {""};
    for (size_t k = 0; o->params[k].key != NULL; k++) {
        if (fed_word_is(key, o->params[k].key)) {
            *found = k;
            return FED_OK;
        }
        fed_names_add(&keys, o->params[k].key);
    }
    if (keys.text[0] == '\0') {
        return fed_fail(err, FED_EINVAL, "%s %s takes no parameters; found \"%.*s\"", o->kind,
                        o->name, (int)key.len, key.text);
    }
    return fed_fail(err, FED_EINVAL, "%s %s has no parameter \"%.*s\"; it has %s", o->kind, o->name,
                    (int)key.len, key.text, keys.text);
}

static bool in_range(const fed_param *param, double value) {
    return value >= param->low && value <= param->high;
}

static fed_status read_number(const owner *o, const fed_param *param, fed_word number,
                              double *result, fed_error *err) {
    double value = 0.0;
    if (!fed_word_number(number, &value)) {
        return fed_fail(err, FED_EINVAL,
                        "%s %s: %s=\"%.*s\" is not a decimal number of at most %d digits", o->kind,
                        o->name, param->key, (int)number.len, number.text, NUMBER_DIGITS);
    }
    if (!in_range(param, value)) {
        return fed_fail(err, FED_EINVAL,
                        "%s %s: %s=%.*s is out of range; %s (%s) is from %.15g to %.15g", o->kind,
                        o->name, param->key, (int)number.len, number.text, param->key, param->help,
                        param->low, param->high);
    }
    if (param->whole && value != floor(value)) {
        return fed_fail(err, FED_EINVAL, "%s %s: %s=%.*s must be a whole number", o->kind, o->name,
                        param->key, (int)number.len, number.text);
    }
    *result = value;
    return FED_OK;
}

static fed_status read_name(const owner *o, const fed_param *param, fed_word word, double *result,
                            fed_error *err) {
    fed_names names = {""};
    for (size_t k = 0; param->names[k] != NULL; k++) {
        if (fed_word_is(word, param->names[k])) {
            *result = (double)k;
            return FED_OK;
        }
        fed_names_add(&names, param->names[k]);
    }
    return fed_fail(err, FED_EINVAL, "%s %s: %s=\"%.*s\" is not one of %s", o->kind, o->name,
                    param->key, (int)word.len, word.text, names.text);
}

static void format_example(const fed_param *param, char *dst, size_t cap) {
    if (param->names != NULL) {
        snprintf(dst, cap, "%s", param->names[(size_t)param->preset]);
    } else {
        snprintf(dst, cap, "%.7g", in_range(param, param->preset) ? param->preset : param->low);
    }
}

/* Read one "key=value". Bit k of *named is set once parameter k was given. */
static fed_status read_param(const owner *o, const char **text, double *value, unsigned *named,
                             fed_error *err) {
    fed_word key = fed_word_take(text, "=,");
    size_t k = 0;
    FED_TRY(find_param(o, key, &k, err));
    const fed_param *param = &o->params[k];
    if (**text != '=') {
        char example[32];
        format_example(param, example, sizeof example);
        return fed_fail(err, FED_EINVAL, "%s %s: \"%s\" lacks its value; write %s=%s", o->kind,
                        o->name, param->key, param->key, example);
    }
    ++*text;
    if (*named & 1u << k) {
        return fed_fail(err, FED_EINVAL, "%s %s: parameter \"%s\" is given twice", o->kind, o->name,
                        param->key);
    }
    *named |= 1u << k;
    fed_word found = fed_word_take(text, ",");
    return param->names != NULL ? read_name(o, param, found, &value[k], err)
                                : read_number(o, param, found, &value[k], err);
}

fed_status fed_params_read(const char *kind, const char *name, const fed_param *params,
                           const char *text, double *value, fed_error *err) {
    const owner o = {kind, name, params};
    for (size_t k = 0; params[k].key != NULL; k++) {
        value[k] = params[k].preset;
    }
    unsigned named = 0;
    while (*text != '\0') {
        text++;
        FED_TRY(read_param(&o, &text, value, &named, err));
    }
    for (size_t k = 0; params[k].key != NULL; k++) {
        if (!in_range(&params[k], value[k])) {
            return fed_fail(err, FED_EINVAL, "%s %s needs %s (%s), from %.15g to %.15g", kind, name,
                            params[k].key, params[k].help, params[k].low, params[k].high);
        }
    }
    return FED_OK;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char *fed_spec_plus(char *text) {
    char *plus = strchr(text, '+');
    while (plus != NULL && !is_letter(plus[1])) {
        plus = strchr(plus + 1, '+');
    }
    return plus;
}

/* Write "%.15g", but with a '.' in every locale. */
void fed_param_write(double value, char *dst, size_t cap) {
    snprintf(dst, cap, "%.15g", value);
    size_t kept = 0;
    bool point = false;
    for (const char *at = dst; *at != '\0'; at++) {
        bool plain = is_digit(*at) || strchr("+-e", *at) != NULL;
        if (plain) {
            dst[kept++] = *at;
        } else if (!point) {
            point = true;
            dst[kept++] = '.';
        }
    }
    dst[kept] = '\0';
}
