/* Trains a worker group within one process, with a thread for each rank (worker_case.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_case.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "fed_digits.h"
#include "nic_link.h"

void worker_data_open(worker_data *data, const char *directory, size_t train, size_t test) {
    fed_error err = {0};
    fedtrain_partition whole;
    *data = (worker_data){0};
    if (train > 0) {
        fed_digits_write(directory, train, test);
    }
    assert_fed_ok_err(fedtrain_data_open("mnist", directory, "train", "train", &data->train, &err));
    assert_fed_ok_err(fedtrain_data_open("mnist", directory, "test", "train", &data->test, &err));
    assert_fed_ok_err(fedtrain_data_split(&data->train, FEDTRAIN_SPLIT_IID, 1, 0, &whole, &err));
    assert_fed_ok_err(fedtrain_share_take(&data->train, &whole, 0, &data->all, &err));
    fedtrain_partition_free(&whole);
}

void worker_data_close(worker_data *data) {
    fedtrain_share_free(&data->all);
    fedtrain_data_free(&data->test);
    fedtrain_data_free(&data->train);
}

static const char *link_of(const worker_case *c) {
    return c->link != NULL ? c->link : "threads";
}

static void make_values(worker_member *m, const fed_optimizer *optimizer) {
    const size_t states = fedtrain_optimizer_state_size(optimizer, m->arch.trained);
    const uint32_t dims[] = {(uint32_t)states};
    fed_layout_init(&m->layout);
    for (size_t i = 0; i < m->arch.layout.count; i++) {
        const fed_tensor *tensor = &m->arch.layout.tensors[i];
        assert_fed_ok(fed_layout_append(&m->layout, tensor->name, tensor->rank, tensor->dims));
    }
    if (states > 0) {
        assert_fed_ok(fed_layout_append(&m->layout, "optimizer.state", 1, dims));
    }
    m->values = calloc(m->layout.size + 1, sizeof *m->values);
    assert_non_null(m->values);
    m->state = m->values + m->arch.layout.size;
    fed_arch_init_values(&m->arch, 7, m->values);
}

static fed_status make_worker(worker_member *m) {
    const worker_case *c = m->c;
    feddc_worker_options o = {
        .exchange = {.link = c->nics != NULL ? nic_link(c->nics) : feddc_link_named(link_of(c)),
                     .collective = c->collective,
                     .codec = c->codec,
                     .pull = c->pull,
                     .nic = c->nic,
                     .late = c->late,
                     .small = 16,
                     .bucket = 20000},
        .at_owners = c->at_owners,
        .local_rate = c->local_rate,
        .arch = &m->arch,
        .job = {.net = m->net, .batch = c->batch, .seed = 3}};
    FED_TRY(fed_optimizer_parse(c->optimizer, 0.1F, &o.job.optimizer, &m->err));
    FED_TRY(feddc_sync_parse(c->sync, &o.sync, &m->err));
    fedtrain_job_use(&o.job, &c->data->train, &c->data->all);
    make_values(m, &o.job.optimizer);
    return feddc_worker_new(&o, m->values, m->state, &m->worker, &m->err);
}

static fed_status live(worker_member *m) {
    const worker_case *c = m->c;
    if (c->resume != NULL) {
        FED_TRY(feddc_worker_resume(m->worker, c->resume, &m->layout, m->values, &m->err));
    }
    FED_TRY(feddc_worker_join(m->worker, &m->place, &m->err));
    if (feddc_worker_sums_only(m->worker)) {
        return feddc_worker_serve(m->worker, &m->err);
    }
    snprintf(m->remark, sizeof m->remark, "%s", feddc_worker_remark(m->worker));
    for (int k = 0; k < 4 && c->run[k] > 0; k++) {
        if (c->restart && k > 0) {
            FED_TRY(feddc_worker_settle(m->worker, NULL, &m->err));
            memset(m->values, 0, m->layout.size * sizeof *m->values);
            fed_arch_init_values(&m->arch, 7, m->values);
        }
        FED_TRY(feddc_worker_run(m->worker, c->run[k], &m->err));
    }
    FED_TRY(feddc_worker_settle(m->worker, m->tally, &m->err));
    if (c->save != NULL) {
        const char *const notes[] = {"model", c->model, NULL};
        FED_TRY(feddc_worker_save(m->worker, c->save, &m->layout, m->values, notes, &m->err));
    }
    return fedtrain_data_score(m->net, c->batch, &c->data->test, m->values, &m->score, &m->err);
}

static void *live_and_leave(void *user) {
    worker_member *m = user;
    m->status = live(m);
    feddc_worker_free(m->worker, m->status == FED_OK);
    return NULL;
}

typedef struct places {
    struct feddc_hub *hub;
    char address[WORKER_CASE_RANKS][32];
    const char *list[WORKER_CASE_RANKS];
} places;

static const uint8_t secret[FEDDC_SECRET] = "a secret of tests, 32 bytes long";

static int listen_somewhere(char address[32]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    const int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(door >= 0);
    assert_int_equal(bind(door, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(door, WORKER_CASE_RANKS), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&at, &len), 0);
    snprintf(address, 32, "127.0.0.1:%u", ntohs(at.sin_port));
    return door;
}

static void make_places(const worker_case *c, uint32_t ranks, places *p, worker_member *members) {
    const bool tcp = strcmp(link_of(c), "tcp") == 0;
    p->hub = tcp ? NULL : feddc_hub_new(ranks);
    assert_true(tcp || p->hub != NULL);
    for (uint32_t r = 0; r < ranks; r++) {
        members[r] = (worker_member){.c = r + 1 == ranks && c->last != NULL ? c->last : c,
                                     .place = {.rank = r,
                                               .size = ranks,
                                               .hub = p->hub,
                                               .address = p->list,
                                               .listener = -1,
                                               .secret = secret}};
        if (tcp) {
            members[r].place.listener = listen_somewhere(p->address[r]);
            p->list[r] = p->address[r];
        }
    }
}

static void prepare(worker_member *m) {
    assert_fed_ok(fed_arch_parse(m->c->model, &m->arch, &m->err));
    assert_fed_ok(fedtrain_net_new(&m->arch, m->c->batch, m->c->device, &m->net, &m->err));
    if (make_worker(m) != FED_OK) {
        fail_msg("%s", m->err.text);
    }
}

void worker_case_rank(const worker_case *c, worker_member *m) {
    *m = (worker_member){.c = c, .place = {.listener = -1}};
    assert_fed_ok(feddc_link_named(link_of(c))->find(&m->place, &m->err));
    prepare(m);
    (void)live_and_leave(m);
    fedtrain_net_free(m->net);
}

void worker_case_free_rank(worker_member *m) {
    fed_layout_free(&m->layout);
    fed_arch_free(&m->arch);
    free(m->values);
}

void worker_case_run(const worker_case *c, worker_member members[WORKER_CASE_RANKS]) {
    uint32_t aggregators = 0;
    fed_error err = {0};
    if (c->collective != NULL) {
        assert_fed_ok_err(feddc_collective_aggregators(c->collective, &aggregators, &err));
    }
    const uint32_t ranks = c->workers + aggregators;
    places p = {0};
    memset(members, 0, WORKER_CASE_RANKS * sizeof *members);
    make_places(c, ranks, &p, members);
    for (uint32_t r = 0; r < ranks; r++) {
        prepare(&members[r]);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        assert_int_equal(pthread_create(&members[r].thread, NULL, live_and_leave, &members[r]), 0);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        pthread_join(members[r].thread, NULL);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        fedtrain_net_free(members[r].net);
    }
    feddc_hub_free(p.hub);
}

void worker_case_free(worker_member members[WORKER_CASE_RANKS]) {
    for (uint32_t r = 0; r < WORKER_CASE_RANKS; r++) {
        worker_case_free_rank(&members[r]);
    }
}

float *worker_case_values(const worker_case *c, fedtrain_score *score, uint64_t *digest) {
    worker_member members[WORKER_CASE_RANKS];
    worker_case_run(c, members);
    for (uint32_t r = 0; r < members[0].place.size; r++) {
        if (members[r].status != FED_OK) {
            fail_msg("%s %s %s %s: rank %u: %s", link_of(c), c->collective ? c->collective : "",
                     c->sync, c->codec ? c->codec : "", r, members[r].err.text);
        }
    }
    const size_t size = members[0].layout.size;
    for (uint32_t r = 1; r < c->workers; r++) {
        assert_memory_equal(members[r].values, members[0].values, size * sizeof(float));
        assert_int_equal(members[0].tally[r].digest, members[0].tally[0].digest);
    }
    if (score != NULL) {
        *score = members[0].score;
    }
    if (digest != NULL) {
        *digest = members[0].tally[0].digest;
    }
    float *values = members[0].values;
    members[0].values = NULL;
    worker_case_free(members);
    return values;
}
