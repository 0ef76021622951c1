/* Definitions that the kernels of all codecs share. The FED_ numbers equal the statuses of
 * fed/status.h. */
/* SPDX-License-Identifier: Apache-2.0 */

#define FED_EFORMAT 2U
#define FED_ENONFINITE 12U
#define FED_EVERSION 14U /* a message that only the processor can decode */

/* A message names the form of its values by a number: 97 is bfloat16, 98 is int8. */
#define IS_NARROW(name) ((name) == 97U || (name) == 98U)

/* The same struct as fedcodec_gpu_head in fedcodec/gpu_codecs.h. */
typedef struct head {
    u32 status;
    u32 len;
    u32 reserved[6];
} head;

FUNC int is_finite(float v) {
    return (BITS_OF(v) & 0x7f800000U) != 0x7f800000U;
}

/* Of several failures the highest status stays, so FED_EVERSION wins over FED_EFORMAT. */
FUNC void fail(GLOBAL head *h, u32 status) {
    ATOMIC_MAX(&h->status, status);
}

FUNC u32 load_u32(GLOBAL const u8 *at) {
    return (u32)at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}
FUNC void store_u32(GLOBAL u8 *at, u32 v) {
    at[0] = (u8)v;
    at[1] = (u8)(v >> 8);
    at[2] = (u8)(v >> 16);
    at[3] = (u8)(v >> 24);
}
