/* What the kernels of all codecs share. */
/* SPDX-License-Identifier: Apache-2.0 */

#define FED_EFORMAT 2U
#define FED_ENONFINITE 12U
#define FED_EVERSION 14U /* what only the processor reads */

/* Does it name values as bfloat16 or int8? */
#define IS_NARROW(name) ((name) == 97U || (name) == 98U)

/* fedcodec_gpu_head */
typedef struct head {
    u32 status;
    u32 len;
    u32 reserved[6];
} head;

FUNC int is_finite(float v) {
    return (BITS_OF(v) & 0x7f800000U) != 0x7f800000U;
}

/* Of several failures the status of the highest number stays: FED_EVERSION before FED_EFORMAT. */
FUNC void fail(GLOBAL head *h, u32 status) {
    ATOMIC_MAX(&h->status, status);
}

/* A u32, little-endian, at any address. */
FUNC u32 load_u32(GLOBAL const u8 *at) {
    return (u32)at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}
FUNC void store_u32(GLOBAL u8 *at, u32 v) {
    at[0] = (u8)v;
    at[1] = (u8)(v >> 8);
    at[2] = (u8)(v >> 16);
    at[3] = (u8)(v >> 24);
}
