/* A device whose workers were started by mpirun: rank 0 is the device, and sends the other ranks
 * an order for each round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fedclient/apps/fedworker_serve.h"
#include "fedclient/apps/fedworker_share.h"

/* ORDER: bytes of an encoded order, enough for a task and the other fields of struct order. */
enum { ORDER = 6144, HOST = 256 };

/* The order that rank 0 sends to begin a round. host, port and secret are the failure
 * detector's. */
typedef struct order {
    bool trains; /* false: the worker group ends */
    uint64_t seed;
    uint32_t values, memory; /* floats of the model and of the optimizer's state */
    char host[HOST], port[16];
    uint8_t secret[FEDDC_SECRET];
    fed_task task;
} order;

static void order_write(fed_writer *w, const order *o) {
    fed_write_u8(w, o->trains);
    fed_write_u64(w, o->seed);
    fed_write_u32(w, o->values);
    fed_write_u32(w, o->memory);
    fed_write_str(w, o->host);
    fed_write_str(w, o->port);
    fed_write_bytes(w, o->secret, sizeof o->secret);
    fed_task_write(w, &o->task);
}

static fed_status order_read(fed_reader *r, order *o) {
    o->trains = fed_read_u8(r) != 0;
    o->seed = fed_read_u64(r);
    o->values = fed_read_u32(r);
    o->memory = fed_read_u32(r);
    fed_read_str(r, o->host, sizeof o->host);
    fed_read_str(r, o->port, sizeof o->port);
    const uint8_t *secret = fed_read_bytes(r, sizeof o->secret);
    if (secret != NULL) {
        memcpy(o->secret, secret, sizeof o->secret);
    }
    return o->trains ? fed_task_read(r, &o->task) : r->status;
}

static fed_status spread_order(const fedworker_cluster *c, order *o, fed_error *err) {
    uint8_t *bytes = calloc(ORDER, 1);
    FED_REQUIRE(bytes != NULL, FED_ENOMEM);
    fed_writer w;
    fed_writer_fixed(&w, bytes, ORDER);
    if (c->choice.place.rank == 0) {
        order_write(&w, o);
    }
    fed_status status = w.status;
    if (status == FED_OK) {
        status = fedworker_share_bytes(c->choice.link, &c->choice.place, bytes, ORDER, err);
    }
    if (status == FED_OK && c->choice.place.rank > 0) {
        fed_reader r;
        fed_reader_init(&r, bytes, ORDER);
        status = order_read(&r, o);
    }
    free(bytes);
    return status;
}

fed_status fedworker_ranks_order(const fedworker_cluster *c, const fed_task *task, uint64_t seed,
                                 fedworker_page *page, fed_error *err) {
    order *o = calloc(1, sizeof *o);
    FED_REQUIRE(o != NULL, FED_ENOMEM);
    if (task != NULL) {
        const char *port = strrchr(page->address, ':');
        o->trains = true;
        o->task = *task;
        o->seed = seed;
        o->values = (uint32_t)page->values;
        o->memory = (uint32_t)page->memory;
        gethostname(o->host, sizeof o->host - 1);
        snprintf(o->port, sizeof o->port, "%s", port != NULL ? port + 1 : "");
        memcpy(o->secret, page->secret, sizeof o->secret);
    }
    fed_status status = spread_order(c, o, err);
    free(o);
    if (status == FED_OK && task != NULL) {
        status = fedworker_share(c->choice.link, &c->choice.place, page->at,
                                 page->values + page->memory, err);
    }
    return status;
}

static fed_status take_part(fedworker_cluster *c, workshop *work, const order *o, fed_error *err) {
    const size_t floats = (size_t)o->values + o->memory;
    char host[HOST] = "";
    fedtrain_job job;
    fedworker_member m = {.cluster = c, .job = &job, .number = c->choice.place.rank};
    gethostname(host, sizeof host - 1);
    m.page = calloc(1, sizeof *m.page + floats * sizeof(float));
    FED_REQUIRE(m.page != NULL, FED_ENOMEM);
    m.page->values = o->values;
    m.page->memory = o->memory;
    snprintf(m.page->address, sizeof m.page->address, "%.40s:%s",
             strcmp(host, o->host) == 0 ? "127.0.0.1" : o->host, o->port);
    memcpy(m.page->secret, o->secret, sizeof o->secret);
    m.page->go = true;
    fed_status status = fedworker_share(c->choice.link, &c->choice.place, m.page->at, floats, err);
    if (status == FED_OK) {
        status = workshop_prepare(work, &o->task, &job, &m.arch, err);
    }
    if (status == FED_OK) {
        job.seed = o->seed;
        fedworker_member_run(&m);
        if (m.page->slot[m.number].status != FED_OK) {
            fed_logf(&c->device.log, FED_LOG_WARN, "rank %" PRIu32 ": %s", c->choice.place.rank,
                     m.page->slot[m.number].why);
        }
    }
    free(m.page);
    return status;
}

fed_status fedworker_ranks_follow(fedworker_cluster *c, fed_error *err) {
    workshop *work = NULL;
    order *o = calloc(1, sizeof *o);
    FED_REQUIRE(o != NULL, FED_ENOMEM);
    fed_status status = workshop_open(&c->device.work, NULL, &work, err);
    do {
        if (status == FED_OK) {
            status = spread_order(c, o, err);
        }
        if (status == FED_OK && o->trains) {
            status = take_part(c, work, o, err);
        }
    } while (status == FED_OK && o->trains);
    workshop_close(work);
    free(o);
    return status;
}
