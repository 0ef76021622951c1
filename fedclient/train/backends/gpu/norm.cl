/* Normalizations: over the batch, and over neighbouring channels. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Values are [batch, channels, area]. `parts` work-groups share a channel. Each takes
 * the same number of samples, except that the last ones may take fewer. Sums are double: first a
 * work-item's values in order, then the group's sums, then the parts. */
typedef struct bn_sizes {
    u32 batch, channels, area, parts;
} bn_sizes;

#define BN_EPSILON 1e-5f

/* The statistics of each channel in the last batch of training. */
typedef struct bn_channel {
    double mean, variance;
    double unbiased; /* the variance, divided by n - 1 instead of n */
} bn_channel;

/* Two sums: of values and of squares; or of gradients, and of gradients times x - mean. */
typedef struct bn_sums {
    double a, b;
} bn_sums;

FUNC bn_sums bn_total(bn_sizes s, GLOBAL const bn_sums *part, u32 c) {
    bn_sums sum = {0.0, 0.0};
    for (u32 k = 0; k < s.parts; k++) {
        sum.a += part[c * s.parts + k].a;
        sum.b += part[c * s.parts + k].b;
    }
    return sum;
}

/* How a work-item visits every 256th value of its group. */
typedef struct bn_walk {
    u32 at;            /* index of the value in x */
    u32 left;
    u32 in_plane;      /* place of the value in its plane */
    u32 planes, after; /* 256 / area, 256 % area */
} bn_walk;

FUNC bn_walk bn_begin(bn_sizes s) {
    u32 c = GROUP / s.parts, each = (s.batch + s.parts - 1) / s.parts;
    u32 first = GROUP % s.parts * each;
    u32 end = first + each < s.batch ? first + each : s.batch;
    u32 values = first < end ? (end - first) * s.area : 0;
    bn_walk w;
    w.planes = GROUP_SIZE / s.area;
    w.after = GROUP_SIZE % s.area;
    w.in_plane = LANE % s.area;
    w.at = ((first + LANE / s.area) * s.channels + c) * s.area + w.in_plane;
    w.left = values > LANE ? (values - LANE + GROUP_SIZE - 1) / GROUP_SIZE : 0;
    return w;
}

FUNC bn_walk bn_next(bn_sizes s, bn_walk w) {
    w.in_plane += w.after;
    u32 turn = w.in_plane >= s.area ? 1 : 0;
    w.in_plane -= turn * s.area;
    w.at += GROUP_SIZE + (w.planes + turn) * (s.channels - 1) * s.area;
    w.left--;
    return w;
}

/* There is a work-group for each part of each channel. part [channels, parts] */
KERNEL bn_measure(bn_sizes s, GLOBAL const float *x, GLOBAL bn_sums *part) {
    LOCAL double room[GROUP_SIZE];
    double sum = 0.0, squares = 0.0;
    for (bn_walk w = bn_begin(s); w.left > 0; w = bn_next(s, w)) {
        double v = x[w.at];
        sum += v;
        squares += v * v;
    }
    sum = wg_sum(room, sum);
    squares = wg_sum(room, squares);
    if (LANE == 0) {
        part[GROUP].a = sum;
        part[GROUP].b = squares;
    }
}

FUNC bn_channel bn_measured(bn_sums sum, double n) {
    bn_channel now;
    now.mean = sum.a / n;
    double squares = sum.b - sum.a * now.mean;
    squares = squares < 0.0 ? 0.0 : squares; /* NaN stays NaN */
    now.variance = squares / n;
    now.unbiased = squares / (n > 1.0 ? n - 1.0 : 1.0);
    return now;
}

/* y = (x - mean) / sqrt(variance + epsilon) * weight + bias. In training the statistics are the
 * batch's, and are kept in seen; if seen is NULL, they are the running statistics. */
KERNEL bn_forward(bn_sizes s, GLOBAL const float *x, GLOBAL const bn_sums *part,
                  GLOBAL bn_channel *seen, GLOBAL const float *running_mean,
                  GLOBAL const float *running_variance, GLOBAL const float *weight,
                  GLOBAL const float *bias, GLOBAL float *y) {
    u32 c = GROUP / s.parts;
    bn_channel now;
    if (seen != 0) {
        now = bn_measured(bn_total(s, part, c), (double)s.batch * s.area);
        if (GROUP % s.parts == 0 && LANE == 0) {
            seen[c] = now;
        }
    } else {
        now.mean = running_mean[c];
        now.variance = running_variance[c];
    }
    float mean = (float)now.mean, shift = bias[c];
    float scale = weight[c] / SQRT((float)now.variance + BN_EPSILON);
    for (bn_walk w = bn_begin(s); w.left > 0; w = bn_next(s, w)) {
        y[w.at] = (x[w.at] - mean) * scale + shift;
    }
}

/* Compute sums for the gradient, by the same work-groups as in bn_measure. */
KERNEL bn_gradient_sums(bn_sizes s, GLOBAL const float *x, GLOBAL const bn_channel *seen,
                        GLOBAL const float *dy, GLOBAL bn_sums *part) {
    LOCAL double room[GROUP_SIZE];
    double sum = 0.0, along = 0.0, mean = seen[GROUP / s.parts].mean;
    for (bn_walk w = bn_begin(s); w.left > 0; w = bn_next(s, w)) {
        double d = dy[w.at];
        sum += d;
        along += d * (x[w.at] - mean);
    }
    sum = wg_sum(room, sum);
    along = wg_sum(room, along);
    if (LANE == 0) {
        part[GROUP].a = sum;
        part[GROUP].b = along;
    }
}

/* The input's gradient, where u = (x - mean) / deviation; mean and deviation depend on x, too.
 * dx = weight / deviation * (dy - mean(dy) - u mean(dy u)). dx may be NULL. */
KERNEL bn_backward(bn_sizes s, GLOBAL const float *x, GLOBAL const bn_channel *seen,
                   GLOBAL const float *dy, GLOBAL const bn_sums *part, GLOBAL const float *weight,
                   GLOBAL float *dweight, GLOBAL float *dbias, GLOBAL float *dx, u32 adds) {
    u32 c = GROUP / s.parts;
    bn_sums sum = bn_total(s, part, c);
    double n = (double)s.batch * s.area;
    float inverse = 1.0f / SQRT((float)seen[c].variance + BN_EPSILON);
    if (GROUP % s.parts == 0 && LANE == 0) {
        dweight[c] = (float)(sum.b * inverse);
        dbias[c] = (float)sum.a;
    }
    float mean = (float)seen[c].mean, scale = weight[c] * inverse;
    float slope = (float)(sum.b * inverse * inverse / n), offset = (float)(sum.a / n);
    for (bn_walk w = bn_begin(s); dx != 0 && w.left > 0; w = bn_next(s, w)) {
        put(dx + w.at, adds, scale * (dy[w.at] - offset - slope * (x[w.at] - mean)));
    }
}

/* Move the running statistics, float32[channels] each, by a tenth towards the batch's. */
KERNEL bn_follow(GLOBAL const bn_channel *seen, u32 channels, GLOBAL const u32 *failed,
                 GLOBAL float *running_mean, GLOBAL float *running_variance) {
    u32 c = GROUP * GROUP_SIZE + LANE;
    if (c < channels && *failed == 0) {
        running_mean[c] = (float)(0.9 * running_mean[c] + 0.1 * seen[c].mean);
        running_variance[c] = (float)(0.9 * running_variance[c] + 0.1 * seen[c].unbiased);
    }
}

typedef struct lrn_sizes {
    u32 n, channels, area; /* values [batch, channels, area] */
    u32 before, after;     /* neighbours before and after a channel */
    float ratio, beta, k;  /* ratio: alpha / span */
} lrn_sizes;

/* y = x / d^beta, d = k + ratio * sum of x^2 over x's channel and its neighbours. */
KERNEL lrn_forward(lrn_sizes s, GLOBAL const float *x, GLOBAL float *y, GLOBAL float *divisor) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i >= s.n) {
        return;
    }
    u32 c = i / s.area % s.channels, first = c < s.before ? 0 : c - s.before;
    u32 end = c + s.after < s.channels ? c + s.after + 1 : s.channels;
    float sum = 0.0f;
    for (u32 j = first; j < end; j++) {
        float v = x[i + j * s.area - c * s.area];
        sum += v * v;
    }
    float d = s.k + s.ratio * sum;
    divisor[i] = d;
    y[i] = x[i] * POW(d, -s.beta);
}

/* dx = dy d^-beta - 2 beta ratio x * s, where s is the sum of dy y / d over the channels whose
 * divisor d includes this channel. */
KERNEL lrn_backward(lrn_sizes s, GLOBAL const float *x, GLOBAL const float *y,
                    GLOBAL const float *divisor, GLOBAL const float *dy, GLOBAL float *dx,
                    u32 adds) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i >= s.n) {
        return;
    }
    u32 c = i / s.area % s.channels, first = c < s.after ? 0 : c - s.after;
    u32 end = c + s.before < s.channels ? c + s.before + 1 : s.channels;
    float sum = 0.0f;
    for (u32 j = first; j < end; j++) {
        u32 other = i + j * s.area - c * s.area;
        sum += dy[other] * y[other] / divisor[other];
    }
    put(dx + i, adds, dy[i] * POW(divisor[i], -s.beta) - 2.0f * s.beta * s.ratio * x[i] * sum);
}
