/* The steps of an LSTM. matrix.cl is compiled before this text. */
/* SPDX-License-Identifier: Apache-2.0 */

/* gates [batch, 4 size, T]: i, f, g, o. At first they hold W_ih x + b_ih, which one product
 * computes for all steps. cell, hidden [batch, size, T + 1]: before the first step, and after each
 * step. Each step has its own launch, for all samples; a work-group computes 16 units of 16
 * samples. */
typedef struct lstm_sizes {
    u32 batch, size, steps;
} lstm_sizes;

#define SIDE  16U
#define PITCH 17U /* SIDE + 1, so that a column's values lie in different memory banks */

FUNC u32 lstm_row(void) {
    return LANE / SIDE;
}

FUNC u32 lstm_column(void) {
    return LANE % SIDE;
}

FUNC u32 lstm_sample(lstm_sizes s) {
    return GROUP / ((s.size + SIDE - 1) / SIDE) * SIDE + lstm_row();
}

FUNC u32 lstm_first_unit(lstm_sizes s) {
    return GROUP % ((s.size + SIDE - 1) / SIDE) * SIDE;
}

FUNC float lstm_sigmoid(float x) {
    return 1.0f / (1.0f + EXP(-x));
}

KERNEL lstm_step(lstm_sizes s, u32 t, GLOBAL const float *weight_hh, GLOBAL const float *bias_hh,
                 GLOBAL float *gates, GLOBAL float *cell, GLOBAL float *hidden, GLOBAL float *y) {
    LOCAL float h[SIDE * PITCH];
    LOCAL f32x4 w[SIDE * PITCH]; /* the weights of the four gates */
    u32 row = lstm_row(), column = lstm_column(), apart = s.size * s.size;
    u32 b = lstm_sample(s), first = lstm_first_unit(s), j = first + column;
    f32x4 sum = F32X4(0.0f, 0.0f, 0.0f, 0.0f);
    for (u32 k = 0; k < s.size; k += SIDE) {
        u32 inside = k + column < s.size;
        GLOBAL const float *from = weight_hh + (first + row) * s.size + k + column;
        f32x4 four = F32X4(0.0f, 0.0f, 0.0f, 0.0f);
        if (inside != 0 && first + row < s.size) {
            four = F32X4(from[0], from[apart], from[2 * apart], from[3 * apart]);
        }
        w[row * PITCH + column] = four;
        h[row * PITCH + column] = inside != 0 && b < s.batch
                                      ? hidden[(b * s.size + k + column) * (s.steps + 1) + t]
                                      : 0.0f;
        BARRIER();
        for (u32 q = 0; q < SIDE; q++) {
            sum = fma4(h[row * PITCH + q], w[column * PITCH + q], sum);
        }
        BARRIER();
    }
    if (b < s.batch && j < s.size) {
        apart = s.size * s.steps;
        GLOBAL float *gate = gates + (b * 4 * s.size + j) * s.steps + t;
        u32 at = (b * s.size + j) * (s.steps + 1) + t;
        float in = lstm_sigmoid(gate[0] + (sum.x + bias_hh[j]));
        float forget = lstm_sigmoid(gate[apart] + (sum.y + bias_hh[s.size + j]));
        float g = TANH(gate[2 * apart] + (sum.z + bias_hh[2 * s.size + j]));
        float out = lstm_sigmoid(gate[3 * apart] + (sum.w + bias_hh[3 * s.size + j]));
        float c = forget * cell[at] + in * g, value = out * TANH(c);
        gate[0] = in;
        gate[apart] = forget;
        gate[2 * apart] = g;
        gate[3 * apart] = out;
        cell[at + 1] = c;
        hidden[at + 1] = value;
        y[(b * s.size + j) * s.steps + t] = value;
    }
}

/* The backward pass of step t; the last step comes first. The gates are overwritten by the
 * gradients of their inputs. dh = dy + W_hh^T dgates, with dgates of step t + 1. dcell [batch,
 * size]: on entry the gradient of the cell after step t, on exit of the cell before it. The last
 * step does not read dcell. */
KERNEL lstm_step_back(lstm_sizes s, u32 t, GLOBAL const float *weight_hh, GLOBAL float *gates,
                      GLOBAL const float *cell, GLOBAL const float *dy, GLOBAL float *dcell) {
    LOCAL float d[SIDE * PITCH];
    LOCAL float w[SIDE * PITCH];
    u32 row = lstm_row(), column = lstm_column();
    u32 b = lstm_sample(s), j = lstm_first_unit(s) + column;
    u32 rows = t + 1 < s.steps ? 4 * s.size : 0;
    float dh = 0.0f;
    for (u32 k = 0; k < rows; k += SIDE) {
        d[row * PITCH + column] = k + column < rows && b < s.batch
                                      ? gates[(b * rows + k + column) * s.steps + t + 1]
                                      : 0.0f;
        w[row * PITCH + column] =
            k + row < rows && j < s.size ? weight_hh[(k + row) * s.size + j] : 0.0f;
        BARRIER();
        for (u32 q = 0; q < SIDE; q++) {
            dh += d[row * PITCH + q] * w[q * PITCH + column];
        }
        BARRIER();
    }
    if (b < s.batch && j < s.size) {
        GLOBAL float *gate = gates + (b * 4 * s.size + j) * s.steps + t;
        u32 apart = s.size * s.steps, at = (b * s.size + j) * (s.steps + 1) + t;
        float in = gate[0], forget = gate[apart], g = gate[2 * apart], out = gate[3 * apart];
        float squashed = TANH(cell[at + 1]), later = rows > 0 ? dcell[b * s.size + j] : 0.0f;
        dh += dy[(b * s.size + j) * s.steps + t];
        float dc = later + dh * out * (1.0f - squashed * squashed);
        gate[0] = dc * g * in * (1.0f - in);
        gate[apart] = dc * cell[at] * forget * (1.0f - forget);
        gate[2 * apart] = dc * in * (1.0f - g * g);
        gate[3 * apart] = dh * squashed * out * (1.0f - out);
        dcell[b * s.size + j] = dc * forget;
    }
}

/* Begin each sample with the state that it ended the last batch with. */
KERNEL lstm_begin(lstm_sizes s, GLOBAL float *cell, GLOBAL float *hidden) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < s.batch * s.size) {
        u32 first = i * (s.steps + 1);
        cell[first] = cell[first + s.steps];
        hidden[first] = hidden[first + s.steps];
    }
}
