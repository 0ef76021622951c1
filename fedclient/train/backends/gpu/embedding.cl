/* Embeddings: each word has a row of the weight. The words of a batch are an array [batch, T]. */
/* SPDX-License-Identifier: Apache-2.0 */

/* n: number of values of the output. */
KERNEL embedding_forward(GLOBAL const float *word, GLOBAL const float *weight, GLOBAL float *y,
                         u32 size, u32 steps, u32 n) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        u32 row = i / steps, sample = row / size;
        u32 at = (u32)word[sample * steps + (i - row * steps)];
        y[i] = weight[at * size + (row - sample * size)];
    }
}

/* next[i]: the next place with the same word, or n. first[i]: 1 at the first place of a word. */
KERNEL embedding_chain(GLOBAL const float *word, u32 n, GLOBAL u32 *next, GLOBAL u32 *first) {
    u32 i = GROUP * GROUP_SIZE + LANE;
    if (i < n) {
        u32 before = 0, after = i + 1;
        while (word[before] != word[i]) {
            before++;
        }
        while (after < n && word[after] != word[i]) {
            after++;
        }
        first[i] = before == i ? 1 : 0;
        next[i] = after;
    }
}

/* There is a work-group for each place. The group of a word's first place adds the gradients of all
 * places with this word to the word's row, in their order. */
KERNEL embedding_backward(GLOBAL const float *word, GLOBAL const u32 *next, GLOBAL const u32 *first,
                          GLOBAL const float *dy, GLOBAL float *dweight, u32 size, u32 steps,
                          u32 n) {
    if (first[GROUP] == 0) {
        return;
    }
    GLOBAL float *row = dweight + (u32)word[GROUP] * size;
    for (u32 c = LANE; c < size; c += GROUP_SIZE) {
        float sum = row[c];
        for (u32 i = GROUP; i < n; i = next[i]) {
            u32 sample = i / steps;
            sum += dy[(sample * size + c) * steps + (i - sample * steps)];
        }
        row[c] = sum;
    }
}
