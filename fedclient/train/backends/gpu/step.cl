/* Losses, the norm of the gradient, and the optimizers' rules. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The result of a pass; the same struct as fedtrain_gpu_result in gpu_net.h. */
typedef struct result {
    double loss; /* the sum of all losses */
    float scale; /* the factor of a gradient that is clipped by norm */
    u32 failed;  /* not 0: a loss was not finite, so updates change nothing from then on */
} result;

/* A work-group for each position computes its loss, and the mean loss's gradient by its scores. */
KERNEL cross_entropy(GLOBAL const float *score, GLOBAL const u32 *label, u32 classes, u32 positions,
                     float scale, GLOBAL float *grad, GLOBAL double *loss) {
    LOCAL double room[GROUP_SIZE];
    u32 first = GROUP / positions * classes * positions + GROUP % positions;
    float most = score[first];
    for (u32 j = LANE; j < classes; j += GROUP_SIZE) {
        float v = score[first + j * positions];
        most = v > most ? v : most;
    }
    room[LANE] = (double)most;
    BARRIER();
    for (u32 step = GROUP_SIZE / 2; step > 0; step /= 2) {
        double other = LANE < step ? room[LANE + step] : room[LANE];
        BARRIER();
        room[LANE] = other > room[LANE] ? other : room[LANE];
        BARRIER();
    }
    double top = room[0], sum = 0.0;
    BARRIER();
    for (u32 j = LANE; j < classes; j += GROUP_SIZE) {
        sum += exp((double)score[first + j * positions] - top);
    }
    sum = wg_sum(room, sum);
    u32 wanted = label[GROUP];
    for (u32 j = LANE; j < classes; j += GROUP_SIZE) {
        double share = exp((double)score[first + j * positions] - top) / sum;
        grad[first + j * positions] = (float)((double)scale * (share - (j == wanted ? 1.0 : 0.0)));
    }
    if (LANE == 0) {
        loss[GROUP] = log(sum) + top - (double)score[first + wanted * positions];
    }
}

/* target is in the order (position, class), score in the order (class, position). */
KERNEL squared_error(GLOBAL const float *score, GLOBAL const float *target, u32 classes,
                     u32 positions, u32 n, GLOBAL float *grad, GLOBAL double *loss) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        u32 p = i % positions, j = i / positions % classes, b = i / positions / classes;
        float miss = score[i] - target[(b * positions + p) * classes + j];
        grad[i] = 2.0f * miss / (float)n;
        loss[i] = (double)miss * (double)miss;
    }
}

KERNEL loss_sum(GLOBAL const double *loss, u32 n, GLOBAL result *to) {
    LOCAL double room[GROUP_SIZE];
    double sum = 0.0;
    for (u32 i = LANE; i < n; i += GROUP_SIZE) {
        sum += loss[i];
    }
    sum = wg_sum(room, sum);
    if (LANE == 0) {
        to->loss = sum;
        if ((BITS_OF((float)(sum / (double)n)) & 0x7f800000U) == 0x7f800000U) {
            to->failed = 1;
        }
    }
}

typedef struct numbers {
    float mu, limit, scale, decay, share, rate, beta1, beta2;
    float fresh1, fresh2, scale2, epsilon, keep;
    u32 rule, shaped, nesterov, clips;
} numbers;

#define SGD      0U
#define MOMENTUM 1U

/* The gradient times `share`, plus the proximal term, clipped to the limit. NaN stays NaN. */
FUNC float clipped(numbers s, float w, GLOBAL const float *w0, u32 i, float g) {
    g = g * s.share;
    g = w0 != 0 ? g + s.mu * (w - w0[i]) : g;
    if (w0 != 0 || s.shaped != 0) {
        g = g > s.limit ? s.limit : g;
        g = g < -s.limit ? -s.limit : g;
    }
    return g;
}

/* Update n parameters. control and own are scaffold's c and c_i; NULL without scaffold. */
KERNEL update(numbers s, GLOBAL float *w, GLOBAL float *m, GLOBAL float *v, GLOBAL const float *w0,
              GLOBAL const float *control, GLOBAL const float *own, GLOBAL const float *grad, u32 n,
              GLOBAL const result *from) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i >= n || from->failed != 0) {
        return;
    }
    float old = w[i], g = clipped(s, old, w0, i, grad[i]);
    if (w0 != 0 || s.shaped != 0) {
        g = g * (s.clips != 0 ? from->scale : s.scale) + s.decay * old;
    }
    float now = old;
    if (s.rule == SGD) {
        now = old - s.rate * g;
    } else if (s.rule == MOMENTUM) {
        float first = s.beta1 * m[i] + g;
        m[i] = first;
        now = old - s.rate * (s.nesterov != 0 ? g + s.beta1 * first : first);
    } else {
        float first = s.beta1 * m[i] + s.fresh1 * g, second = s.beta2 * v[i] + s.fresh2 * (g * g);
        m[i] = first;
        v[i] = second;
        now = s.keep * old - s.rate * first / (sqrt(second) * s.scale2 + s.epsilon);
    }
    if (own != 0) {
        now -= s.rate * (control[i] - own[i]);
    }
    w[i] = now;
}

/* Compute each work-group's part of the sum of squares. */
KERNEL norm_parts(numbers s, GLOBAL const float *w, GLOBAL const float *w0,
                  GLOBAL const float *grad, u32 n, GLOBAL double *part) {
    LOCAL double room[GROUP_SIZE];
    double sum = 0.0;
    for (u32 i = GROUP * GROUP_SIZE + LANE; i < n; i += GROUPS * GROUP_SIZE) {
        double g = (double)clipped(s, w[i], w0, i, grad[i]);
        sum += g * g;
    }
    sum = wg_sum(room, sum);
    if (LANE == 0) {
        part[GROUP] = sum;
    }
}

/* The factor that clips a gradient's norm to `most`, from 256 parts of the sum of squares, by one
 * work-group. */
KERNEL norm_scale(GLOBAL const double *part, double most, GLOBAL result *to) {
    LOCAL double room[GROUP_SIZE];
    double norm = sqrt(wg_sum(room, part[LANE]));
    if (LANE == 0) {
        to->scale = norm > most ? (float)(most / norm) : 1.0f;
    }
}
