/* Runs one link between coordinators: its queue of bytes, its frames and its heartbeats. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/cluster/cluster_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fedserver/cluster/cluster_tls.h"

enum {
    CHUNK = CLUSTER_TLS_RECORD,
    /* a blob of at most this size is copied, so that one record can hold it and its head */
    COPIED_MOST = 4096,
    RECORDS_A_TURN = 64,     /* most records in one call, so that other sockets are not delayed */
    OWNERS_MOST = 128 * 1024 /* most unanswered requests on one link */
};

typedef struct chunk {
    struct chunk *next;
    fedserver_blob *blob; /* NULL: the bytes are in `bytes` */
    size_t len, at;       /* at: number of bytes already sent */
    uint8_t bytes[];      /* CHUNK bytes if blob is NULL, else none */
} chunk;

typedef struct owned {
    uint64_t id;
    void *owner;
    size_t free_at; /* at the side that connected: index of the next free element + 1 */
} owned;

struct cluster_link {
    int fd;
    cluster_tls *tls;
    bool caller, shaken, up;
    bool broken; /* a frame could not be queued completely: out of memory */
    int64_t heard_ms, spoke_ms;
    /* numbers in heartbeats: this side's number, the last one that it sent, the peer's last */
    uint64_t says, said, heard;
    chunk *first, *last;
    size_t waiting; /* bytes in chunks that are not blobs */
    cluster_frame frame;
    owned *owners; /* [owner_cap]; index: low half of an id */
    size_t owner_cap;
    /* for the side that connected: elements from this index on have never been used */
    size_t owner_count;
    /* index of a free element below owner_count, + 1; 0: none */
    size_t free_at;
};

fed_status cluster_link_new(int fd, bool caller, const cluster_keys *keys, int64_t now_ms,
                            cluster_link **link, fed_error *err) {
    cluster_link *made = calloc(1, sizeof *made);
    if (made == NULL) {
        close(fd);
        return fed_fail(err, FED_ENOMEM, "out of memory for a link to another coordinator");
    }
    *made = (cluster_link){.fd = fd, .caller = caller, .heard_ms = now_ms, .spoke_ms = now_ms};
    cluster_frame_init(&made->frame);
    fed_status status =
        cluster_tls_open(fd, caller, keys->credentials, keys->certificate, &made->tls, err);
    if (status == FED_OK) {
        status = cluster_link_send(made, CLUSTER_HELLO, CLUSTER_PROTOCOL, NULL, NULL, 0, NULL, err);
    }
    if (status != FED_OK) {
        cluster_link_free(made);
        return status;
    }
    *link = made;
    return FED_OK;
}

static void drop_first(cluster_link *link) {
    chunk *c = link->first;
    link->first = c->next;
    link->last = link->first != NULL ? link->last : NULL;
    fedserver_blob_free(c->blob);
    free(c);
}

void cluster_link_free(cluster_link *link) {
    if (link == NULL) {
        return;
    }
    if (link->shaken) {
        cluster_tls_bye(link->tls);
    }
    while (link->first != NULL) {
        drop_first(link);
    }
    cluster_frame_clear(&link->frame);
    fed_writer_free(&link->frame.head);
    cluster_tls_close(link->tls);
    close(link->fd);
    free(link->owners);
    free(link);
}

int cluster_link_fd(const cluster_link *link) {
    return link->fd;
}

bool cluster_link_up(const cluster_link *link) {
    return link->up;
}

bool cluster_link_writes(const cluster_link *link) {
    return link->shaken ? link->first != NULL : cluster_tls_writes(link->tls);
}

void cluster_link_announce(cluster_link *link, uint64_t number) {
    link->says = number;
}

uint64_t cluster_link_heard(const cluster_link *link) {
    return link->heard;
}

int64_t cluster_link_next_ms(const cluster_link *link) {
    const int64_t silent_ms = link->heard_ms + CLUSTER_SILENT_MS;
    const int64_t heartbeat_ms = link->spoke_ms + CLUSTER_HEARTBEAT_MS;
    const bool beats = link->up && link->first == NULL;
    return beats && heartbeat_ms < silent_ms ? heartbeat_ms : silent_ms;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static chunk *add_chunk(cluster_link *link, fedserver_blob *blob) {
    chunk *c = calloc(1, sizeof *c + (blob == NULL ? CHUNK : 0));
    if (c == NULL) {
        return NULL;
    }
    if (blob != NULL) {
        c->blob = fedserver_blob_share(blob);
        (void)fedserver_blob_data(blob, &c->len);
    }
    *(link->last != NULL ? &link->last->next : &link->first) = c;
    link->last = c;
    return c;
}

static bool add_bytes(cluster_link *link, const uint8_t *bytes, size_t len) {
    while (len > 0) {
        chunk *c = link->last;
        if (c == NULL || c->blob != NULL || c->len == CHUNK) {
            c = add_chunk(link, NULL);
        }
        if (c == NULL) {
            return false;
        }
        const size_t n = least(len, CHUNK - c->len);
        memcpy(c->bytes + c->len, bytes, n);
        c->len += n;
        link->waiting += n;
        bytes += n;
        len -= n;
    }
    return true;
}

fed_status cluster_link_send(cluster_link *link, cluster_kind kind, uint64_t id,
                             const fed_writer *head, const uint8_t *bytes, size_t len,
                             fedserver_blob *blob, fed_error *err) {
    uint8_t first[CLUSTER_FRAME_SIZE + CLUSTER_HEAD_MOST];
    fed_writer w;
    if (kind == CLUSTER_REQUEST && link->waiting > 0 &&
        len > CLUSTER_WAITING_MOST - least(link->waiting, CLUSTER_WAITING_MOST)) {
        return fed_fail(err, FED_EBUSY, "too many bytes wait for the link to the leader");
    }
    fed_writer_fixed(&w, first, sizeof first);
    cluster_frame_write(&w, kind, id, head, len);
    const bool kept = blob != NULL && len > COPIED_MOST;
    const bool written = w.status == FED_OK && (head == NULL || head->status == FED_OK) &&
                         add_bytes(link, w.data, w.len) &&
                         (kept ? add_chunk(link, blob) != NULL : add_bytes(link, bytes, len));
    link->broken = link->broken || !written;
    return written ? FED_OK
                   : fed_fail(err, FED_ENOMEM, "out of memory for a frame to another coordinator");
}

static fed_status send_some(cluster_link *link, int64_t now_ms, fed_error *err) {
    for (int k = 0; link->first != NULL && k < RECORDS_A_TURN; k++) {
        chunk *c = link->first;
        const uint8_t *bytes =
            c->blob != NULL ? fedserver_blob_data(c->blob, &c->len) : (const uint8_t *)c->bytes;
        size_t sent = 0;
        const fed_status status =
            cluster_tls_send(link->tls, bytes + c->at, c->len - c->at, &sent, err);
        if (status == FED_EBUSY) {
            return FED_OK;
        }
        FED_TRY(status);
        link->spoke_ms = now_ms;
        c->at += sent;
        link->waiting -= c->blob == NULL ? sent : 0;
        if (c->at == c->len) {
            drop_first(link);
        }
    }
    return FED_OK;
}

static fed_status take_frame(cluster_link *link, cluster_link_taker taker, void *user,
                             fed_error *err) {
    cluster_frame *frame = &link->frame;
    if (!link->up) {
        if (frame->kind != CLUSTER_HELLO || frame->id != CLUSTER_PROTOCOL) {
            return fed_fail(err, FED_EVERSION,
                            "the other coordinator has version %llu of the link, this release has "
                            "version %d: run releases that fit (docs/link.md)",
                            (unsigned long long)frame->id, CLUSTER_PROTOCOL);
        }
        link->up = true;
        return FED_OK;
    }
    if (frame->kind == CLUSTER_HEARTBEAT) {
        link->heard = frame->id;
    }
    return frame->kind == CLUSTER_HELLO || frame->kind == CLUSTER_HEARTBEAT
               ? FED_OK
               : taker(user, link, frame, err);
}

static fed_status take_bytes(cluster_link *link, const uint8_t *bytes, size_t len,
                             cluster_link_taker taker, void *user, fed_error *err) {
    while (len > 0) {
        size_t used = 0;
        bool complete = false;
        FED_TRY(cluster_frame_take(&link->frame, bytes, len, &used, &complete, err));
        bytes += used;
        len -= used;
        if (complete) {
            const fed_status status = take_frame(link, taker, user, err);
            cluster_frame_clear(&link->frame);
            FED_TRY(status);
        }
    }
    return FED_OK;
}

static fed_status receive_some(cluster_link *link, int64_t now_ms, cluster_link_taker taker,
                               void *user, uint64_t *moved, fed_error *err) {
    /* holds a whole record, so that GnuTLS never keeps a part of one */
    uint8_t record[CLUSTER_TLS_RECORD];
    for (int k = 0; k < RECORDS_A_TURN; k++) {
        size_t len = 0;
        const fed_status status = cluster_tls_receive(link->tls, record, sizeof record, &len, err);
        if (status == FED_EBUSY) {
            return FED_OK;
        }
        FED_TRY(status);
        link->heard_ms = now_ms;
        *moved += len;
        FED_TRY(take_bytes(link, record, len, taker, user, err));
    }
    return FED_OK;
}

fed_status cluster_link_run(cluster_link *link, int64_t now_ms, cluster_link_taker taker,
                            void *user, uint64_t *moved, fed_error *err) {
    if (link->broken) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a frame to another coordinator");
    }
    if (!link->shaken) {
        const fed_status status = cluster_tls_handshake(link->tls, err);
        FED_REQUIRE(status == FED_OK || status == FED_EBUSY, status);
        link->shaken = status == FED_OK;
        *moved += link->shaken;
    }
    if (link->shaken) {
        FED_TRY(receive_some(link, now_ms, taker, user, moved, err));
        const bool wants_heartbeat =
            link->says != link->said ||
            (link->first == NULL && now_ms - link->spoke_ms >= CLUSTER_HEARTBEAT_MS);
        if (link->up && wants_heartbeat) {
            link->said = link->says;
            FED_TRY(
                cluster_link_send(link, CLUSTER_HEARTBEAT, link->says, NULL, NULL, 0, NULL, err));
        }
        FED_TRY(send_some(link, now_ms, err));
    }
    return now_ms - link->heard_ms < CLUSTER_SILENT_MS
               ? FED_OK
               : fed_fail(err, FED_ENET,
                          "the other coordinator was silent for %d s: see that it is not "
                          "stopped, and that the network between them works",
                          CLUSTER_SILENT_MS / 1000);
}

void cluster_link_flush(cluster_link *link, int64_t now_ms) {
    fed_error later = {0};
    if (link->shaken) {
        (void)!send_some(link, now_ms, &later);
    }
}

static bool make_room(cluster_link *link, size_t slot) {
    enum { FIRST = 64 };
    size_t cap = link->owner_cap > 0 ? link->owner_cap : FIRST;
    while (cap <= slot) {
        cap *= 2;
    }
    owned *grown =
        cap > link->owner_cap ? realloc(link->owners, cap * sizeof *grown) : link->owners;
    if (grown == NULL) {
        return false;
    }
    for (size_t k = link->owner_cap; k < cap; k++) {
        grown[k] = (owned){.owner = NULL};
    }
    link->owners = grown;
    link->owner_cap = cap;
    return true;
}

fed_status cluster_link_claim(cluster_link *link, void *owner, uint64_t *id, fed_error *err) {
    const size_t slot = link->free_at != 0 ? link->free_at - 1 : link->owner_count;
    if (slot >= OWNERS_MOST || !make_room(link, slot)) {
        return fed_fail(err, FED_ENOMEM,
                        "no room for one more request to the leader: too many have no answer yet");
    }
    owned *o = &link->owners[slot];
    link->free_at = link->free_at != 0 ? o->free_at : 0;
    link->owner_count += slot == link->owner_count;
    const uint64_t user = (o->id >> 32) + 1;
    *o = (owned){.id = user << 32 | slot, .owner = owner};
    *id = o->id;
    return FED_OK;
}

fed_status cluster_link_own(cluster_link *link, uint64_t id, void *owner, fed_error *err) {
    const size_t slot = (uint32_t)id;
    if (slot >= OWNERS_MOST || (slot < link->owner_cap && link->owners[slot].owner != NULL)) {
        return fed_fail(err, FED_EFORMAT,
                        "the follower uses the number of a request that has no answer yet");
    }
    if (!make_room(link, slot)) {
        return fed_fail(err, FED_ENOMEM, "out of memory for requests of another coordinator");
    }
    link->owners[slot] = (owned){.id = id, .owner = owner};
    return FED_OK;
}

void *cluster_link_owner(const cluster_link *link, uint64_t id) {
    const size_t slot = (uint32_t)id;
    return slot < link->owner_cap && link->owners[slot].id == id ? link->owners[slot].owner : NULL;
}

void cluster_link_disown(cluster_link *link, uint64_t id) {
    const size_t slot = (uint32_t)id;
    if (cluster_link_owner(link, id) == NULL) {
        return;
    }
    link->owners[slot].owner = NULL;
    if (link->caller) {
        link->owners[slot].free_at = link->free_at;
        link->free_at = slot + 1;
    }
}

void *cluster_link_owner_at(const cluster_link *link, size_t index, uint64_t *id) {
    *id = link->owners[index].id;
    return link->owners[index].owner;
}

size_t cluster_link_owners(const cluster_link *link) {
    return link->owner_cap;
}
