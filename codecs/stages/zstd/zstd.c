/* zstd: pack a codec's message with the library zstd. Format: docs/codec-formats.md#zstd */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <zstd.h>

#include "codecs/stage.h"

/* zstd's default level. */
enum { LEVEL = 3 };

static size_t zstd_pack(const uint8_t *src, size_t len, uint8_t *dst, size_t cap) {
    size_t packed = ZSTD_compress(dst, cap, src, len, LEVEL);
    return ZSTD_isError(packed) ? 0 : packed;
}

/* Unpack exactly one frame of RFC 8878. The frame states its content's size, which is checked
 * before unpacking. The check of the magic number excludes the formats of zstd's first releases.
 * libzstd reads them, but its old decoders should not get untrusted bytes. */
static fed_status zstd_unpack(const uint8_t *src, size_t len, uint8_t *dst, size_t plain_len) {
    static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd}; /* RFC 8878, section 3.1.1 */
    FED_REQUIRE(len >= sizeof magic && memcmp(src, magic, sizeof magic) == 0, FED_EFORMAT);
    FED_REQUIRE(ZSTD_getFrameContentSize(src, len) == plain_len, FED_EFORMAT);
    FED_REQUIRE(ZSTD_findFrameCompressedSize(src, len) == len, FED_EFORMAT);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    FED_REQUIRE(context != NULL, FED_ENOMEM);
    size_t made = ZSTD_decompressDCtx(context, dst, plain_len, src, len);
    ZSTD_freeDCtx(context);
    return made == plain_len ? FED_OK : FED_EFORMAT;
}

const fedcodec_stage fedcodec_stage_zstd = {
    .id = FEDCODEC_STAGE_ID_zstd,
    .name = "zstd",
    .pack = zstd_pack,
    .unpack = zstd_unpack,
};
