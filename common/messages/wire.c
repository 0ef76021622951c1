/* The byte layouts of the messages between devices and coordinator. Each writer stands next to its
 * reader. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/wire.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fed/version.h"

/* End a read function: copy the message to *dst if it is whole and allowed, else set the reader's
 * status. */
#define DELIVER(r, dst, parsed, allowed)                                                           \
    do {                                                                                           \
        if ((r)->status == FED_OK && !(allowed)) {                                                 \
            (r)->status = FED_EFORMAT;                                                             \
        }                                                                                          \
        FED_TRY((r)->status);                                                                      \
        *(dst) = (parsed);                                                                         \
        return FED_OK;                                                                             \
    } while (0)

/* SHARE is an F32 from 0 to 0.9. */
typedef enum field_kind { U32, U64, F32, SHARE, TEXT } field_kind;

typedef struct field {
    field_kind kind;
    size_t offset, room; /* offset and size of the member of fed_task */
    uint32_t least;      /* an integer must be at least this; a float must be larger */
    uint32_t needs;      /* the FED_CAN_... bit that the field needs; 0: it is always sent */
} field;

#define FIELD(kind, name, least, needs)                                                            \
    { kind, offsetof(fed_task, name), sizeof(((fed_task *)0)->name), least, needs }

/* The fields in the order of their bytes. Those that need a capability come last in a message. */
/* clang-format off */
static const field fields[] = {
    /*    kind  name           least needs */
    FIELD(U64,  id,            1,    0),
    FIELD(TEXT, model,         0,    0),
    FIELD(TEXT, codec_up,      0,    0),
    FIELD(U32,  small_tensor,  0,    0),
    FIELD(U32,  local_steps,   1,    0),
    FIELD(U32,  batch,         1,    0),
    FIELD(TEXT, optimizer,     0,    0),
    FIELD(F32,  learning_rate, 0,    0),
    FIELD(U64,  seed,          0,    0),
    FIELD(TEXT, app,           0,    FED_CAN_APP),
    FIELD(TEXT, downloads,     0,    FED_CAN_URL),
    FIELD(U32,  personal_steps, 0,   FED_CAN_PERSONAL),
    FIELD(SHARE, holdout,      0,    FED_CAN_PERSONAL),
    FIELD(TEXT, private_layers, 0,   FED_CAN_PRIVATE_LAYERS),
    FIELD(TEXT, codec_variates, 0,   FED_CAN_VARIATES),
};
/* clang-format on */

enum { FIELDS = sizeof fields / sizeof fields[0] };

/* A bit that two lines of fed/capabilities.def name does not compile. */
enum {
#define FED_CAPABILITY(bit, name) BIT_##bit##_IS_TAKEN,
#include "fed/capabilities.def"
#undef FED_CAPABILITY
};

uint32_t fed_task_capabilities(void) {
    uint32_t all = 0;
    for (size_t k = 0; k < FIELDS; k++) {
        all |= fields[k].needs;
    }
    return all;
}

/* Is this field in this part of the message? later: the part at the message's end, which has the
 * fields that need a capability. */
static bool travels(const field *f, bool later, uint32_t capabilities) {
    return later ? (f->needs & capabilities) != 0 : f->needs == 0;
}

static void field_write(fed_writer *w, const field *f, const void *member) {
    switch (f->kind) {
    case U32:
        fed_write_u32(w, *(const uint32_t *)member);
        break;
    case U64:
        fed_write_u64(w, *(const uint64_t *)member);
        break;
    case F32:
    case SHARE:
        fed_write_f32(w, *(const float *)member);
        break;
    case TEXT:
        fed_write_str(w, member);
        break;
    }
}

static bool field_read(fed_reader *r, const field *f, void *member) {
    switch (f->kind) {
    case U32:
        *(uint32_t *)member = fed_read_u32(r);
        return *(uint32_t *)member >= f->least;
    case U64:
        *(uint64_t *)member = fed_read_u64(r);
        return *(uint64_t *)member >= f->least;
    case F32:
        *(float *)member = fed_read_f32(r);
        return isfinite(*(float *)member) && *(float *)member > (float)f->least;
    case SHARE:
        *(float *)member = fed_read_f32(r);
        return *(float *)member >= 0 && *(float *)member <= 0.9f;
    default:
        fed_read_str(r, member, f->room);
        return true;
    }
}

static void task_write(fed_writer *w, const fed_task *task, bool later, uint32_t capabilities) {
    for (size_t k = 0; k < FIELDS; k++) {
        if (travels(&fields[k], later, capabilities)) {
            field_write(w, &fields[k], (const char *)task + fields[k].offset);
        }
    }
}

/* Read the fields of one part into a task of zeros. After a failure some may be set. */
static fed_status task_fill(fed_reader *r, fed_task *task, bool later, uint32_t capabilities) {
    bool allowed = true;
    for (size_t k = 0; k < FIELDS; k++) {
        if (travels(&fields[k], later, capabilities)) {
            allowed = field_read(r, &fields[k], (char *)task + fields[k].offset) && allowed;
        }
    }
    if (!allowed) {
        r->status = r->status == FED_OK ? FED_EFORMAT : r->status;
    }
    return r->status;
}

void fed_task_write(fed_writer *w, const fed_task *task) {
    task_write(w, task, false, 0);
}

/* Read a task on the heap first: it is large, and a device's stack may be small. */
fed_status fed_task_read(fed_reader *r, fed_task *task) {
    fed_task *t = calloc(1, sizeof *t);
    FED_REQUIRE(t != NULL, FED_ENOMEM);
    fed_status status = task_fill(r, t, false, 0);
    if (status == FED_OK) {
        *task = *t;
    }
    free(t);
    return status;
}

unsigned fed_checkin_count(const fed_checkin *m) {
    unsigned count = 0;
    while (count < FED_SLOTS && m->held[count].task != 0) {
        count++;
    }
    return count;
}

const fed_held *fed_checkin_held(const fed_checkin *m, uint64_t task) {
    for (unsigned k = 0; k < fed_checkin_count(m); k++) {
        if (m->held[k].task == task) {
            return &m->held[k];
        }
    }
    return NULL;
}

static void held_write(fed_writer *w, const fed_held *held) {
    fed_write_u64(w, held->task);
    fed_write_u32(w, held->version);
}

static void held_read(fed_reader *r, fed_held *held) {
    held->task = fed_read_u64(r);
    held->version = fed_read_u32(r);
}

static void slots_write(fed_writer *w, const fed_checkin *m) {
    const unsigned count = fed_checkin_count(m);
    fed_write_u8(w, m->slots);
    fed_write_u8(w, (uint8_t)(count > 0 ? count - 1 : 0));
    for (unsigned k = 1; k < count; k++) {
        held_write(w, &m->held[k]);
    }
}

static bool slots_read(fed_reader *r, fed_checkin *m) {
    m->slots = fed_read_u8(r);
    const unsigned count = fed_read_u8(r) + 1U;
    if (m->slots < 1 || m->slots > FED_SLOTS || count > m->slots ||
        (count > 1 && m->held[0].task == 0)) {
        return false;
    }
    for (unsigned k = 1; k < count; k++) {
        fed_held held;
        held_read(r, &held);
        if (held.task == 0 || fed_checkin_held(m, held.task) != NULL) {
            return false;
        }
        m->held[k] = held;
    }
    return true;
}

void fed_checkin_write(fed_writer *w, const fed_checkin *m) {
    uint8_t protocol = m->protocol != 0 ? m->protocol : FED_PROTOCOL;
    fed_write_u8(w, protocol);
    fed_write_u8(w, (uint8_t)m->role);
    fed_write_u32(w, m->hold_ms);
    held_write(w, &m->held[0]);
    if (protocol >= 2) {
        fed_write_u32(w, m->capabilities);
        fed_write_u32(w, m->samples);
    }
    if (protocol >= 2 && (m->capabilities & FED_CAN_TASKS) != 0) {
        slots_write(w, m);
    }
}

fed_status fed_checkin_read(fed_reader *r, fed_checkin *m) {
    fed_checkin t = {.slots = 1};
    bool allowed = true;
    t.protocol = fed_read_u8(r);
    if (r->status == FED_OK && (t.protocol < FED_PROTOCOL_OLDEST || t.protocol > FED_PROTOCOL)) {
        r->status = FED_EVERSION; /* stop here: the rest may differ in another version */
    }
    t.role = (fed_role)fed_read_u8(r);
    t.hold_ms = fed_read_u32(r);
    held_read(r, &t.held[0]);
    if (t.protocol >= 2) {
        t.capabilities = fed_read_u32(r);
        t.samples = fed_read_u32(r);
    }
    if ((t.capabilities & FED_CAN_TASKS) != 0) {
        allowed = slots_read(r, &t);
    }
    DELIVER(r, m, t, allowed && t.role <= FED_ROLE_EVALUATE);
}

static void work_write(fed_writer *w, const fed_assignment *m) {
    fed_write_u32(w, m->round);
    fed_write_u32(w, m->version);
    fed_write_u64(w, m->digest);
    fed_write_u64(w, m->lease);
    fed_write_u32(w, m->deadline_ms);
    fed_task_write(w, &m->task);
}

static fed_status work_read(fed_reader *r, fed_assignment *m) {
    m->round = fed_read_u32(r);
    m->version = fed_read_u32(r);
    m->digest = fed_read_u64(r);
    m->lease = fed_read_u64(r);
    m->deadline_ms = fed_read_u32(r);
    return task_fill(r, &m->task, false, 0);
}

void fed_assignment_write(fed_writer *w, uint8_t protocol, const fed_assignment *m) {
    fed_write_u8(w, (uint8_t)m->action);
    if (m->action == FED_ACTION_WAIT) {
        fed_write_u8(w, (uint8_t)m->reason);
        fed_write_u32(w, m->retry_ms);
    } else {
        work_write(w, m);
    }
    if (protocol >= 2) {
        fed_write_u32(w, m->capabilities);
        if (m->action != FED_ACTION_WAIT) {
            task_write(w, &m->task, true, m->capabilities);
        }
        if (m->action != FED_ACTION_WAIT && (m->capabilities & FED_CAN_TASKS) != 0) {
            fed_write_u64(w, m->replaces);
        }
        if (m->action != FED_ACTION_WAIT && (m->capabilities & FED_CAN_PRIVATE) != 0) {
            fed_privacy_write(w, &m->privacy);
        }
    }
}

static fed_status assignment_fill(fed_reader *r, uint8_t protocol, fed_assignment *t) {
    t->action = (fed_action)fed_read_u8(r);
    if (t->action == FED_ACTION_WAIT) {
        t->reason = (fed_wait_reason)fed_read_u8(r);
        t->retry_ms = fed_read_u32(r);
    } else {
        FED_TRY(work_read(r, t));
    }
    if (protocol >= 2) {
        t->capabilities = fed_read_u32(r);
        if (t->action != FED_ACTION_WAIT) {
            FED_TRY(task_fill(r, &t->task, true, t->capabilities));
        }
        if (t->action != FED_ACTION_WAIT && (t->capabilities & FED_CAN_TASKS) != 0) {
            t->replaces = fed_read_u64(r);
        }
        if (t->action != FED_ACTION_WAIT && (t->capabilities & FED_CAN_PRIVATE) != 0) {
            FED_TRY(fed_privacy_read(r, &t->privacy));
        }
    }
    if (t->action > FED_ACTION_DONE || t->reason > FED_WAIT_SPENT) {
        r->status = r->status == FED_OK ? FED_EFORMAT : r->status;
    }
    return r->status;
}

fed_status fed_assignment_read(fed_reader *r, uint8_t protocol, fed_assignment *m) {
    fed_assignment *t = calloc(1, sizeof *t);
    FED_REQUIRE(t != NULL, FED_ENOMEM);
    fed_status status = assignment_fill(r, protocol, t);
    if (status == FED_OK) {
        *m = *t;
    }
    free(t);
    return status;
}

void fed_part_write(fed_writer *w, const fed_part *m) {
    fed_write_u8(w, (uint8_t)m->kind);
    fed_write_u32(w, m->from);
    fed_write_u32(w, m->to);
    fed_write_varint(w, m->envelope_len);
    fed_write_bytes(w, m->envelope, (size_t)m->envelope_len);
}

fed_status fed_part_read(fed_reader *r, fed_part *m) {
    fed_part t = {0};
    t.kind = (fed_part_kind)fed_read_u8(r);
    t.from = fed_read_u32(r);
    t.to = fed_read_u32(r);
    t.envelope_len = fed_read_varint(r);
    if (t.envelope_len > fed_reader_left(r)) {
        r->status = r->status != FED_OK ? r->status : FED_EFORMAT;
    }
    t.envelope = fed_read_bytes(r, (size_t)t.envelope_len);
    DELIVER(r, m, t,
            (t.kind == FED_PART_SNAPSHOT && t.from == t.to) ||
                (t.kind == FED_PART_DELTA && t.from < t.to) ||
                ((t.kind == FED_PART_PATCH || t.kind == FED_PART_CACHE) && t.from <= t.to));
}

void fed_address_write(fed_writer *w, const fed_address *m) {
    fed_write_bytes(w, m->key, sizeof m->key);
    fed_write_u64(w, m->len);
}

fed_status fed_address_read(fed_reader *r, fed_address *m) {
    fed_address t = {0};
    const uint8_t *key = fed_read_bytes(r, sizeof t.key);
    if (key != NULL) {
        memcpy(t.key, key, sizeof t.key);
    }
    t.len = fed_read_u64(r);
    DELIVER(r, m, t, t.len > 0);
}

void fed_update_write(fed_writer *w, const fed_update *m) {
    fed_write_u64(w, m->task);
    fed_write_u32(w, m->round);
    fed_write_u64(w, m->lease);
    fed_write_u32(w, m->samples);
    fed_write_f32(w, m->loss);
}

fed_status fed_update_read(fed_reader *r, fed_update *m) {
    fed_update t = {0};
    t.task = fed_read_u64(r);
    t.round = fed_read_u32(r);
    t.lease = fed_read_u64(r);
    t.samples = fed_read_u32(r);
    t.loss = fed_read_f32(r);
    DELIVER(r, m, t, t.samples > 0 && !isinf(t.loss));
}

void fed_piece_write(fed_writer *w, const fed_piece *m) {
    fed_write_u64(w, m->task);
    fed_write_u32(w, m->round);
    fed_write_u64(w, m->lease);
    fed_write_u64(w, m->digest);
    fed_write_u64(w, m->total);
    fed_write_u64(w, m->offset);
}

fed_status fed_piece_read(fed_reader *r, fed_piece *m) {
    fed_piece t = {0};
    t.task = fed_read_u64(r);
    t.round = fed_read_u32(r);
    t.lease = fed_read_u64(r);
    t.digest = fed_read_u64(r);
    t.total = fed_read_u64(r);
    t.offset = fed_read_u64(r);
    DELIVER(r, m, t, t.offset <= t.total);
}

void fed_decline_write(fed_writer *w, const fed_decline *m) {
    fed_write_u64(w, m->task);
    fed_write_u32(w, m->round);
    fed_write_u64(w, m->lease);
    fed_write_str(w, m->reason);
}

fed_status fed_decline_read(fed_reader *r, fed_decline *m) {
    fed_decline t = {0};
    t.task = fed_read_u64(r);
    t.round = fed_read_u32(r);
    t.lease = fed_read_u64(r);
    fed_read_str(r, t.reason, sizeof t.reason);
    DELIVER(r, m, t, true);
}

void fed_metric_write(fed_writer *w, const fed_metric *m) {
    fed_write_u64(w, m->task);
    fed_write_u32(w, m->version);
    fed_write_u32(w, m->samples);
    fed_write_u32(w, m->correct);
    fed_write_f32(w, m->loss);
}

fed_status fed_metric_read(fed_reader *r, fed_metric *m) {
    fed_metric t = {0};
    t.task = fed_read_u64(r);
    t.version = fed_read_u32(r);
    t.samples = fed_read_u32(r);
    t.correct = fed_read_u32(r);
    t.loss = fed_read_f32(r);
    const bool counts = t.correct <= t.samples || t.correct == FED_NO_CORRECT;
    DELIVER(r, m, t, t.samples > 0 && counts && !isinf(t.loss));
}
