/* Deltas, their chain, and snapshots. */
#include "fedserver/delta.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fed/wire.h"
#include "fedcodec/envelope.h"

enum { CHAIN_PARTS = 1024 }; /* who is further behind gets a snapshot */

static fed_status float32_codec(fedcodec *codec, fed_error *err) {
    return fedcodec_parse("float32", codec, err);
}

fed_status fedserver_versions_init(fedserver_versions *v, const fed_layout *layout,
                                   uint32_t version, float *values, float *residual) {
    *v = (fedserver_versions){
        .layout = layout, .version = version, .values = values, .residual = residual};
    if (v->residual == NULL) {
        v->residual = calloc(layout->size, sizeof *v->residual);
    }
    fedcodec codec;
    fed_status status = v->residual != NULL ? float32_codec(&codec, NULL) : FED_ENOMEM;
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
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        fedserver_blob_free(v->snapshots[k].blob);
    }
    free(v->links);
    free(v->values);
    free(v->residual);
    *v = (fedserver_versions){0};
}

/* An envelope of `codec` as a fed_part. */
static fed_status encode_part(fed_part_kind kind, uint32_t from, uint32_t to, const fedcodec *codec,
                              const fed_layout *layout, uint32_t small, float *residual,
                              const float *x, fed_writer *part, fed_error *err) {
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

/* How many of the chain's oldest parts are no longer worth keeping once `len` more bytes follow. */
static uint32_t parts_to_drop(const fedserver_versions *v, size_t chain_len, size_t len) {
    uint32_t drop = v->parts >= CHAIN_PARTS ? v->parts - CHAIN_PARTS + 1 : 0;
    while (drop < v->parts && chain_len - v->links[drop].start + len > v->snapshot_limit) {
        drop++;
    }
    return drop;
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
    uint32_t drop = parts_to_drop(v, chain_len, len);
    uint32_t kept = v->parts - drop;
    size_t from = kept > 0 ? v->links[drop].start : chain_len;
    FED_TRY(links_reserve(v, kept + 1));

    /* A new blob, because answers under way still hold the old one. */
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
    v->links[kept] =
        (fedserver_link){.start = chain_len - from, .digest = fed_digest_bytes(part, len)};
    v->parts = kept + 1;
    v->oldest = to - v->parts;
    fedserver_blob_free(v->chain);
    v->chain = longer;
    return FED_OK;
}

fed_status fedserver_versions_advance(fedserver_versions *v, const fedcodec *codec, uint32_t small,
                                      const float *mean, const uint8_t **part, size_t *part_len,
                                      fed_error *err) {
    const fed_layout *layout = v->layout;
    uint32_t to = v->version + 1;
    fed_writer bytes;
    fed_writer_growing(&bytes);
    fed_status status = encode_part(FED_PART_DELTA, v->version, to, codec, layout, small,
                                    v->residual, mean, &bytes, err);
    fed_part delta = {0};
    if (status == FED_OK) {
        fed_reader r;
        fed_reader_init(&r, bytes.data, bytes.len);
        status = fed_part_read(&r, &delta);
    }
    if (status == FED_OK) {
        status = fedcodec_envelope_axpy(delta.envelope, (size_t)delta.envelope_len, layout, 1.0f,
                                        v->values, err);
    }
    if (status == FED_OK) {
        status = fedserver_versions_append(v, to, bytes.data, bytes.len);
    }
    if (status == FED_OK) {
        v->version = to;
        v->digest = fed_digest(v->values, layout->size);
        size_t chain_len;
        const uint8_t *chain = fedserver_blob_data(v->chain, &chain_len);
        *part = chain + (chain_len - bytes.len);
        *part_len = bytes.len;
    }
    fed_writer_free(&bytes);
    return status;
}

void fedserver_versions_trim(fedserver_versions *v, int64_t now_ms) {
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        fedserver_snapshot *snapshot = &v->snapshots[k];
        if (snapshot->version != v->version &&
            now_ms - snapshot->asked_ms >= FEDSERVER_SNAPSHOT_MS) {
            fedserver_blob_free(snapshot->blob);
            *snapshot = (fedserver_snapshot){0};
        }
    }
}

static fedserver_snapshot *find_snapshot(fedserver_versions *v, uint32_t version) {
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        if (v->snapshots[k].blob != NULL && v->snapshots[k].version == version) {
            return &v->snapshots[k];
        }
    }
    return NULL;
}

/* A free place for a snapshot or, where all are in use, that of the youngest. */
static fedserver_snapshot *place_for_snapshot(fedserver_versions *v) {
    fedserver_snapshot *youngest = &v->snapshots[0];
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        if (v->snapshots[k].blob == NULL) {
            return &v->snapshots[k];
        }
        youngest = v->snapshots[k].version > youngest->version ? &v->snapshots[k] : youngest;
    }
    return youngest;
}

/* The newest version as a part. */
static fed_status encode_snapshot(const fedserver_versions *v, fed_writer *part, fed_error *err) {
    size_t size = v->layout->size;
    float *copy = malloc(size * sizeof *copy); /* encoding uses up its residual */
    if (copy == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a snapshot of the model");
    }
    memcpy(copy, v->values, size * sizeof *copy);
    fedcodec codec;
    fed_status status = float32_codec(&codec, err);
    if (status == FED_OK) {
        status = encode_part(FED_PART_SNAPSHOT, v->version, v->version, &codec, v->layout, 0, copy,
                             NULL, part, err);
    }
    free(copy);
    return status;
}

static fed_status make_snapshot(fedserver_versions *v, fedserver_snapshot **made, fed_error *err) {
    fed_writer part;
    fed_writer_growing(&part);
    fed_status status = encode_snapshot(v, &part, err);
    if (status != FED_OK) {
        fed_writer_free(&part);
        return status;
    }
    uint64_t tag = fed_digest_bytes(part.data, part.len);
    fedserver_blob *blob = fedserver_blob_new(&part);
    if (blob == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a snapshot");
    }
    fedserver_snapshot *place = place_for_snapshot(v);
    fedserver_blob_free(place->blob);
    *place = (fedserver_snapshot){.blob = blob, .version = v->version, .tag = tag};
    *made = place;
    return FED_OK;
}

/* The chain from version `have` to `want`, oldest <= have <= want <= version. */
static fedserver_blob *chain_slice(const fedserver_versions *v, uint32_t have, uint32_t want,
                                   uint64_t *tag) {
    fed_writer digests;
    fed_writer_growing(&digests);
    for (uint32_t k = have; k < want; k++) {
        fed_write_u64(&digests, v->links[k - v->oldest].digest);
    }
    *tag = fed_digest_bytes(digests.data, digests.len);
    bool good = digests.status == FED_OK;
    fed_writer_free(&digests);
    if (have == want) {
        return fedserver_blob_new(&digests); /* no bytes */
    }
    size_t end = 0;
    (void)fedserver_blob_data(v->chain, &end);
    size_t start = v->links[have - v->oldest].start;
    end = want < v->version ? v->links[want - v->oldest].start : end;
    return good ? fedserver_blob_slice(v->chain, start, end - start) : NULL;
}

fed_status fedserver_versions_get(fedserver_versions *v, bool any, uint32_t have, uint32_t want,
                                  int64_t now_ms, fedserver_blob **parts, uint64_t *tag,
                                  fed_error *err) {
    uint32_t oldest = v->parts > 0 ? v->oldest : v->version;
    fedserver_blob *found;
    uint64_t name = 0;
    fedserver_versions_trim(v, now_ms);
    if (!any && oldest <= have && have <= want && want <= v->version) {
        found = chain_slice(v, have, want, &name);
    } else {
        fedserver_snapshot *snapshot = find_snapshot(v, want);
        if (snapshot == NULL && want == v->version) {
            FED_TRY(make_snapshot(v, &snapshot, err));
        }
        if (snapshot == NULL) {
            return fed_fail(err, FED_ENOTFOUND, "version %u is not kept", want);
        }
        snapshot->asked_ms = now_ms;
        name = snapshot->tag;
        found = fedserver_blob_share(snapshot->blob);
    }
    if (found == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a model download");
    }
    *parts = found;
    *tag = name;
    return FED_OK;
}
