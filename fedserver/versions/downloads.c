/* Chooses a short download that leads to a version, and keeps those that were made. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/versions/downloads.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"

static_assert(FED_ADDRESSES >= 2 * 10 + 1 && FEDSERVER_CHAIN_PARTS == 1 << 10,
              "a chain has at most 2 * 10 + 1 runs: their lengths grow, then shrink");

/* A chain of at most snapshot_limit / SHORT_CHAIN bytes is sent without looking for a shorter
 * download. */
enum { SHORT_CHAIN = 4 };

static void forget(fedserver_made *made) {
    fedserver_blob_free(made->blob);
    *made = (fedserver_made){0};
}

void fedserver_downloads_free(fedserver_downloads *d) {
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        forget(&d->snapshots[k]);
    }
    for (size_t k = 0; k < FEDSERVER_PATCHES; k++) {
        forget(&d->patches[k]);
    }
}

void fedserver_downloads_trim(fedserver_downloads *d, uint32_t newest, int64_t now_ms) {
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        fedserver_made *made = &d->snapshots[k];
        if (made->to != newest && now_ms - made->asked_ms >= FEDSERVER_SNAPSHOT_MS) {
            forget(made);
        }
    }
    for (size_t k = 0; k < FEDSERVER_PATCHES; k++) {
        if (now_ms - d->patches[k].asked_ms >= FEDSERVER_SNAPSHOT_MS) {
            forget(&d->patches[k]);
        }
    }
}

static size_t made_len(const fedserver_made *made) {
    size_t len = 0;
    if (made->blob != NULL) {
        (void)fedserver_blob_data(made->blob, &len);
    }
    return len;
}

static fedserver_made *find_made(fedserver_made *made, size_t count, const fedserver_made *sought) {
    for (size_t k = 0; k < count; k++) {
        if (made[k].blob != NULL && made[k].kind == sought->kind && made[k].from == sought->from &&
            made[k].to == sought->to) {
            return &made[k];
        }
    }
    return NULL;
}

static fedserver_made *find(fedserver_downloads *d, const fedserver_made *sought) {
    return sought->from == sought->to ? find_made(d->snapshots, FEDSERVER_SNAPSHOTS, sought)
                                      : find_made(d->patches, FEDSERVER_PATCHES, sought);
}

static fedserver_made *slot_for_snapshot(fedserver_downloads *d) {
    fedserver_made *youngest = &d->snapshots[0];
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        if (d->snapshots[k].blob == NULL) {
            return &d->snapshots[k];
        }
        youngest = d->snapshots[k].to > youngest->to ? &d->snapshots[k] : youngest;
    }
    forget(youngest);
    return youngest;
}

/* Find a free slot, and free patches until all together have at most a snapshot's bytes. NULL: too
 * many patches are in use. */
static fedserver_made *slot_for_patch(fedserver_downloads *d, const fedserver_versions *v,
                                      int64_t now_ms) {
    for (;;) {
        fedserver_made *slot = NULL, *oldest = NULL;
        size_t bytes = 0;
        for (size_t k = 0; k < FEDSERVER_PATCHES; k++) {
            fedserver_made *made = &d->patches[k];
            bytes += made_len(made);
            if (made->blob == NULL) {
                slot = made;
            } else if ((made->to != v->version || now_ms - made->asked_ms >= FEDSERVER_PATCH_MS) &&
                       (oldest == NULL || made->asked_ms < oldest->asked_ms)) {
                oldest = made;
            }
        }
        if (slot != NULL && bytes <= v->snapshot_limit) {
            return slot;
        }
        if (oldest == NULL) {
            return NULL;
        }
        forget(oldest);
    }
}

typedef struct values {
    const float *values;
    float *owned;
} values;

static fed_status take_values(const fedserver_versions *v, const fedserver_old_versions *old,
                              uint32_t version, values *of, fed_error *err) {
    *of = (values){.values = v->values};
    if (version != v->version) {
        assert(old != NULL);
        FED_TRY(old->values(old->user, version, &of->owned, err));
        of->values = of->owned;
    }
    return FED_OK;
}

static fed_status encode_values(const fedserver_versions *v, uint32_t version, const float *from,
                                fed_writer *part, fed_error *err) {
    size_t size = v->layout->size;
    float *copy = malloc(size * sizeof *copy); /* encoding overwrites its input */
    if (copy == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a snapshot of the model");
    }
    memcpy(copy, from, size * sizeof *copy);
    fedcodec codec;
    fed_status status = fedcodec_parse("float32", &codec, err);
    if (status == FED_OK) {
        status = fedserver_part_encode(FED_PART_SNAPSHOT, version, version, &codec, v->layout, 0,
                                       copy, NULL, part, err);
    }
    free(copy);
    return status;
}

static fed_status encode(const fedserver_versions *v, const fedserver_old_versions *old,
                         const fedserver_made *made, fed_writer *part, fed_error *err) {
    if (made->kind == FED_PART_DELTA) {
        return fedserver_versions_unpack(v, made->from, made->to, part, err);
    }
    values from = {0}, to = {0};
    fed_status status = take_values(v, old, made->to, &to, err);
    if (status == FED_OK && made->from != made->to) {
        status = take_values(v, old, made->from, &from, err);
    }
    if (status == FED_OK) {
        const fed_part versions = {.from = made->from, .to = made->to};
        status = made->kind == FED_PART_PATCH
                     ? fedserver_part_patch(&versions, from.values, to.values, v->layout->size,
                                            part, err)
                     : encode_values(v, made->to, to.values, part, err);
    }
    free(from.owned);
    free(to.owned);
    return status;
}

static fed_status make(const fedserver_versions *v, const fedserver_old_versions *old,
                       fedserver_made *made, fed_error *err) {
    fed_writer part;
    fed_writer_growing(&part);
    fed_status status = encode(v, old, made, &part, err);
    if (status != FED_OK) {
        fed_writer_free(&part);
        return status;
    }
    made->tag = fed_digest_bytes(part.data, part.len);
    made->blob = fedserver_blob_new(&part);
    return made->blob != NULL ? FED_OK
                              : fed_fail(err, FED_ENOMEM, "out of memory for a model download");
}

/* Find the kept download, or make it. FED_ENOTFOUND: it can't be made any more, or not now. */
static fed_status get_made(fedserver_downloads *d, const fedserver_versions *v,
                           const fedserver_old_versions *old, fedserver_made sought, int64_t now_ms,
                           fedserver_made **found, fed_error *err) {
    const bool patch = sought.from != sought.to, newest = !patch && sought.to == v->version;
    *found = find(d, &sought);
    if (*found != NULL) {
        return FED_OK;
    }
    if (sought.to > v->version || (!newest && now_ms < d->rests_until_ms)) {
        return fed_fail(err, FED_ENOTFOUND, "version %u of the model can't be made now", sought.to);
    }
    fedserver_made *slot = patch ? slot_for_patch(d, v, now_ms) : NULL;
    if (patch && slot == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "too many patches of the model are being fetched");
    }
    sought.asked_ms = now_ms;
    FED_TRY(make(v, old, &sought, err));
    if (!newest) {
        d->rests_until_ms = now_ms + (int64_t)(v->layout->size / FEDSERVER_MADE_VALUES);
    }
    *found = patch ? slot : slot_for_snapshot(d);
    **found = sought;
    return FED_OK;
}

bool fedserver_downloads_wanted(const fedserver_downloads *d, uint32_t newest, fed_part_kind kind) {
    bool wanted = false;
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        const fedserver_made *made = &d->snapshots[k];
        wanted = wanted || (made->blob != NULL && made->to == newest && made->kind == kind &&
                            made->asked_ms != 0);
    }
    return wanted;
}

fed_status fedserver_downloads_make(const fedserver_versions *v, fed_part_kind kind,
                                    fedserver_made *made, fed_error *err) {
    *made = (fedserver_made){.kind = kind, .from = v->version, .to = v->version};
    return make(v, NULL, made, err);
}

void fedserver_downloads_add(fedserver_downloads *d, fedserver_made *made) {
    *slot_for_snapshot(d) = *made;
    *made = (fedserver_made){0};
}

/* Get the shorter of two patches: from the version that the device has, and from zeros. The patch
 * from zeros is considered only if the wanted version is the newest, if that patch is made already,
 * or if there is no other patch. */
static fed_status get_patch(fedserver_downloads *d, const fedserver_versions *v,
                            const fedserver_old_versions *old,
                            const fedserver_download_request *request, int64_t now_ms,
                            fedserver_made **found, fed_error *err) {
    const fedserver_made patch = {
        .kind = FED_PART_PATCH, .from = request->have, .to = request->want};
    const fedserver_made whole = {
        .kind = FED_PART_PATCH, .from = request->want, .to = request->want};
    fedserver_made *first = NULL, *second = NULL;
    if (!request->any && request->have < request->want) {
        fed_error absent = {0};
        fed_status status = get_made(d, v, old, patch, now_ms, &first, &absent);
        if (status != FED_OK && status != FED_ENOTFOUND) {
            return fed_fail(err, status, "%s", absent.text);
        }
    }
    if (first == NULL || request->want == v->version || find(d, &whole) != NULL) {
        FED_TRY(get_made(d, v, old, whole, now_ms, &second, err));
    }
    *found =
        second == NULL || (first != NULL && made_len(first) <= made_len(second)) ? first : second;
    return FED_OK;
}

/* Get the chain without second stages. *found NULL: it can't be made now, or a snapshot is
 * shorter. */
static fed_status get_unpacked(fedserver_downloads *d, const fedserver_versions *v,
                               const fedserver_download_request *request, int64_t now_ms,
                               fedserver_made **found, fed_error *err) {
    const fedserver_made chain = {
        .kind = FED_PART_DELTA, .from = request->have, .to = request->want};
    fed_error why = {0};
    *found = NULL;
    if (fedserver_versions_plain_len(v, request->have, request->want) > v->snapshot_limit) {
        return FED_OK;
    }
    fed_status status = get_made(d, v, NULL, chain, now_ms, found, &why);
    if (status == FED_OK) {
        (*found)->asked_ms = now_ms;
    }
    return status == FED_OK || status == FED_ENOTFOUND ? FED_OK
                                                       : fed_fail(err, status, "%s", why.text);
}

static fed_status choose(fedserver_downloads *d, const fedserver_versions *v,
                         const fedserver_old_versions *old,
                         const fedserver_download_request *request, int64_t now_ms,
                         fedserver_made **chosen, fed_error *err) {
    bool leads = !request->any &&
                 fedserver_versions_leads(v, request->have, request->want, request->patches);
    fedserver_made *made = NULL;
    fedserver_downloads_trim(d, v->version, now_ms);
    size_t chain = leads ? fedserver_versions_chain_len(v, request->have, request->want) : SIZE_MAX;
    if (leads && !request->stages &&
        fedserver_versions_plain_len(v, request->have, request->want) > chain) {
        FED_TRY(get_unpacked(d, v, request, now_ms, chosen, err));
        if (*chosen != NULL) {
            return FED_OK;
        }
        leads = false;
        chain = SIZE_MAX;
    }
    if (!leads || (request->patches && chain > v->snapshot_limit / SHORT_CHAIN)) {
        const fedserver_made whole = {
            .kind = FED_PART_SNAPSHOT, .from = request->want, .to = request->want};
        fed_error why = {0};
        fed_status status = request->patches ? get_patch(d, v, old, request, now_ms, &made, &why)
                                             : get_made(d, v, old, whole, now_ms, &made, &why);
        if (status != FED_OK && !(leads && status == FED_ENOTFOUND)) {
            return fed_fail(err, status, "%s", why.text);
        }
    }
    *chosen = made != NULL && made_len(made) < chain ? made : NULL;
    if (*chosen != NULL) {
        made->asked_ms = now_ms;
    }
    return FED_OK;
}

static fed_status get_chain(const fedserver_versions *v, uint32_t from, uint32_t to,
                            fedserver_blob **parts, uint64_t *tag, fed_error *err) {
    fed_status status = fedserver_versions_chain(v, from, to, parts, tag);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "out of memory for a model download");
}

fed_status fedserver_downloads_get(fedserver_downloads *d, const fedserver_versions *v,
                                   const fedserver_old_versions *old,
                                   const fedserver_download_request *request, int64_t now_ms,
                                   fedserver_blob **parts, uint64_t *tag, fed_error *err) {
    fedserver_made *made = NULL;
    FED_TRY(choose(d, v, old, request, now_ms, &made, err));
    if (made == NULL) {
        return get_chain(v, request->have, request->want, parts, tag, err);
    }
    *parts = fedserver_blob_share(made->blob);
    *tag = made->tag;
    return FED_OK;
}

static fed_status cut_chain(const fedserver_versions *v, const fedserver_download_request *request,
                            fedserver_run *runs, size_t *count, fed_error *err) {
    fed_status status = FED_OK;
    uint32_t from = request->have;
    *count = 0;
    while (from < request->want && status == FED_OK) {
        assert(*count < FED_ADDRESSES);
        uint32_t length = 1;
        while (from % (2 * length) == 0 && 2 * length <= request->want - from) {
            length *= 2;
        }
        const uint32_t to = from + length;
        status = get_chain(v, from, to, &runs[*count].blob, &runs[*count].tag, err);
        *count += status == FED_OK;
        from = to;
    }
    for (; status != FED_OK && *count > 0; --*count) {
        fedserver_blob_free(runs[*count - 1].blob);
    }
    return status;
}

fed_status fedserver_downloads_runs(fedserver_downloads *d, const fedserver_versions *v,
                                    const fedserver_old_versions *old,
                                    const fedserver_download_request *request, int64_t now_ms,
                                    fedserver_run runs[FED_ADDRESSES], size_t *count,
                                    fed_error *err) {
    fedserver_made *made = NULL;
    *count = 0;
    FED_TRY(choose(d, v, old, request, now_ms, &made, err));
    if (made == NULL) {
        return cut_chain(v, request, runs, count, err);
    }
    runs[0] = (fedserver_run){.blob = fedserver_blob_share(made->blob), .tag = made->tag};
    *count = 1;
    return FED_OK;
}

static void write_made(const fedserver_made *made, size_t count, fed_writer *w) {
    for (size_t k = 0; k < count; k++) {
        size_t len = 0;
        const uint8_t *data = made[k].blob != NULL ? fedserver_blob_data(made[k].blob, &len) : NULL;
        fed_write_u64(w, len);
        fed_write_bytes(w, data, len);
        fed_write_u8(w, (uint8_t)made[k].kind);
        fed_write_u32(w, made[k].from);
        fed_write_u32(w, made[k].to);
        fed_write_u64(w, (uint64_t)made[k].asked_ms);
    }
}

void fedserver_downloads_write(const fedserver_downloads *d, fed_writer *w) {
    write_made(d->snapshots, FEDSERVER_SNAPSHOTS, w);
    write_made(d->patches, FEDSERVER_PATCHES, w);
    fed_write_u64(w, (uint64_t)d->rests_until_ms);
}

static fed_status read_made(fedserver_made *made, size_t count, fed_reader *r) {
    for (size_t k = 0; k < count; k++) {
        fedserver_made one = {0};
        fed_writer bytes;
        fed_writer_growing(&bytes);
        const size_t len = (size_t)fed_read_u64(r);
        const uint8_t *data = fed_read_bytes(r, len);
        one.kind = fed_read_u8(r);
        one.from = fed_read_u32(r);
        one.to = fed_read_u32(r);
        one.asked_ms = (int64_t)fed_read_u64(r);
        FED_TRY(r->status);
        forget(&made[k]);
        if (len > 0) {
            one.tag = fed_digest_bytes(data, len);
            fed_write_bytes(&bytes, data, len);
            one.blob = fedserver_blob_new(&bytes);
            FED_REQUIRE(one.blob != NULL, FED_ENOMEM);
        }
        made[k] = one;
    }
    return FED_OK;
}

fed_status fedserver_downloads_read(fedserver_downloads *d, fed_reader *r) {
    FED_TRY(read_made(d->snapshots, FEDSERVER_SNAPSHOTS, r));
    FED_TRY(read_made(d->patches, FEDSERVER_PATCHES, r));
    d->rests_until_ms = (int64_t)fed_read_u64(r);
    return r->status;
}
