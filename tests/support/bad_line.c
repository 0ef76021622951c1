/* A bad line: frames that go through it are lost, doubled, late, cut anew or damaged, by chance. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bad_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 14, LONGEST_WAIT_MS = 1000, DSCP = 0xfc, CE = 3 };

static const char *const names[BAD_KINDS] = {"cut",      "drop", "bleach",    "congest", "flip",
                                             "truncate", "pad",  "duplicate", "reorder", "delay"};

const char *bad_luck_name(bad_luck luck) {
    return names[luck];
}

fed_status bad_line_open(bad_line *line, bad_rates *rates, uint64_t seed, bad_emit *emit,
                         void *user, fed_error *err) {
    memset(line, 0, sizeof *line);
    line->rates = rates;
    line->emit = emit;
    line->user = user;
    line->piece.data = malloc(BAD_FRAME);
    line->packet.data = malloc(BAD_FRAME);
    line->altered.data = malloc(BAD_FRAME);
    if (line->piece.data == NULL || line->packet.data == NULL || line->altered.data == NULL) {
        bad_line_close(line);
        return fed_fail(err, FED_ENOMEM, "out of memory for the frames of a bad line");
    }
    for (uint32_t k = 0; k < BAD_SIDES; k++) {
        fed_rng_init(&line->way[k].rng, seed, k, 0);
    }
    return FED_OK;
}

void bad_line_close(bad_line *line) {
    free(line->piece.data);
    free(line->packet.data);
    free(line->altered.data);
    for (uint32_t k = 0; k < BAD_SIDES; k++) {
        for (size_t i = 0; i < line->way[k].held_count; i++) {
            free(line->way[k].held[i].frame.data);
        }
    }
    memset(line, 0, sizeof *line);
}

static bool happens(bad_line *line, bad_luck luck) {
    unsigned chance = atomic_load_explicit(&line->rates->chance[luck], memory_order_relaxed);
    return chance > 0 && fed_rng_below(&line->way[line->from].rng, BAD_SURE) < chance;
}

static void mark(bad_line *line, bad_luck luck) {
    line->way[line->from].counts.of[luck]++;
}

static void send_out(bad_line *line, int from, const bad_frame *frame) {
    line->way[from].counts.out++;
    line->way[from].counts.out_bytes += frame->len;
    line->emit(line->user, from, frame);
}

static bool hold(bad_line *line, const bad_frame *frame, uint64_t frames, int64_t ms) {
    bad_way *way = &line->way[line->from];
    uint8_t *copy = way->held_count < BAD_HELD ? malloc(frame->len) : NULL;
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, frame->data, frame->len);
    way->held[way->held_count++] =
        (bad_held){.frame = {.offload = frame->offload, .data = copy, .len = frame->len},
                   .until_frame = frames > 0 ? way->counts.in + frames : UINT64_MAX,
                   .until_ms = line->now_ms + ms};
    return true;
}

static void release(bad_line *line, int from, int64_t now_ms) {
    bad_way *way = &line->way[from];
    size_t kept = 0;
    for (size_t k = 0; k < way->held_count; k++) {
        bad_held h = way->held[k];
        if (h.until_ms > now_ms && h.until_frame > way->counts.in) {
            way->held[kept++] = h;
        } else {
            send_out(line, from, &h.frame);
            free(h.frame.data);
        }
    }
    way->held_count = kept;
}

static void pass(bad_line *line, const bad_frame *frame) {
    bad_rates *r = line->rates;
    if (happens(line, BAD_REORDER)) {
        uint32_t most = atomic_load(&r->hold_frames);
        uint32_t frames = 1 + fed_rng_below(&line->way[line->from].rng, most > 0 ? most : 1);
        if (hold(line, frame, frames, atomic_load(&r->hold_ms))) {
            mark(line, BAD_REORDER);
            return;
        }
    }
    if (happens(line, BAD_DELAY) && hold(line, frame, 0, atomic_load(&r->delay_ms))) {
        mark(line, BAD_DELAY);
        return;
    }
    send_out(line, line->from, frame);
}

static bool is_congestible(const bad_frame *frame, const bad_parts *p) {
    const uint8_t *ip = frame->data + p->ip;
    uint8_t ecn = (p->family == 4 ? ip[1] : ip[1] >> 4) & CE;
    return p->family != 0 && (ecn == 1 || ecn == 2);
}

static void change_headers(bad_line *line, bad_frame *frame) {
    bad_parts p = bad_frame_parts(frame);
    if (p.family != 0 && happens(line, BAD_BLEACH)) {
        unsigned tos = atomic_load_explicit(&line->rates->tos, memory_order_relaxed);
        bad_frame_set_tos(frame, &p, (uint8_t)~DSCP, (uint8_t)(tos & DSCP));
        mark(line, BAD_BLEACH);
    }
    if (is_congestible(frame, &p) && happens(line, BAD_CONGEST)) {
        bad_frame_set_tos(frame, &p, DSCP, CE);
        mark(line, BAD_CONGEST);
    }
}

/* Damage a frame after its checksum is complete, so that the receiver can notice. */
static void damage(bad_line *line, bad_frame *frame) {
    fed_rng *rng = &line->way[line->from].rng;
    if (frame->offload.gso_type != VIRTIO_NET_HDR_GSO_NONE || frame->len <= HEADS + 1) {
        return;
    }
    if (happens(line, BAD_FLIP)) {
        bad_frame_complete(frame);
        size_t at = HEADS + fed_rng_below(rng, (uint32_t)frame->len - HEADS);
        frame->data[at] ^= (uint8_t)(1u << fed_rng_below(rng, 8));
        mark(line, BAD_FLIP);
    }
    if (happens(line, BAD_TRUNCATE)) {
        bad_frame_complete(frame);
        frame->len = HEADS + fed_rng_below(rng, (uint32_t)frame->len - HEADS);
        mark(line, BAD_TRUNCATE);
    }
    if (frame->len + 4 <= BAD_FRAME && happens(line, BAD_PAD)) {
        bad_frame_complete(frame);
        uint32_t more = 1 + fed_rng_below(rng, 4);
        memset(frame->data + frame->len, (int)fed_rng_below(rng, 256), more);
        frame->len += more;
        mark(line, BAD_PAD);
    }
}

static void one_frame(void *user, bad_frame *frame) {
    bad_line *line = user;
    if (happens(line, BAD_DROP)) {
        mark(line, BAD_DROP);
        return;
    }
    bool twice = happens(line, BAD_DUPLICATE);
    if (twice) {
        bad_frame *first = &line->altered;
        memcpy(first->data, frame->data, frame->len);
        first->len = frame->len;
        first->offload = frame->offload;
        mark(line, BAD_DUPLICATE);
        pass(line, first);
    }
    change_headers(line, frame);
    damage(line, frame);
    pass(line, frame);
}

static void one_packet(void *user, bad_frame *frame) {
    bad_line *line = user;
    if (!happens(line, BAD_CUT)) {
        one_frame(line, frame);
        return;
    }
    uint32_t least = atomic_load(&line->rates->least);
    uint32_t most = atomic_load(&line->rates->most);
    mark(line, BAD_CUT);
    bad_frame_cut(frame, least, most, &line->way[line->from].rng, &line->piece, one_frame, line);
}

static void wire(bad_line *line, bad_frame *frame) {
    if (frame->offload.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        bad_frame_cut(frame, 0, 0, &line->way[line->from].rng, &line->packet, one_packet, line);
    } else {
        bad_frame_complete(frame);
        one_packet(line, frame);
    }
}

void bad_line_take(bad_line *line, int from, bad_frame *frame, int64_t now_ms) {
    bad_way *way = &line->way[from];
    line->from = from;
    line->now_ms = now_ms;
    way->counts.in++;
    way->counts.in_bytes += frame->len;
    if (way->counts.in <= atomic_load(&line->rates->quiet)) {
        send_out(line, from, frame);
    } else if (atomic_load(&line->rates->packets)) {
        wire(line, frame);
    } else {
        one_packet(line, frame);
    }
    release(line, from, now_ms);
}

int bad_line_poll(bad_line *line, int64_t now_ms) {
    int64_t next = now_ms + LONGEST_WAIT_MS;
    for (int k = 0; k < BAD_SIDES; k++) {
        release(line, k, now_ms);
        for (size_t i = 0; i < line->way[k].held_count; i++) {
            int64_t until = line->way[k].held[i].until_ms;
            next = until < next ? until : next;
        }
    }
    return (int)(next - now_ms);
}

size_t bad_line_report(const bad_line *line, char *dst, size_t cap) {
    size_t len = 0;
    for (int k = 0; k < BAD_SIDES; k++) {
        const bad_counts *c = &line->way[k].counts;
        char more[400] = "";
        for (size_t i = 0, at = 0; i < BAD_KINDS && at < sizeof more; i++) {
            at += (size_t)snprintf(more + at, sizeof more - at, " %s %llu", names[i],
                                   (unsigned long long)c->of[i]);
        }
        int n = snprintf(dst + len, cap - len,
                         "from %c: in %llu in_bytes %llu out %llu out_bytes %llu held %zu "
                         "untaken %llu%s\n",
                         'a' + k, (unsigned long long)c->in, (unsigned long long)c->in_bytes,
                         (unsigned long long)c->out, (unsigned long long)c->out_bytes,
                         line->way[k].held_count, (unsigned long long)c->untaken, more);
        len = n > 0 && (size_t)n < cap - len ? len + (size_t)n : len;
    }
    return len;
}
