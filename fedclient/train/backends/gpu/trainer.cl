/* Functions that the trainer's kernels share; compiled before the text of each kernel file. */
/* SPDX-License-Identifier: Apache-2.0 */

/* a b + c, rounded once, for each of the four parts. */
#ifdef __OPENCL_VERSION__
FUNC f32x4 fma4(float a, f32x4 b, f32x4 c) {
    return fma((f32x4)(a, a, a, a), b, c);
}
#else
FUNC f32x4 fma4(float a, f32x4 b, f32x4 c) {
    return make_float4(fmaf(a, b.x, c.x), fmaf(a, b.y, c.y), fmaf(a, b.z, c.z), fmaf(a, b.w, c.w));
}
#endif

/* Add a gradient to the one that is there, or store it as the first. */
FUNC void put(GLOBAL float *to, u32 adds, float value) {
    *to = adds != 0 ? *to + value : value;
}

/* The sum over a work-group, in a fixed order. All 256 work-items must call it. `room` is LOCAL
 * double[256], and may be used again right after the call. */
FUNC double wg_sum(LOCALP double *room, double value) {
    room[LANE] = value;
    BARRIER();
    for (u32 step = GROUP_SIZE / 2; step > 0; step /= 2) {
        double other = LANE < step ? room[LANE + step] : 0.0;
        BARRIER();
        room[LANE] += other;
        BARRIER();
    }
    double sum = room[0];
    BARRIER();
    return sum;
}
