/* Makes the versions of a model, and keeps their deltas in a chain. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/versions/delta.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fed/wire.h"
#include "fedcodec/codec_vtable.h"
#include "fedcodec/envelope.h"
#include "fedcodec/patch.h"

fed_status fedserver_versions_init(fedserver_versions *v, const fed_layout *layout,
                                   uint32_t version, float *values, float *residual) {
    *v = (fedserver_versions){
        .layout = layout, .version = version, .values = values, .residual = residual};
    if (v->residual == NULL) {
        v->residual = calloc(layout->size, sizeof *v->residual);
    }
    fedcodec codec;
    fed_status status = v->residual != NULL ? fedcodec_parse("float32", &codec, NULL) : FED_ENOMEM;
    if (status != FED_OK) {
        fedserver_versions_free(v);
        return status;
    }
    v->snapshot_limit = fedcodec_envelope_bound(&codec, layout, 0);
    v->digest = fed_digest(v->values, layout->size);
    return FED_OK;
}

void fedserver_versions_free(fedserver_versions *v) {
    fedserver_blob_free(v->chain);
    free(v->links);
    free(v->values);
    free(v->residual);
    *v = (fedserver_versions){0};
}

fed_status fedserver_part_encode(fed_part_kind kind, uint32_t from, uint32_t to,
                                 const fedcodec *codec, const fed_layout *layout, uint32_t small,
                                 float *residual, const float *x, fed_writer *part,
                                 fed_error *err) {
    fed_writer envelope;
    fed_writer_growing(&envelope);
    size_t work_size = fedcodec_envelope_work_size(codec, layout, small);
    void *work = work_size > 0 ? malloc(work_size) : NULL;
    fed_status status = work_size > 0 && work == NULL ? FED_ENOMEM : FED_OK;
    if (status == FED_OK) {
        status = fedcodec_envelope_encode(codec, layout, small, residual, x, work, &envelope);
    }
    if (status == FED_OK) {
        fed_part_write(part, &(fed_part){.kind = kind,
                                         .from = from,
                                         .to = to,
                                         .envelope = envelope.data,
                                         .envelope_len = envelope.len});
        status = part->status;
    }
    free(work);
    fed_writer_free(&envelope);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "version %u of the model can't be encoded: %s",
                                       to, fed_status_text(status));
}

fed_status fedserver_part_patch(const fed_part *versions, const float *from, const float *to,
                                size_t n, fed_writer *part, fed_error *err) {
    fed_writer patch;
    fed_writer_growing(&patch);
    fed_status status = fedcodec_patch_write(from, to, n, &patch);
    if (status == FED_OK) {
        fed_part_write(part, &(fed_part){.kind = FED_PART_PATCH,
                                         .from = versions->from,
                                         .to = versions->to,
                                         .envelope = patch.data,
                                         .envelope_len = patch.len});
        status = part->status;
    }
    fed_writer_free(&patch);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "a patch from version %u to %u can't be made: %s",
                          versions->from, versions->to, fed_status_text(status));
}

fed_status fedserver_part_apply(const fed_part *part, const fed_layout *layout, float *values,
                                fed_error *err) {
    const size_t len = (size_t)part->envelope_len;
    if (part->kind == FED_PART_DELTA) {
        return fedcodec_envelope_axpy(part->envelope, len, layout, 1.0f, values, err);
    }
    fed_status status = part->kind == FED_PART_PATCH
                            ? fedcodec_patch_apply(part->envelope, len, values, layout->size)
                            : FED_EFORMAT;
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "the patch to version %u is damaged", part->to);
}

static fedserver_link link_to(const uint8_t *bytes, size_t len, size_t start) {
    fed_reader r;
    fed_part part;
    fedserver_link link = {
        .start = start, .digest = fed_digest_bytes(bytes, len), .plain_len = len};
    fed_reader_init(&r, bytes, len);
    if (fed_part_read(&r, &part) == FED_OK) {
        const size_t envelope_len = (size_t)part.envelope_len;
        link.patch = part.kind == FED_PART_PATCH;
        link.plain_len += fedcodec_envelope_plain_len(part.envelope, envelope_len) - envelope_len;
    }
    return link;
}

static fed_status links_reserve(fedserver_versions *v, size_t count) {
    if (count <= v->links_cap) {
        return FED_OK;
    }
    size_t cap = count < 16 ? 16 : count * 2;
    fedserver_link *links = realloc(v->links, cap * sizeof *links);
    FED_REQUIRE(links != NULL, FED_ENOMEM);
    v->links = links;
    v->links_cap = cap;
    return FED_OK;
}

fed_status fedserver_versions_append(fedserver_versions *v, uint32_t to, const uint8_t *part,
                                     size_t len) {
    FED_REQUIRE(v->parts == 0 || to == v->oldest + v->parts + 1, FED_EFORMAT);
    size_t chain_len = 0;
    const uint8_t *chain = v->chain != NULL ? fedserver_blob_data(v->chain, &chain_len) : NULL;
    /* number of the oldest parts to drop, so that `len` more bytes stay within the limits */
    uint32_t drop = v->parts >= FEDSERVER_CHAIN_PARTS ? v->parts - FEDSERVER_CHAIN_PARTS + 1 : 0;
    while (drop < v->parts && chain_len - v->links[drop].start + len > v->snapshot_limit) {
        drop++;
    }
    uint32_t kept = v->parts - drop;
    size_t from = kept > 0 ? v->links[drop].start : chain_len;
    FED_TRY(links_reserve(v, kept + 1));

    /* The longer chain is a new blob: answers that are being sent still use the old one. */
    fed_writer bytes;
    fed_writer_growing(&bytes);
    if (kept > 0) {
        fed_write_bytes(&bytes, chain + from, chain_len - from);
    }
    fed_write_bytes(&bytes, part, len);
    fedserver_blob *longer = fedserver_blob_new(&bytes);
    FED_REQUIRE(longer != NULL, FED_ENOMEM);

    for (uint32_t k = 0; k < kept; k++) {
        v->links[k] = v->links[k + drop];
        v->links[k].start -= from;
    }
    v->links[kept] = link_to(part, len, chain_len - from);
    v->parts = kept + 1;
    v->oldest = to - v->parts;
    fedserver_blob_free(v->chain);
    v->chain = longer;
    return FED_OK;
}

static fed_status copy_versions(const fedserver_versions *v, fedserver_versions *copy,
                                fed_error *err) {
    const size_t bytes = v->layout->size * sizeof *v->values;
    fedserver_versions made = *v;
    made.residual = NULL;
    made.kept = false;
    made.links_cap = v->parts + 1;
    made.links = calloc(made.links_cap, sizeof *made.links);
    made.chain = v->chain != NULL ? fedserver_blob_share(v->chain) : NULL;
    made.values = malloc(bytes);
    if (made.values == NULL || made.links == NULL) {
        fedserver_versions_free(&made);
        return fed_fail(err, FED_ENOMEM, "out of memory for version %u of the model",
                        v->version + 1);
    }
    memcpy(made.values, v->values, bytes);
    if (v->parts > 0) {
        memcpy(made.links, v->links, v->parts * sizeof *v->links);
    }
    *copy = made;
    return FED_OK;
}

/* Apply a part to the values in the way that each device does, and append it to the chain. */
static fed_status apply_part(fedserver_versions *v, const fed_writer *bytes, fed_error *err) {
    fed_reader r;
    fed_part delta;
    fed_reader_init(&r, bytes->data, bytes->len);
    FED_TRY(fed_part_read(&r, &delta));
    FED_TRY(fedserver_part_apply(&delta, v->layout, v->values, err));
    v->version = delta.to;
    v->digest = fed_digest(v->values, v->layout->size);
    fed_status status = fedserver_versions_append(v, delta.to, bytes->data, bytes->len);
    return status == FED_OK ? FED_OK
                            : fed_fail(err, status, "version %u of the model can't be kept: %s",
                                       v->version, fed_status_text(status));
}

static fed_status follow(const fedserver_versions *v, const fed_writer *part, float *residual,
                         fedserver_versions *next, fed_error *err) {
    fedserver_versions made = *v;
    FED_TRY(copy_versions(v, &made, err));
    fed_status status = apply_part(&made, part, err);
    if (status != FED_OK) {
        fedserver_versions_free(&made);
        return status;
    }
    made.residual = residual;
    *next = made;
    return FED_OK;
}

/* sum: what is to be sent. Set x to it, but shrink what the codecs make longer. */
static void shrink(const fed_layout *layout, const fedcodec *codec, const float *sum, float *x) {
    const size_t statistics = layout->count - layout->statistics;
    const size_t controls = statistics - layout->controls;
    const double stretch = fedcodec_stretch(codec);
    const double variates = codec->variates != NULL ? fedcodec_stretch(codec->variates) : 1;
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        const double by = k < controls ? stretch : k < statistics ? variates : 1;
        for (size_t i = t->offset; i < t->offset + t->size; i++) {
            x[i] = (float)((double)sum[i] / (by * by));
        }
    }
}

static fed_status subtract_part(const fed_writer *bytes, const fed_layout *layout, float *sum,
                                fed_error *err) {
    fed_reader r;
    fed_part part;
    fed_reader_init(&r, bytes->data, bytes->len);
    FED_TRY(fed_part_read(&r, &part));
    return fedcodec_envelope_axpy(part.envelope, (size_t)part.envelope_len, layout, -1.0f, sum,
                                  err);
}

/* A codec such as eden makes values longer, so that the mean of many messages is right, and keeps
 * no residual. But a delta is one message for all devices, and its error would stay in the model.
 * So shortened values are encoded: those that arrive are nearer to the sum than zeros are, and the
 * rest waits in the residual. */
static fed_status encode_stretching(const fedserver_versions *v, const fedcodec *codec,
                                    uint32_t small, const float *mean, float *residual,
                                    fed_writer *bytes, fed_error *err) {
    const fed_layout *layout = v->layout;
    float *x = malloc(layout->size * sizeof *x);
    if (x == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for version %u of the model",
                        v->version + 1);
    }
    for (size_t i = 0; i < layout->size; i++) {
        residual[i] += mean[i];
    }
    shrink(layout, codec, residual, x);
    /* some codecs encode in place, and then x is of no more use */
    fed_status status = fedserver_part_encode(FED_PART_DELTA, v->version, v->version + 1, codec,
                                              layout, small, x, NULL, bytes, err);
    if (status == FED_OK) {
        status = subtract_part(bytes, layout, residual, err);
    }
    free(x);
    return status;
}

static fed_status encode_delta(const fedserver_versions *v, const fedcodec *codec, uint32_t small,
                               const float *mean, float *residual, fed_writer *bytes,
                               fed_error *err) {
    const bool stretches = fedcodec_stretch(codec) > 1 ||
                           (codec->variates != NULL && fedcodec_stretch(codec->variates) > 1);
    return stretches ? encode_stretching(v, codec, small, mean, residual, bytes, err)
                     : fedserver_part_encode(FED_PART_DELTA, v->version, v->version + 1, codec,
                                             v->layout, small, residual, mean, bytes, err);
}

fed_status fedserver_versions_next(const fedserver_versions *v, const fedcodec *codec,
                                   uint32_t small, const float *mean, float *residual,
                                   fedserver_versions *next, fed_error *err) {
    fed_writer bytes;
    fed_writer_growing(&bytes);
    fed_status status = encode_delta(v, codec, small, mean, residual, &bytes, err);
    if (status == FED_OK) {
        status = follow(v, &bytes, residual, next, err);
    }
    fed_writer_free(&bytes);
    return status;
}

fed_status fedserver_versions_given(const fedserver_versions *v, const float *values,
                                    float *residual, fedserver_versions *next, fed_error *err) {
    const size_t size = v->layout->size;
    const fed_part step = {.from = v->version, .to = v->version + 1};
    fed_writer bytes;
    fed_writer_growing(&bytes);
    fed_status status = fedserver_part_patch(&step, v->values, values, size, &bytes, err);
    if (status == FED_OK) {
        memset(residual, 0, size * sizeof *residual);
        status = follow(v, &bytes, residual, next, err);
    }
    fed_writer_free(&bytes);
    return status;
}

const uint8_t *fedserver_versions_part(const fedserver_versions *v, size_t *len, uint64_t *digest) {
    assert(v->parts > 0);
    const fedserver_link *last = &v->links[v->parts - 1];
    size_t chain_len;
    const uint8_t *chain = fedserver_blob_data(v->chain, &chain_len);
    *len = chain_len - last->start;
    *digest = last->digest;
    return chain + last->start;
}

bool fedserver_versions_leads(const fedserver_versions *v, uint32_t have, uint32_t want,
                              bool patches) {
    const uint32_t oldest = v->parts > 0 ? v->oldest : v->version;
    bool leads = oldest <= have && have <= want && want <= v->version;
    for (uint32_t k = have; k < want && leads; k++) {
        leads = patches || !v->links[k - oldest].patch;
    }
    return leads;
}

static size_t chain_offset(const fedserver_versions *v, uint32_t version) {
    size_t end = 0;
    if (version < v->version) {
        return v->links[version - v->oldest].start;
    }
    if (v->chain != NULL) {
        (void)fedserver_blob_data(v->chain, &end);
    }
    return end;
}

size_t fedserver_versions_chain_len(const fedserver_versions *v, uint32_t have, uint32_t want) {
    return chain_offset(v, want) - chain_offset(v, have);
}

fed_status fedserver_versions_chain(const fedserver_versions *v, uint32_t have, uint32_t want,
                                    fedserver_blob **parts, uint64_t *tag) {
    fed_writer digests;
    fed_writer_growing(&digests);
    for (uint32_t k = have; k < want; k++) {
        fed_write_u64(&digests, v->links[k - v->oldest].digest);
    }
    fed_status status = digests.status;
    uint64_t name = fed_digest_bytes(digests.data, digests.len);
    fed_writer_free(&digests);
    FED_TRY(status);
    size_t start = chain_offset(v, have), len = chain_offset(v, want) - start;
    fedserver_blob *found = len > 0 ? fedserver_blob_slice(v->chain, start, len)
                                    /* without any part: an empty blob */
                                    : fedserver_blob_new(&digests);
    FED_REQUIRE(found != NULL, FED_ENOMEM);
    *parts = found;
    *tag = name;
    return FED_OK;
}

size_t fedserver_versions_plain_len(const fedserver_versions *v, uint32_t have, uint32_t want) {
    size_t len = 0;
    for (uint32_t k = have; k < want; k++) {
        len += v->links[k - v->oldest].plain_len;
    }
    return len;
}

static fed_status unpack_part(const fed_part *part, fed_writer *parts, fed_error *err) {
    if (part->kind == FED_PART_PATCH) {
        fed_part_write(parts, part);
        return parts->status;
    }
    fed_writer envelope;
    fed_writer_growing(&envelope);
    fed_status status =
        fedcodec_envelope_unpack(part->envelope, (size_t)part->envelope_len, &envelope, err);
    if (status == FED_OK) {
        fed_part plain = *part;
        plain.envelope = envelope.data;
        plain.envelope_len = envelope.len;
        fed_part_write(parts, &plain);
        status = parts->status;
    }
    fed_writer_free(&envelope);
    return status;
}

fed_status fedserver_versions_unpack(const fedserver_versions *v, uint32_t have, uint32_t want,
                                     fed_writer *parts, fed_error *err) {
    size_t chain_len;
    const uint8_t *chain = fedserver_blob_data(v->chain, &chain_len);
    const size_t start = chain_offset(v, have);
    fed_reader r;
    fed_reader_init(&r, chain + start, chain_offset(v, want) - start);
    while (fed_reader_left(&r) > 0) {
        fed_part part;
        FED_TRY(fed_part_read(&r, &part));
        FED_TRY(unpack_part(&part, parts, err));
    }
    return FED_OK;
}
