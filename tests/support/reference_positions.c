/* Reference code of the position codes. Never optimise it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_positions.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference_values.h"

typedef struct stream {
    uint8_t *data;
    size_t len, bits; /* bits: bits used of the last byte; 0 or 8: all */
} stream;

static void put_byte(stream *s, unsigned byte) {
    if ((s->len & (s->len - 1)) == 0) {
        s->data = realloc(s->data, 2 * s->len + 1);
        if (s->data == NULL) {
            abort();
        }
    }
    s->data[s->len++] = (uint8_t)byte;
    s->bits = 0;
}

static void put_bits(stream *s, uint64_t value, unsigned count) {
    for (unsigned k = count; k-- > 0;) {
        if (s->bits % 8 == 0) {
            put_byte(s, 0xff);
        }
        s->data[s->len - 1] ^= (uint8_t)((~value >> k & 1) << (7 - s->bits));
        s->bits++;
    }
}

static void put_unary(stream *s, uint64_t ones) {
    for (; ones > 0; ones--) {
        put_bits(s, 1, 1);
    }
    put_bits(s, 0, 1);
}

static unsigned bit_at(const uint8_t *src, size_t k) {
    return src[k / 8] >> (7 - k % 8) & 1;
}

static uint64_t get_bits(const uint8_t *src, size_t *at, unsigned count) {
    uint64_t value = 0;
    for (; count > 0; count--) {
        value = 2 * value + bit_at(src, (*at)++);
    }
    return value;
}

static uint64_t get_unary(const uint8_t *src, size_t *at) {
    uint64_t ones = 0;
    while (bit_at(src, (*at)++) == 1) {
        ones++;
    }
    return ones;
}

static unsigned exponent_of(uint64_t v) {
    unsigned e = 0;
    while (v >> (e + 1) != 0) {
        e++;
    }
    return e;
}

static uint64_t gap_at(const uint32_t *index, size_t i) {
    return i == 0 ? index[0] : (uint64_t)index[i] - index[i - 1] - 1;
}

static unsigned papers_b(double p) {
    double phi = (sqrt(5.0) + 1.0) / 2.0;
    return (unsigned)fmin(fmax(1.0 + floor(log2(log(phi - 1.0) / log(1.0 - p))), 0.0), 31.0);
}

static uint64_t golomb_bits(const uint32_t *index, size_t k, unsigned b) {
    uint64_t bits = 0;
    for (size_t i = 0; i < k; i++) {
        bits += (gap_at(index, i) >> b) + 1 + b;
    }
    return bits;
}

static unsigned best_b(const uint32_t *index, size_t k) {
    unsigned best = 0;
    for (unsigned b = 1; b <= 31; b++) {
        if (golomb_bits(index, k, b) < golomb_bits(index, k, best)) {
            best = b;
        }
    }
    return best;
}

static void golomb_put(const uint32_t *index, size_t k, unsigned b, stream *out) {
    for (size_t i = 0; i < k; i++) {
        put_unary(out, gap_at(index, i) >> b);
        put_bits(out, gap_at(index, i), b);
    }
}

static void golomb_get(const uint8_t *src, size_t k, unsigned b, uint32_t *index) {
    size_t at = 0;
    uint64_t next = 0;
    for (size_t i = 0; i < k; i++) {
        uint64_t high = get_unary(src, &at);
        index[i] = (uint32_t)(next + (high << b) + get_bits(src, &at, b));
        next = (uint64_t)index[i] + 1;
    }
}

enum { SYMBOLS = 124, SLOTS = 4096 };

static unsigned symbol_of(uint64_t gap) {
    unsigned e = exponent_of(gap);
    return gap < 4 ? (unsigned)gap : 4 * (e - 1) + (unsigned)(gap >> (e - 2)) % 4;
}

static unsigned low_bits(unsigned symbol) {
    return symbol < 4 ? 0 : symbol / 4 - 1;
}

static unsigned detail_for(size_t k) {
    unsigned detail = 0;
    while (detail < 7 && k >= (size_t)2048 << (2 * detail)) {
        detail++;
    }
    return detail;
}

static void weights_of(const uint32_t *index, size_t k, unsigned detail, uint64_t *weight) {
    uint64_t most = 0;
    for (size_t i = 0; i < k; i++) {
        weight[symbol_of(gap_at(index, i))]++;
    }
    for (size_t s = 0; s < SYMBOLS; s++) {
        most = weight[s] > most ? weight[s] : most;
    }
    for (size_t s = 0; s < SYMBOLS; s++) {
        if (weight[s] > 0 && most > 8191) {
            weight[s] = weight[s] * 8191 / most;
            weight[s] = weight[s] == 0 ? 1 : weight[s];
        }
        unsigned e = exponent_of(weight[s]);
        if (e > detail) {
            uint64_t unit = UINT64_C(1) << (e - detail);
            weight[s] = (weight[s] + unit / 2) / unit * unit;
        }
    }
}

static void slots_of(const uint64_t *weight, uint32_t *first) {
    uint64_t total = 0, used = 0;
    for (size_t s = 0; s < SYMBOLS; s++) {
        total += weight[s];
        used += weight[s] > 0;
    }
    for (size_t s = 0; s <= SYMBOLS; s++) {
        uint64_t sum = 0, before = 0;
        for (size_t t = 0; t < s; t++) {
            sum += weight[t];
            before += weight[t] > 0;
        }
        first[s] = (uint32_t)(before + sum * (SLOTS - used) / total);
    }
}

static void weights_put(const uint64_t *weight, unsigned detail, stream *out) {
    unsigned last = SYMBOLS - 1, level = 0;
    while (weight[last] == 0) {
        last--;
    }
    put_bits(out, last, 7);
    for (unsigned s = 0; s <= last; s++) {
        unsigned next = weight[s] == 0 ? 0 : exponent_of(weight[s]) + 1;
        put_unary(out, next > level ? 2 * (next - level) - 1 : 2 * (level - next));
        for (unsigned k = 1; k <= detail && k < next; k++) {
            put_bits(out, weight[s] >> (next - 1 - k), 1);
        }
        level = next;
    }
}

static size_t weights_get(const uint8_t *src, unsigned detail, uint64_t *weight) {
    size_t at = 0;
    unsigned last = (unsigned)get_bits(src, &at, 7), level = 0;
    for (unsigned s = 0; s <= last; s++) {
        unsigned step = (unsigned)get_unary(src, &at);
        level = step % 2 == 1 ? level + step / 2 + 1 : level - step / 2;
        weight[s] = level > 0;
        for (unsigned k = 1; k < level; k++) {
            weight[s] = 2 * weight[s] + (k <= detail ? get_bits(src, &at, 1) : 0);
        }
    }
    return (at + 7) / 8;
}

typedef struct words {
    uint16_t *word;
    size_t count;
    uint64_t state;
} words;

static void words_push(words *w, uint64_t first, uint64_t share, unsigned bits) {
    if (w->state >= share << (32 - bits)) {
        w->word[w->count++] = (uint16_t)(w->state % 65536);
        w->state /= 65536;
    }
    w->state = (w->state / share << bits) + w->state % share + first;
}

static void rans_put(const uint32_t *index, size_t k, unsigned detail, stream *out) {
    uint64_t weight[SYMBOLS] = {0};
    uint32_t first[SYMBOLS + 1];
    weights_of(index, k, detail, weight);
    slots_of(weight, first);
    weights_put(weight, detail, out);
    words w = {.word = fed_reference_make(3 * k, sizeof *w.word), .state = 65536};
    for (size_t i = k; i-- > 0;) {
        uint64_t gap = gap_at(index, i);
        unsigned s = symbol_of(gap), low = low_bits(s);
        uint64_t rest = gap % (UINT64_C(1) << low);
        if (low > 16) {
            words_push(&w, rest >> 16, 1, low - 16);
        }
        words_push(&w, rest % 65536, 1, low > 16 ? 16 : low);
        words_push(&w, first[s], first[s + 1] - first[s], 12);
    }
    for (unsigned byte = 0; byte < 4; byte++) {
        put_byte(out, w.state >> 8 * byte & 255);
    }
    while (w.count-- > 0) {
        put_byte(out, w.word[w.count] & 255);
        put_byte(out, w.word[w.count] >> 8);
    }
    free(w.word);
}

static uint64_t rans_take(uint64_t *state, const uint8_t **src, uint64_t share, uint64_t first,
                          unsigned bits) {
    uint64_t slot = *state % (UINT64_C(1) << bits);
    *state = share * (*state >> bits) + slot - first;
    if (*state < 65536) {
        *state = 65536 * *state + (*src)[0] + 256u * (*src)[1];
        *src += 2;
    }
    return slot;
}

static void rans_get(const uint8_t *src, size_t k, unsigned detail, uint32_t *index) {
    uint64_t weight[SYMBOLS] = {0}, next = 0;
    uint32_t first[SYMBOLS + 1];
    src += weights_get(src, detail, weight);
    slots_of(weight, first);
    uint64_t state = src[0] + 256 * (src[1] + 256 * (src[2] + UINT64_C(256) * src[3]));
    src += 4;
    for (size_t i = 0; i < k; i++) {
        unsigned s = 0;
        while (first[s + 1] <= state % SLOTS) {
            s++;
        }
        rans_take(&state, &src, first[s + 1] - first[s], first[s], 12);
        unsigned low = low_bits(s);
        uint64_t gap = s < 4 ? s : (UINT64_C(4) + s % 4) << low, raw = 0;
        raw = state % (UINT64_C(1) << (low > 16 ? 16 : low));
        rans_take(&state, &src, 1, raw, low > 16 ? 16 : low);
        if (low > 16) {
            uint64_t high = state % (UINT64_C(1) << (low - 16));
            rans_take(&state, &src, 1, high, low - 16);
            raw += high << 16;
        }
        index[i] = (uint32_t)(next + gap + raw);
        next = (uint64_t)index[i] + 1;
    }
}

typedef struct estimate {
    uint32_t fast, slow, seen;
} estimate;

typedef struct interval {
    uint64_t low, high;
    estimate exponent[32], mantissa[32][4];
    stream *out;        /* NULL: decoding */
    const uint8_t *src; /* NULL: encoding */
    uint64_t code;
} interval;

static estimate expected(uint64_t ones, uint64_t all) {
    uint64_t p = all == 0 ? 32768 : ones * 65536 / all;
    p = p == 65536 ? 65535 : p;
    return (estimate){(uint32_t)p, (uint32_t)p, 12};
}

static void interval_start(interval *v, size_t k, size_t n) {
    uint64_t power[32], tail[33] = {UINT64_C(1) << 32};
    power[0] = (UINT64_C(1) << 32) - ((uint64_t)k << 32) / n;
    for (unsigned e = 1; e < 32; e++) {
        power[e] = power[e - 1] * power[e - 1] >> 32;
        tail[e] = tail[e - 1] * power[e - 1] >> 32;
    }
    tail[32] = 0;
    for (unsigned depth = 0; depth < 5; depth++) {
        unsigned span = 32u >> depth;
        for (unsigned j = 0; j < 1u << depth; j++) {
            uint64_t begin = tail[j * span], end = tail[(j + 1) * span];
            v->exponent[(1u << depth) + j] = expected(tail[j * span + span / 2] - end, begin - end);
        }
    }
    for (unsigned e = 1; e < 32; e++) {
        uint64_t half = power[e - 1], quarter = power[e > 1 ? e - 2 : 0];
        v->mantissa[e][1] = expected(half, (UINT64_C(1) << 32) + half);
        v->mantissa[e][2] = expected(quarter, (UINT64_C(1) << 32) + quarter);
        v->mantissa[e][3] = v->mantissa[e][2];
    }
    v->low = 0;
    v->high = UINT32_MAX;
}

static uint32_t moved(uint32_t p, unsigned bit, uint32_t seen) {
    uint32_t step = 131072 / (2 * seen + 3);
    return bit == 1 ? p + (65535 - p) * step / 65536 : p - p * step / 65536;
}

static unsigned narrow(interval *v, estimate *e, unsigned bit) {
    uint64_t p = e == NULL ? 32768 : (e->fast + e->slow) / 2;
    p = p < 64 ? 64 : p > 65472 ? 65472 : p;
    uint64_t middle = v->low + (v->high - v->low) * p / 65536;
    bit = v->out != NULL ? bit : v->code <= middle;
    *(bit == 1 ? &v->high : &v->low) = bit == 1 ? middle : middle + 1;
    if (e != NULL) {
        e->fast = moved(e->fast, bit, e->seen < 30 ? e->seen : 30);
        e->slow = moved(e->slow, bit, e->seen);
        e->seen += e->seen < 254;
    }
    while (v->low >> 24 == v->high >> 24) {
        if (v->out != NULL) {
            put_byte(v->out, (unsigned)(v->low >> 24));
        } else {
            v->code = v->code % (1 << 24) * 256 + v->src[4];
            v->src++;
        }
        v->low = v->low % (1 << 24) * 256;
        v->high = v->high % (1 << 24) * 256 + 255;
    }
    return bit;
}

static uint64_t code_value(interval *v, uint64_t value) {
    unsigned e = exponent_of(value), node = 1;
    for (unsigned k = 5; k-- > 0;) {
        node = 2 * node + narrow(v, &v->exponent[node], e >> k & 1);
    }
    e = node - 32;
    uint64_t result = 1;
    for (unsigned k = e; k-- > 0;) {
        estimate *modelled = result < 4 && e - k <= 2 ? &v->mantissa[e][result] : NULL;
        result = 2 * result + narrow(v, modelled, value >> k & 1);
    }
    return result;
}

static void range_put(const uint32_t *index, size_t k, size_t n, stream *out) {
    interval v = {.out = out};
    interval_start(&v, k, n);
    for (size_t i = 0; i < k; i++) {
        code_value(&v, gap_at(index, i) + 1);
    }
    for (unsigned count = 0; count <= 4; count++) {
        uint64_t unit = UINT64_C(1) << (32 - 8 * count);
        uint64_t value = (v.low + unit - 1) / unit * unit;
        if (value + unit - 1 <= v.high) {
            for (unsigned i = 0; i < count; i++) {
                put_byte(out, value >> (24 - 8 * i) & 255);
            }
            return;
        }
    }
}

static void range_get(const uint8_t *src, size_t k, size_t n, uint32_t *index) {
    interval v = {.src = src};
    interval_start(&v, k, n);
    for (unsigned i = 0; i < 4; i++) {
        v.code = 256 * v.code + src[i];
    }
    uint64_t next = 0;
    for (size_t i = 0; i < k; i++) {
        index[i] = (uint32_t)(next + code_value(&v, 0) - 1);
        next = (uint64_t)index[i] + 1;
    }
}

static stream put_code(unsigned pos, double p, const uint32_t *index, size_t k, size_t n,
                       uint8_t *how) {
    stream out = {.data = NULL};
    if (pos == 2) {
        *how = (uint8_t)(32 + detail_for(k));
        rans_put(index, k, detail_for(k), &out);
    } else if (pos == 3) {
        *how = 64;
        range_put(index, k, n, &out);
    } else {
        *how = (uint8_t)(pos == 0 ? papers_b(p) : best_b(index, k));
        golomb_put(index, k, *how, &out);
    }
    return out;
}

uint8_t *fed_reference_positions_put(unsigned pos, bool chosen, double p, const uint32_t *index,
                                     size_t k, size_t n, size_t *len, uint8_t *how) {
    stream best = put_code(chosen && pos > 1 ? 1 : pos, p, index, k, n, how);
    for (unsigned other = 2; chosen && other <= 3; other++) {
        uint8_t other_how;
        if (pos != other && pos != 4) {
            continue;
        }
        stream out = put_code(other, p, index, k, n, &other_how);
        if (out.len < best.len) {
            free(best.data);
            best = out;
            *how = other_how;
        } else {
            free(out.data);
        }
    }
    *len = best.len;
    return best.data;
}

void fed_reference_positions_get(uint8_t how, const uint8_t *src, size_t len, size_t k, size_t n,
                                 uint32_t *index) {
    uint8_t *padded = fed_reference_make(len + 64, 1);
    memcpy(padded, src, len);
    if (how >= 64) {
        range_get(padded, k, n, index);
    } else if (how >= 32) {
        rans_get(padded, k, how % 32, index);
    } else {
        golomb_get(padded, k, how, index);
    }
    free(padded);
}

static void put_f32(stream *s, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    for (unsigned k = 0; k < 32; k += 8) {
        put_byte(s, bits >> k & 255);
    }
}

static int ascending(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static size_t choose(const float *x, size_t n, double p, uint32_t *index) {
    size_t k = n == 0 ? 0 : (size_t)fmax(1.0, ceil(p * (double)n)), count = 0;
    reference_place *places = fed_reference_make(n, sizeof *places);
    for (size_t i = 0; i < n; i++) {
        places[i] = (reference_place){fabsf(x[i]), i};
    }
    qsort(places, n, sizeof *places, fed_reference_larger_first);
    while (count < k && places[count].magnitude > 0.0f) {
        index[count] = (uint32_t)places[count].index;
        count++;
    }
    qsort(index, count, sizeof *index, ascending);
    free(places);
    return count;
}

static void put_all(const uint8_t *bytes, size_t len, stream *out) {
    for (size_t i = 0; i < len; i++) {
        put_byte(out, bytes[i]);
    }
}

static float put_mean_and_signs(const float *x, const uint32_t *index, size_t count, stream *out) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)fabsf(x[index[i]]);
    }
    float mu = (float)fmin(sum / (double)count, (double)FLT_MAX);
    put_f32(out, mu);
    for (size_t i = 0; i < count; i++) {
        put_bits(out, x[index[i]] < 0.0f, 1);
    }
    return mu;
}

static bool sends_values(const fedcodec_vtable *codec) {
    return strcmp(codec->name, "dgc") == 0 || strcmp(codec->name, "threshold") == 0;
}

static size_t choose_for(const fedcodec *codec, const float *x, size_t n, uint32_t *index) {
    size_t count = 0;
    if (strcmp(codec->vtable->name, "threshold") != 0) {
        count = choose(x, n, codec->param[0], index);
    }
    for (size_t i = 0; i < n && strcmp(codec->vtable->name, "threshold") == 0; i++) {
        if (fabsf(x[i]) >= (float)codec->param[0]) {
            index[count++] = (uint32_t)i;
        }
    }
    return sends_values(codec->vtable)
               ? fed_reference_values_keep((unsigned)codec->param[2], x, index, count)
               : count;
}

static void put_values(const fedcodec *codec, float *residual, const uint32_t *index, size_t count,
                       stream *out) {
    if (sends_values(codec->vtable)) {
        size_t size;
        uint8_t *values =
            fed_reference_values_put((unsigned)codec->param[2], residual, index, count, &size);
        put_all(values, size, out);
        free(values);
        return;
    }
    float mu = put_mean_and_signs(residual, index, count, out);
    for (size_t i = 0; i < count; i++) {
        float *x = &residual[index[i]];
        *x -= *x < 0.0f ? -mu : mu;
    }
}

uint8_t *fed_reference_sparse_encode(const fedcodec *codec, float *residual, size_t n,
                                     size_t *len) {
    if (!sends_values(codec->vtable) && strcmp(codec->vtable->name, "stc") != 0) {
        return NULL;
    }
    uint32_t *index = fed_reference_make(n, sizeof *index);
    size_t count = choose_for(codec, residual, n, index), size = 0;
    stream out = {.data = NULL};
    size_t rest = count;
    for (; rest >= 128; rest /= 128) {
        put_byte(&out, (unsigned)(rest % 128) + 128);
    }
    put_byte(&out, (unsigned)rest);
    if (count > 0) {
        double p = strcmp(codec->vtable->name, "threshold") == 0 ? (double)count / (double)n
                                                                 : codec->param[0];
        uint8_t how, *positions = fed_reference_positions_put((unsigned)codec->param[1], true, p,
                                                              index, count, n, &size, &how);
        if (sends_values(codec->vtable) && codec->param[2] > 0.0) {
            put_byte(&out, 96 + (unsigned)codec->param[2]);
        }
        put_byte(&out, how);
        put_values(codec, residual, index, count, &out);
        put_all(positions, size, &out);
        free(positions);
    }
    free(index);
    *len = out.len;
    return out.data;
}

bool fed_reference_sparse_decode(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                                 float *y, size_t n) {
    bool values = sends_values(codec);
    if (!values && strcmp(codec->name, "stc") != 0) {
        return false;
    }
    size_t count = 0, at = 0, sign = 0;
    for (unsigned shift = 0;; shift += 7) {
        count |= (size_t)(src[at] & 127) << shift;
        if (src[at++] < 128) {
            break;
        }
    }
    if (count == 0) {
        return true;
    }
    uint32_t *index = fed_reference_make(count, sizeof *index);
    unsigned form = values && src[at] > 96 ? src[at++] - 96u : REFERENCE_FLOAT32;
    uint8_t how = src[at++];
    const uint8_t *sent = src + at;
    at += values ? fed_reference_values_len(form, count) : 4 + (count + 7) / 8;
    fed_reference_positions_get(how, src + at, len - at, count, n, index);
    for (size_t i = 0; i < count; i++) {
        float mu = values ? fed_reference_values_get(form, sent, i) : fed_reference_get_f32(sent);
        y[index[i]] = !values && get_bits(sent + 4, &sign, 1) == 1 ? -mu : mu;
    }
    free(index);
    return true;
}
