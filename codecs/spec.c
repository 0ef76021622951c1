/* Spec strings: "sbc:p=0.01" to a codec with its parameters and back. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "codecs/stage.h"

/* A piece of the spec; not terminated. */
typedef struct word {
    const char *text;
    size_t len;
} word;

static bool word_is(word w, const char *text) {
    return strlen(text) == w.len && memcmp(w.text, text, w.len) == 0;
}

/* The word before the next `stop` or the end; *text moves behind it, onto the stop. */
static word take_word(const char **text, const char *stops) {
    word w = {*text, strcspn(*text, stops)};
    *text += w.len;
    return w;
}

/* A list of names for an error's sentence: "a, b, c". */
typedef struct name_list {
    char text[160];
} name_list;

static void name_list_add(name_list *list, const char *name) {
    size_t used = strlen(list->text);
    snprintf(list->text + used, sizeof list->text - used, "%s%s", used > 0 ? ", " : "", name);
}

/*
 * A decimal number of at most 15 digits: then value = digits * 10^exponent is one exact operand and
 * one rounding, the same double on every machine. strtod would depend on the host's locale.
 */
enum { NUMBER_DIGITS = 15, NUMBER_EXPONENT = 22 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool scale_number(double digits, int exponent, double *value) {
    if (exponent < -NUMBER_EXPONENT || exponent > NUMBER_EXPONENT) {
        return false;
    }
    double power = 1.0; /* exact up to 10^22 */
    for (int k = exponent < 0 ? -exponent : exponent; k > 0; k--) {
        power *= 10.0;
    }
    *value = exponent < 0 ? digits / power : digits * power;
    return true;
}

/* "e-06" and its like; *exponent is moved by it. False: something else, or out of all reason. */
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

static bool parse_number(word w, double *value) {
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

static fed_status find_codec(word name, const fedcodec_vtable **codec, fed_error *err) {
    name_list names = {""};
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        if (word_is(name, fedcodec_at(k)->name)) {
            *codec = fedcodec_at(k);
            return FED_OK;
        }
        name_list_add(&names, fedcodec_at(k)->name);
    }
    return fed_fail(err, FED_EINVAL, "unknown codec \"%.*s\"; there are %s", (int)name.len,
                    name.text, names.text);
}

static fed_status find_param(const fedcodec_vtable *codec, word key, size_t *found,
                             fed_error *err) {
    name_list keys = {""};
    for (size_t k = 0; codec->params[k].key != NULL; k++) {
        if (word_is(key, codec->params[k].key)) {
            *found = k;
            return FED_OK;
        }
        name_list_add(&keys, codec->params[k].key);
    }
    if (keys.text[0] == '\0') {
        return fed_fail(err, FED_EINVAL, "codec %s takes no parameters; found \"%.*s\"",
                        codec->name, (int)key.len, key.text);
    }
    return fed_fail(err, FED_EINVAL, "codec %s has no parameter \"%.*s\"; it has %s", codec->name,
                    (int)key.len, key.text, keys.text);
}

static fed_status read_number(const fedcodec_vtable *codec, const fedcodec_param *param,
                              word number, double *result, fed_error *err) {
    double value = 0.0;
    if (!parse_number(number, &value)) {
        return fed_fail(err, FED_EINVAL,
                        "codec %s: %s=\"%.*s\" is not a decimal number of at most %d digits",
                        codec->name, param->key, (int)number.len, number.text, NUMBER_DIGITS);
    }
    if (!(value >= param->low && value <= param->high)) {
        return fed_fail(err, FED_EINVAL,
                        "codec %s: %s=%.*s is out of range; %s (%s) is from %.15g to %.15g",
                        codec->name, param->key, (int)number.len, number.text, param->key,
                        param->help, param->low, param->high);
    }
    if (param->whole && value != floor(value)) {
        return fed_fail(err, FED_EINVAL, "codec %s: %s=%.*s is not a whole number; %s is one",
                        codec->name, param->key, (int)number.len, number.text, param->key);
    }
    *result = value;
    return FED_OK;
}

static fed_status read_name(const fedcodec_vtable *codec, const fedcodec_param *param, word name,
                            double *result, fed_error *err) {
    name_list names = {""};
    for (size_t k = 0; param->names[k] != NULL; k++) {
        if (word_is(name, param->names[k])) {
            *result = (double)k;
            return FED_OK;
        }
        name_list_add(&names, param->names[k]);
    }
    return fed_fail(err, FED_EINVAL, "codec %s: %s=\"%.*s\" is not one of %s", codec->name,
                    param->key, (int)name.len, name.text, names.text);
}

/* What a sentence shows as an example of its value. */
static void format_preset(const fedcodec_param *param, char *dst, size_t cap) {
    if (param->names != NULL) {
        snprintf(dst, cap, "%s", param->names[(size_t)param->preset]);
    } else {
        snprintf(dst, cap, "%.15g", param->preset);
    }
}

/* One "key=value". `named` has a bit for each parameter that was given already. */
static fed_status parse_param(const char **text, fedcodec *codec, unsigned *named, fed_error *err) {
    const fedcodec_vtable *vtable = codec->vtable;
    word key = take_word(text, "=,");
    size_t k = 0;
    FED_TRY(find_param(vtable, key, &k, err));
    const fedcodec_param *param = &vtable->params[k];
    if (**text != '=') {
        char preset[32];
        format_preset(param, preset, sizeof preset);
        return fed_fail(err, FED_EINVAL, "codec %s: \"%s\" lacks its value; write %s=%s",
                        vtable->name, param->key, param->key, preset);
    }
    ++*text;
    if (*named & 1u << k) {
        return fed_fail(err, FED_EINVAL, "codec %s: parameter \"%s\" is given twice", vtable->name,
                        param->key);
    }
    *named |= 1u << k;
    word value = take_word(text, ",");
    return param->names != NULL ? read_name(vtable, param, value, &codec->param[k], err)
                                : read_number(vtable, param, value, &codec->param[k], err);
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Cut "+runs" off the end of the text. A '+' before a digit is a number's. */
static fed_status take_stage(char *text, uint8_t *stage, fed_error *err) {
    char *plus = strchr(text, '+');
    while (plus != NULL && !is_letter(plus[1])) {
        plus = strchr(plus + 1, '+');
    }
    if (plus == NULL) {
        return FED_OK;
    }
    *plus = '\0';
    name_list names = {""};
    for (size_t k = 0; fedcodec_stage_at(k) != NULL; k++) {
        if (strcmp(plus + 1, fedcodec_stage_at(k)->name) == 0) {
            *stage = fedcodec_stage_at(k)->id;
            return FED_OK;
        }
        name_list_add(&names, fedcodec_stage_at(k)->name);
    }
    if (strcmp(plus + 1, "zstd") == 0) {
        return fed_fail(err, FED_EINVAL,
                        "this build has no second stage \"zstd\": it was made without libzstd; "
                        "install that with its headers (libzstd-dev) and build again");
    }
    return fed_fail(err, FED_EINVAL, "unknown second stage \"%s\"; there are %s", plus + 1,
                    names.text);
}

fed_status fedcodec_parse(const char *spec, fedcodec *codec, fed_error *err) {
    if (strlen(spec) >= FEDCODEC_SPEC) {
        return fed_fail(err, FED_EINVAL, "a codec spec is at most %d characters long",
                        FEDCODEC_SPEC - 1);
    }
    char base[FEDCODEC_SPEC]; /* without the stage */
    memcpy(base, spec, strlen(spec) + 1);
    const char *text = base;
    fedcodec parsed = {.vtable = NULL};
    FED_TRY(take_stage(base, &parsed.stage, err));
    FED_TRY(find_codec(take_word(&text, ":"), &parsed.vtable, err));
    for (size_t k = 0; parsed.vtable->params[k].key != NULL; k++) {
        parsed.param[k] = parsed.vtable->params[k].preset;
    }
    unsigned named = 0;
    while (*text != '\0') {
        text++; /* the ':' or ',' before it */
        FED_TRY(parse_param(&text, &parsed, &named, err));
    }
    *codec = parsed;
    return FED_OK;
}

/* "%.15g" with a point, whatever the host's locale writes there. */
static void format_number(double value, char *dst, size_t cap) {
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

void fedcodec_format(const fedcodec *codec, char *dst) {
    const fedcodec_param *param = codec->vtable->params;
    size_t used = (size_t)snprintf(dst, FEDCODEC_SPEC, "%s", codec->vtable->name);
    char separator = ':';
    for (size_t k = 0; param[k].key != NULL && used < FEDCODEC_SPEC; k++) {
        char number[32];
        const char *value = number;
        if (param[k].names != NULL) {
            if (codec->param[k] == param[k].preset) {
                continue;
            }
            value = param[k].names[(size_t)codec->param[k]];
        } else {
            format_number(codec->param[k], number, sizeof number);
        }
        used += (size_t)snprintf(dst + used, FEDCODEC_SPEC - used, "%c%s=%s", separator,
                                 param[k].key, value);
        separator = ',';
    }
    if (codec->stage != 0 && used < FEDCODEC_SPEC) {
        snprintf(dst + used, FEDCODEC_SPEC - used, "+%s", fedcodec_stage_name(codec->stage));
    }
}
