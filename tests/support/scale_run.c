/* The steps of the scale test (scale_run.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "scale_run.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "fed/arch.h"
#include "fed/version.h"
#include "fed/wire.h"
#include "fed_test.h"
#include "fedcodec/envelope.h"
#include "scale_world.h"

#define MODEL "input 784 | dense 128 | dense 10"

enum { PARALLEL = 64, LIMIT_S = 120, HOLD_MS = 55000, TRIES = 300 };

typedef struct holding {
    uint64_t lease;
    uint32_t round;
    bool asked;
} holding;

typedef struct run {
    const scale_plan *plan;
    scale_figures *figures;
    scale_world world;
    fed_load *load;
    holding *devices;
    fed_writer envelope;
    size_t left;
    size_t sent;
    size_t told;
} run;

static void post(fed_writer *request, const char *path, const fed_writer *body) {
    fed_write_printf(request, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n",
                     path, body->len);
    fed_write_bytes(request, body->data, body->len);
}

static void write_checkin(fed_writer *request, uint32_t hold_ms) {
    uint8_t bytes[64];
    fed_writer body;
    fed_writer_fixed(&body, bytes, sizeof bytes);
    fed_checkin_write(&body, &(fed_checkin){.role = FED_ROLE_TRAIN, .hold_ms = hold_ms});
    post(request, "/v1/checkin", &body);
}

static void ask_for_work(void *user, size_t k, fed_writer *request) {
    holding *d = &((run *)user)->devices[k];
    if (!d->asked && d->lease == 0) {
        d->asked = true;
        write_checkin(request, 0);
    }
}

static void take_work(void *user, size_t k, const fed_load_answer *answer) {
    run *r = user;
    fed_assignment work;
    fed_reader reader;
    assert_int_equal(answer->status, 200);
    assert_true(answer->len <= FED_LOAD_BODY);
    fed_reader_init(&reader, answer->body, answer->len);
    assert_fed_ok(fed_assignment_read(&reader, FED_PROTOCOL, &work));
    if (work.action == FED_ACTION_TRAIN) {
        r->devices[k].lease = work.lease;
        r->devices[k].round = work.round;
        r->figures->leases++;
    } else {
        r->figures->checkin_bytes = answer->len;
    }
}

static void ask_again(void *user, size_t k, fed_writer *request) {
    (void)k;
    run *r = user;
    if (r->left > 0) {
        r->left--;
        write_checkin(request, 0);
    }
}

static void ask_model(void *user, size_t k, fed_writer *request) {
    (void)k;
    run *r = user;
    if (r->left > 0) {
        r->left--;
        fed_write_printf(request, "GET /v1/model?task=1&have=none&want=0 HTTP/1.1\r\n"
                                  "Host: 127.0.0.1\r\n\r\n");
    }
}

static void must_be_200(void *user, size_t k, const fed_load_answer *answer) {
    (void)user, (void)k;
    assert_int_equal(answer->status, 200);
}

static void note_model(void *user, size_t k, const fed_load_answer *answer) {
    (void)k;
    run *r = user;
    assert_int_equal(answer->status, 200);
    r->figures->model_bytes = answer->len;
}

static void wait_for_news(void *user, size_t k, fed_writer *request) {
    (void)user, (void)k;
    write_checkin(request, HOLD_MS);
}

static void note_news(void *user, size_t k, const fed_load_answer *answer) {
    (void)k;
    run *r = user;
    assert_int_equal(answer->status, 200);
    r->told++;
}

static void send_update(void *user, size_t k, fed_writer *request) {
    run *r = user;
    holding *d = &r->devices[k];
    if (d->lease == 0 || d->asked) {
        return;
    }
    d->asked = true;
    fed_writer body;
    fed_writer_growing(&body);
    fed_update_write(
        &body,
        &(fed_update){.task = 1, .round = d->round, .lease = d->lease, .samples = 1, .loss = 0.5f});
    fed_write_bytes(&body, r->envelope.data, r->envelope.len);
    r->figures->update_bytes = body.len;
    post(request, "/v1/update", &body);
    fed_writer_free(&body);
}

static void note_update(void *user, size_t k, const fed_load_answer *answer) {
    (void)k;
    run *r = user;
    assert_int_equal(answer->status, 200);
    r->sent++;
}

static void raise_file_limit(void) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Make an update of zeros; its length does not depend on the values. */
static void make_update(run *r) {
    enum { SMALL = 1024 };
    fed_error err = {0};
    fed_arch arch;
    fedcodec codec;
    assert_fed_ok_err(fed_arch_parse(MODEL, &arch, &err));
    assert_fed_ok_err(fedcodec_parse("float32", &codec, &err));
    float *x = calloc(arch.layout.size, sizeof *x);
    float *residual = calloc(arch.layout.size, sizeof *residual);
    void *work = malloc(fedcodec_envelope_work_size(&codec, &arch.layout, SMALL) + 1);
    fed_writer_growing(&r->envelope);
    assert_true(x != NULL && residual != NULL && work != NULL);
    assert_fed_ok(
        fedcodec_envelope_encode(&codec, &arch.layout, SMALL, residual, x, work, &r->envelope));
    free(work);
    free(residual);
    free(x);
    fed_arch_free(&arch);
}

static size_t pss(const run *r) {
    return scale_server_pss_bytes(&r->world.coordinator);
}

/* Begin a step, in which a device sends at most one request. */
static void next_step(run *r) {
    for (size_t k = 0; k < r->plan->devices; k++) {
        r->devices[k].asked = false;
    }
}

static void ask_all(run *r) {
    next_step(r);
    fed_load_result result =
        fed_load_run(r->load, 0, r->plan->devices, ask_for_work, take_work, r, LIMIT_S);
    r->figures->failures += result.failures;
}

static void connect_all(run *r) {
    scale_figures *f = r->figures;
    f->pss_idle = pss(r);
    r->load =
        fed_load_open(r->world.coordinator.port, r->world.keys, r->world.certs, r->plan->devices);
    assert_non_null(r->load);
    f->connected = fed_load_connect(r->load, PARALLEL, &f->connect_s);
    ask_all(r);
    f->pss_connected = pss(r);
}

static void start_task(run *r) {
    char task[400];
    snprintf(task, sizeof task,
             "{\"model\": \"" MODEL "\", \"codec_up\": \"float32\", \"codec_down\": \"float32\","
             " \"rounds\": 2, \"cohort\": %zu, \"deadline_s\": 3600}",
             r->plan->updates);
    scale_world_task(&r->world, task);
    for (int k = 0; k < TRIES && r->figures->leases < r->plan->updates; k++) {
        ask_all(r);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    assert_int_equal(r->figures->leases, r->plan->updates);
    r->left = 1;
    fed_load_run(r->load, 0, 1, ask_model, note_model, r, LIMIT_S);
}

static void measure(run *r, const scale_server *server, fed_load *load, size_t count,
                    fed_load_ask ask, scale_times *times, size_t round) {
    double before_s = scale_server_cpu_s(server);
    r->left = count;
    times->round[round] = fed_load_run(load, 0, r->plan->active, ask, must_be_200, r, LIMIT_S);
    times->cpu_us[round] = 1e6 * (scale_server_cpu_s(server) - before_s) / (double)count;
    r->figures->failures += times->round[round].failures;
}

static void measure_all(run *r) {
    const scale_plan *p = r->plan;
    scale_figures *f = r->figures;
    const scale_server *ours = &r->world.coordinator;
    scale_server nginx = {0};
    fed_load *other = NULL;
    f->with_nginx =
        p->nginx && scale_world_nginx(&r->world, f->checkin_bytes, r->envelope.len, &nginx);
    if (f->with_nginx) {
        other = fed_load_open(nginx.port, r->world.keys, r->world.certs, p->devices);
        assert_non_null(other);
        assert_int_equal(fed_load_connect(other, PARALLEL, &f->nginx_connect_s), p->devices);
    }
    for (size_t k = 0; k < p->rounds; k++) {
        measure(r, ours, r->load, p->checkins, ask_again, &f->checkin, k);
        if (f->with_nginx) {
            measure(r, &nginx, other, p->checkins, ask_again, &f->nginx_checkin, k);
        }
    }
    start_task(r);
    for (size_t k = 0; k < p->rounds; k++) {
        measure(r, ours, r->load, p->models, ask_model, &f->model, k);
        if (f->with_nginx) {
            measure(r, &nginx, other, p->models, ask_model, &f->nginx_model, k);
        }
    }
    if (f->with_nginx) {
        f->nginx_pss = scale_server_pss_bytes(&nginx);
        fed_load_close(other);
        scale_server_stop(&nginx);
    }
}

static void wait_all(run *r) {
    scale_figures *f = r->figures;
    double seconds;
    fed_load_connect(r->load, PARALLEL, &seconds);
    for (size_t k = 0; k < r->plan->devices; k++) {
        if (r->devices[k].lease == 0) {
            f->waiting += fed_load_post(r->load, k, 1, wait_for_news, note_news, r);
        }
    }
    (void)fed_load_wait(r->load, 1);
    f->pss_waiting = pss(r);
}

static void upload_until(run *r, size_t stop, size_t *next) {
    while (r->sent < stop && *next < r->plan->devices) {
        size_t left = r->plan->devices - *next;
        size_t count = left < SCALE_UPLOADS ? left : SCALE_UPLOADS;
        count = stop - r->sent < count ? stop - r->sent : count;
        fed_load_result result =
            fed_load_run(r->load, *next, count, send_update, note_update, r, LIMIT_S);
        r->figures->updates_s += result.seconds;
        r->figures->failures += result.failures;
        *next += count;
    }
}

static void upload_all(run *r) {
    scale_figures *f = r->figures;
    size_t next = 0;
    next_step(r);
    for (size_t k = 0; k < SCALE_STAGES; k++) {
        upload_until(r,
                     k + 1 < SCALE_STAGES ? (k + 1) * r->plan->updates / SCALE_STAGES
                                          : r->plan->updates - 1,
                     &next);
        f->updates[k] = r->sent;
        f->pss_updates[k] = pss(r);
    }
    r->told = 0;
    upload_until(r, r->plan->updates, &next);
    assert_int_equal(r->sent, r->plan->updates);
    size_t places = f->waiting < r->plan->updates ? f->waiting : r->plan->updates;
    for (int k = 0; k < 50 * LIMIT_S && r->told < places; k++) {
        (void)fed_load_wait(r->load, 0.02);
    }
    f->woken = r->told;
}

void scale_run(const scale_plan *plan, scale_figures *figures) {
    run r = {.plan = plan, .figures = figures};
    *figures = (scale_figures){0};
    raise_file_limit();
    make_update(&r);
    r.devices = calloc(plan->devices, sizeof *r.devices);
    assert_non_null(r.devices);
    scale_world_open(&r.world, plan->devices);
    scale_world_start(&r.world);
    connect_all(&r);
    measure_all(&r);
    wait_all(&r);
    upload_all(&r);
    fed_load_close(r.load);
    scale_world_close(&r.world);
    fed_writer_free(&r.envelope);
    free(r.devices);
}
