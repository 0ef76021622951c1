/* Random numbers of a stream, as fed/rng.h gives them: Philox4x32-10. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Return numbers 4 * block to 4 * block + 3 of the stream (stream, 0) of a seed below 2^32. */
FUNC u32x4 random_block(u32 seed, u32 stream, u32 block) {
    u32x4 v;
    u32 key0 = seed, key1 = 0;
    v.x = block;
    v.y = 0;
    v.z = stream;
    v.w = 0;
    for (u32 round = 0; round < 10; round++) {
        const u64 left = (u64)0xd2511f53U * v.x, right = (u64)0xcd9e8d57U * v.z;
        v.x = (u32)(right >> 32) ^ v.y ^ key0;
        v.z = (u32)(left >> 32) ^ v.w ^ key1;
        v.y = (u32)right;
        v.w = (u32)left;
        key0 += 0x9e3779b9U;
        key1 += 0xbb67ae85U;
    }
    return v;
}
