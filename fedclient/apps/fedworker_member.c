/* One worker of a worker group that is a device: from the model of a round to the trained model. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fedclient/apps/fedworker_serve.h"
#include "fedtrain/device.h"

enum { PATIENCE_MS = 30000, MPI_PATIENCE_MS = 2500, LEAST_MS = 100, CHUNK_MOST = 4096 };

typedef struct replica {
    const fedworker_member *m;
    float *values, *memory; /* both in one allocation */
    fedtrain_net *net;
    feddc_watch *watch;
    feddc_worker *worker;
    uint32_t chunk; /* local steps that all workers take before they ask rank 0 again */
} replica;

/* Wait for the failure detector, which the main process opens after it has started the workers. */
static fed_status await_detector(const fedworker_page *page, fed_error *err) {
    const int64_t limit_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    while (!page->go) {
        if (fed_clock_monotonic_ms() > limit_ms || page->stop) {
            return fed_fail(
                err, FED_ENET,
                "the main process did not open the worker group's failure detector in time");
        }
        fed_sleep_ms(1);
    }
    return FED_OK;
}

/* The failure detector has ended the job. This process may hang in MPI, so it exits. */
static void end_process(void *user, const char *why) {
    const fedworker_cluster *c = user;
    fedclientd_say_why(&c->device.log, "fedworker", why);
    _exit(1); /* mpirun ends the others */
}

static fed_status get_ready(replica *r, fed_error *err) {
    const fedworker_member *m = r->m;
    const fedworker_cluster *c = m->cluster;
    const fedworker_page *page = m->page;
    const size_t floats = page->values + page->memory;
    r->values = malloc((floats + 1) * sizeof *r->values);
    FED_REQUIRE(r->values != NULL, FED_ENOMEM);
    r->memory = r->values + page->values;
    FED_TRY(fedtrain_net_new(m->arch, m->job->batch, c->device.work.backend, &r->net, err));
    FED_TRY(await_detector(page, err)); /* the page must not be read earlier */
    memcpy(r->values, page->at, floats * sizeof *r->values);
    const bool mpi = c->choice.place.size > 0;
    char computes_on[FEDCLIENTD_COMPUTES] = "";
    if (fedtrain_net_gpu(r->net) != NULL) {
        fedclientd_computes_on(fed_gpu_info_of(fedtrain_net_gpu(r->net)), computes_on);
    }
    const feddc_watch_options watch = {.address = page->address,
                                       .secret = page->secret,
                                       .rank = m->number,
                                       .computes_on = computes_on,
                                       .listens = c->processes,
                                       .patience_ms = mpi ? MPI_PATIENCE_MS : 0,
                                       .over = mpi ? end_process : NULL,
                                       .user = (void *)(uintptr_t)c};
    FED_TRY(feddc_watch_open(&watch, &r->watch, err));
    feddc_worker_options o = {.exchange = {.link = c->choice.link,
                                           .collective = c->choice.collective,
                                           .codec = c->codec,
                                           .pull = c->pull},
                              .at_owners = c->choice.at_owners,
                              .sync = c->choice.sync,
                              .arch = m->arch,
                              .job = *m->job,
                              .elastic = c->processes,
                              .watch = r->watch};
    o.job.net = r->net;
    o.job.after_step = NULL;
    return feddc_worker_new(&o, r->values, r->memory, &r->worker, err);
}

/* Rank 0 decides how many steps all workers take next: few, so that a round that is no longer
 * wanted ends soon. *steps is 0 when the training ends. */
static fed_status next_steps(replica *r, uint32_t *steps, fed_error *err) {
    const fedworker_page *page = r->m->page;
    const uint32_t left = (uint32_t)r->m->job->steps - feddc_worker_step(r->worker);
    uint64_t said = page->stop ? 0 : left < r->chunk ? left : r->chunk;
    FED_TRY(feddc_worker_share(r->worker, 0, &said, sizeof said, err));
    *steps = (uint32_t)said;
    return FED_OK;
}

static fed_status take_steps(replica *r, fed_error *err) {
    uint32_t steps = 0;
    FED_TRY(next_steps(r, &steps, err));
    while (steps > 0) {
        const int64_t begin_ms = fed_clock_monotonic_ms();
        FED_TRY(feddc_worker_run(r->worker, steps, err));
        if (fed_clock_monotonic_ms() - begin_ms < LEAST_MS && r->chunk < CHUNK_MOST) {
            r->chunk *= 2;
        }
        if (feddc_worker_rank(r->worker) == 0) {
            r->m->page->steps = feddc_worker_step(r->worker);
        }
        FED_TRY(next_steps(r, &steps, err));
    }
    return FED_OK;
}

/* Rank 0's model is the result, because all replicas have the same bits. */
static fed_status hand_in(replica *r, const feddc_worker_group *group, fed_error *err) {
    fedworker_page *page = r->m->page;
    const uint32_t count = feddc_worker_count(r->worker);
    feddc_worker_tally *tally = calloc(count, sizeof *tally);
    FED_REQUIRE(tally != NULL, FED_ENOMEM);
    fed_status status = feddc_worker_settle(r->worker, tally, err);
    if (status == FED_OK && feddc_worker_rank(r->worker) == 0) {
        double loss = 0;
        for (uint32_t k = 0; k < count; k++) {
            loss += tally[k].loss / count;
            page->slot[group->worker[k]].tally = tally[k];
        }
        page->loss = (float)loss;
        memcpy(page->at, r->values, (page->values + page->memory) * sizeof *page->at);
        page->completed = true;
    }
    free(tally);
    return status;
}

static fed_status train_once(replica *r, const feddc_worker_group *group, fed_error *err) {
    feddc_place own = group->place;
    own.hub = r->m->hub;
    own.listener = r->m->cluster->processes ? own.listener : -1;
    FED_TRY(feddc_worker_join(r->worker, &own, err));
    if (feddc_worker_sums_only(r->worker)) {
        return feddc_worker_serve(r->worker, err);
    }
    FED_TRY(take_steps(r, err));
    return hand_in(r, group, err);
}

bool fedworker_is_broken(fed_status status) {
    return status == FED_EIO || status == FED_ENET || status == FED_EBUSY || status == FED_EAUTH ||
           status == FED_ETIMEOUT;
}

static fed_status train(replica *r, fed_error *err) {
    const char *broke = NULL;
    fed_error why = {0};
    while (true) {
        const feddc_worker_group *group = NULL;
        FED_TRY(feddc_watch_next(r->watch, feddc_worker_completed(r->worker), broke, &group, err));
        why = (fed_error){0};
        const fed_status status = train_once(r, group, &why);
        if (!fedworker_is_broken(status)) {
            return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
        }
        broke = why.text;
    }
}

void fedworker_member_run(const fedworker_member *member) {
    fedworker_slot *slot = &member->page->slot[member->number];
    replica r = {.m = member, .chunk = 1};
    fed_error err = {0};
    fed_status status = get_ready(&r, &err);
    if (status == FED_OK) {
        status = train(&r, &err);
    }
    const char *why = err.text[0] != '\0' ? err.text : fed_status_text(status);
    feddc_worker_free(r.worker, status == FED_OK);
    feddc_watch_close(r.watch, status == FED_OK ? NULL : why);
    fedtrain_net_free(r.net);
    free(r.values);
    slot->status = status;
    snprintf(slot->why, sizeof slot->why, "%s", status == FED_OK ? "" : why);
    slot->over = true;
}
