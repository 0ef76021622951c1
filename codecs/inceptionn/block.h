/* inceptionn's inner loops, over 64 values: what a value becomes, and its bytes put together. */
#ifndef FEDCODEC_INCEPTIONN_BLOCK_H
#define FEDCODEC_INCEPTIONN_BLOCK_H

#include "codecs/prim/floats.h"
#include "codecs/prim/tags.h"

enum { BLOCK = 64, BLOCK_TAGS = BLOCK / FEDCODEC_TAGS };

/* The bits of 1.0. */
enum { ONE = 0x3f800000 };
#define SIGN UINT32_C(0x80000000)

/* The least magnitudes, as their bits, that are sent at all and that are sent in 16 bits. */
typedef struct classes {
    int32_t low, middle;
} classes;

/*
 * What check asks about a message's words: the least and the largest magnitude of each class. Those
 * of 8 and 16 bits in units of 2^-15, those of 32 as the float's bits. least16 may lack its 8 low
 * bits. Where a class is empty, its largest is 0, and its least as large as it can be.
 */
typedef struct ranges {
    int16_t least8, most8, least16, most16;
    int32_t least32, most32;
} ranges;

/*
 * All values are whole words first, of which the most significant bytes are sent: the sign, and the
 * magnitude times 2^31. So the byte of the 8 bit class is the upper one of the 16 bit class.
 *
 * A unit gives these, which return where the next block's payload is; and its own forms of what is
 * kept of all blocks, with largest_of, nothing_seen and ranges_seen. 4 bytes for each value can be
 * written at `out`, FEDCODEC_TAGS_AHEAD bytes be read at `src`.
 *
 *     uint8_t *encode_block(const float *x, classes c, uint8_t *tags, uint8_t *out, largest *max)
 *     const uint8_t *decode_block(const uint8_t *tags, const uint8_t *src, float *y)
 *     const uint8_t *check_block(const uint8_t *tags, const uint8_t *src, seen *s)
 */
#if defined(FEDCODEC_AVX512)
#include "codecs/inceptionn/block_avx512_impl.h"
#elif defined(FEDCODEC_AVX2)
#include "codecs/inceptionn/block_avx2_impl.h"
#else
#include "codecs/inceptionn/block_plain_impl.h"
#endif

#endif
