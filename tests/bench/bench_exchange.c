/* Measure how fast a worker group exchanges gradients. A process is one rank, or has all ranks as
 * threads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "fed/rng.h"
#include "feddc/exchange.h"

/*
 *     bench_exchange KEY=VALUE...
 *
 * floats=430000 steps=20 link=tcp collective=owners codec=SPEC pull=SPEC nic=SPEC bucket=BYTES
 * congestion=reno values=FILE raw=0 leave=0 trace=FILE
 *
 * link=tcp: the environment has FED_RANK, FED_SIZE and FED_ADDRESSES (separated by commas).
 * link=mpi: mpirun starts the ranks. link=threads: size=N ranks are threads. raw=1: no exchange,
 * but as many bytes between the ranks as a float32 exchange needs, in messages of `bucket` bytes.
 * leave=1: sums are not copied to the caller's memory. values=FILE: float32 values to exchange
 * instead of random ones, repeated after the file's end. trace=FILE: write FILE.RANK, a part of a
 * trace (feddc/trace.h) by the machine's clock.
 *
 * The output has rank 0's median time of a step, the bytes that it sends in a step, and the CPU
 * time of its process for a step.
 */

enum { WARM_UP = 2 };

typedef struct setting {
    size_t floats, bucket;
    uint32_t steps, size;
    const char *link, *collective, *codec, *pull, *nic, *congestion, *values, *trace;
    bool raw, leave;
} setting;

typedef struct result {
    bench_times times;
    double bytes, cpu_s;
} result;

static void die(const char *what, const fed_error *err) {
    fprintf(stderr, "bench_exchange: %s: %s\n", what, err->text);
    exit(1);
}

static void check(fed_status status, const char *what, const fed_error *err) {
    if (status != FED_OK) {
        die(what, err);
    }
}

static void read_values(const char *path, float *values, size_t n, uint32_t rank) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || ftell(file) < 4) {
        fprintf(stderr, "bench_exchange: can't read values from %s\n", path);
        exit(1);
    }
    const size_t all = (size_t)ftell(file) / sizeof *values;
    size_t at = rank * n % all;
    for (size_t done = 0; done < n; at = 0) {
        const size_t some = all - at < n - done ? all - at : n - done;
        if (fseek(file, (long)(at * sizeof *values), SEEK_SET) != 0 ||
            fread(values + done, sizeof *values, some, file) != some) {
            fprintf(stderr, "bench_exchange: can't read values from %s\n", path);
            exit(1);
        }
        done += some;
    }
    fclose(file);
}

static void fill(const setting *s, float *values, size_t n, uint32_t rank) {
    fed_rng rng;
    if (s->values != NULL) {
        read_values(s->values, values, n, rank);
        return;
    }
    fed_rng_init(&rng, 21, rank, 0);
    for (size_t i = 0; i < n; i++) {
        double sum = -3;
        for (int k = 0; k < 6; k++) {
            sum += (double)fed_rng_float(&rng);
        }
        values[i] = (float)(sum * sum * sum * 1e-3);
    }
}

static void leave_it(void *user, size_t offset, const float *sum, size_t n) {
    (void)user;
    (void)offset;
    (void)sum;
    (void)n;
}

static void copy_it(void *user, size_t offset, const float *sum, size_t n) {
    memcpy((float *)user + offset, sum, n * sizeof *sum);
}

static fed_status exchange(const setting *s, feddc_exchange *x, uint32_t step, const float *grad,
                           float *sum, fed_error *err) {
    feddc_exchange_put(x, step, 0, grad, s->floats, false);
    return feddc_exchange_take(x, step, 0, s->floats, s->leave ? leave_it : copy_it, sum, err);
}

static void exchange_steps(const setting *s, const feddc_place *place, result *r) {
    fed_error err = {0};
    feddc_exchange *x;
    feddc_trace *trace = NULL;
    if (s->trace != NULL) {
        check(feddc_trace_open(place->rank, place->size, 1 << 16, &trace, &err), "trace", &err);
    }
    const feddc_exchange_options options = {.link = feddc_link_named(s->link),
                                            .place = *place,
                                            .collective = s->collective,
                                            .codec = s->codec,
                                            .pull = s->pull,
                                            .nic = s->nic,
                                            .bucket = s->bucket,
                                            .tensor = &s->floats,
                                            .tensors = 1,
                                            .trace = trace};
    check(feddc_exchange_open(&options, &x, &err), "open", &err);
    if (place->rank >= feddc_exchange_workers(x)) {
        check(feddc_exchange_serve(x, &err), "serve", &err);
        feddc_exchange_close(x, true);
        return;
    }
    float *grad = bench_alloc(s->floats * sizeof *grad),
          *sum = bench_alloc(s->floats * sizeof *sum);
    feddc_exchange_counts before = {0}, after;
    double cpu = 0;
    fill(s, grad, s->floats, place->rank);
    for (uint32_t t = 0; t < s->steps + WARM_UP; t++) {
        if (t == WARM_UP) {
            feddc_exchange_count(x, &before);
            cpu = bench_clock_s(CLOCK_PROCESS_CPUTIME_ID);
            r->times.count = 0;
        }
        BENCH_TIME(&r->times, check(exchange(s, x, t, grad, sum, &err), "exchange", &err));
    }
    r->cpu_s = (bench_clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu) / s->steps;
    feddc_exchange_count(x, &after);
    r->bytes = (double)(after.sent_bytes - before.sent_bytes) / s->steps;
    feddc_exchange_close(x, true);
    if (trace != NULL) {
        check(feddc_trace_write(trace, "rank", 0, s->trace, &err), "trace", &err);
        feddc_trace_close(trace);
    }
    free(grad);
    free(sum);
}

typedef struct mail {
    const feddc_link_vtable *link;
    void *self;
    uint32_t rank, size;
    size_t each; /* bytes to each other rank, in one half of a step */
    size_t piece;
    uint64_t sent, arrived;
} mail;

static void mail_half(mail *m, const uint8_t *data, uint32_t step) {
    fed_error err = {0};
    for (size_t at = 0; at < m->each; at += m->piece) {
        const size_t len = m->each - at < m->piece ? m->each - at : m->piece;
        for (uint32_t k = 1; k < m->size; k++) {
            const feddc_head head = {.flags = FEDDC_FLOATS, .step = step};
            check(m->link->send(m->self, (m->rank + k) % m->size, &head, data + at, len, 1, &err),
                  "send", &err);
            m->sent += len;
        }
    }
    while (m->arrived < m->sent) {
        feddc_event event;
        check(m->link->wait(m->self, 60000, &event, &err), "wait", &err);
        if (event.kind == FEDDC_ARRIVED) {
            m->arrived += event.len;
            m->link->release(m->self, &event);
        } else if (event.kind == FEDDC_NOTHING || (event.kind == FEDDC_GONE && !event.orderly)) {
            snprintf(err.text, sizeof err.text, "no message came within 60 s, or rank %u left",
                     event.peer);
            die("wait", &err);
        }
    }
}

static void mail_steps(const setting *s, const feddc_place *place, result *r) {
    fed_error err = {0};
    mail m = {.link = feddc_link_named(s->link), .rank = place->rank, .size = place->size};
    m.each = s->floats / place->size * sizeof(float);
    m.piece = s->bucket > 0 ? s->bucket : (size_t)1 << 18;
    float *data = bench_alloc(m.each);
    double cpu = 0;
    fill(s, data, m.each / sizeof *data, place->rank);
    check(m.link->open(place, &m.self, &err), "open", &err);
    for (uint32_t t = 0; t < s->steps + WARM_UP; t++) {
        if (t == WARM_UP) {
            cpu = bench_clock_s(CLOCK_PROCESS_CPUTIME_ID);
            r->times.count = 0;
        }
        BENCH_TIME(&r->times, {
            mail_half(&m, (uint8_t *)data, 2 * t);
            mail_half(&m, (uint8_t *)data, 2 * t + 1);
        });
    }
    r->cpu_s = (bench_clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu) / s->steps;
    r->bytes = 2.0 * (double)m.each * (place->size - 1);
    m.link->close(m.self, true);
    free(data);
}

typedef struct rank {
    const setting *setting;
    feddc_place place;
    result result;
    pthread_t thread;
} rank;

static void *run(void *arg) {
    rank *r = arg;
    (r->setting->raw ? mail_steps : exchange_steps)(r->setting, &r->place, &r->result);
    return NULL;
}

static void print(const setting *s, result *r) {
    /* bench_median_s has sorted the times */
    const double median = bench_median_s(&r->times);
    printf("{\"link\": \"%s\", \"collective\": \"%s\", \"codec\": \"%s\", \"pull\": \"%s\", "
           "\"floats\": %zu, \"seconds\": %.6g, \"fastest\": %.6g, \"slowest\": %.6g, "
           "\"bytes\": %.0f, \"cpu\": %.6g}\n",
           s->link,
           s->raw                  ? "none"
           : s->collective != NULL ? s->collective
                                   : "owners",
           s->codec != NULL ? s->codec : "float32", s->pull != NULL ? s->pull : "float32",
           s->floats, median, r->times.s[0], r->times.s[r->times.count - 1], r->bytes, r->cpu_s);
}

static void run_threads(const setting *s) {
    rank *r = calloc(s->size, sizeof *r);
    struct feddc_hub *hub = feddc_hub_new(s->size);
    if (r == NULL || hub == NULL) {
        exit(1);
    }
    for (uint32_t k = 0; k < s->size; k++) {
        r[k] = (rank){.setting = s, .place = {.rank = k, .size = s->size, .hub = hub}};
        if (pthread_create(&r[k].thread, NULL, run, &r[k]) != 0) {
            exit(1);
        }
    }
    for (uint32_t k = 0; k < s->size; k++) {
        pthread_join(r[k].thread, NULL);
    }
    print(s, &r[0].result);
    feddc_hub_free(hub);
    free(r);
}

/* Return this process's place in the group. addresses: the text of FED_ADDRESSES, which is cut up
 * in place. */
static feddc_place find(const setting *s, char *addresses, const char **address) {
    static const uint8_t secret[FEDDC_SECRET] = {21};
    const feddc_link_vtable *link = feddc_link_named(s->link);
    feddc_place place = {.listener = -1,
                         .secret = secret,
                         .congestion = s->congestion,
                         .address = address,
                         .patience_ms = 60000};
    fed_error err = {0};
    if (link->find != NULL) {
        check(link->find(&place, &err), "find", &err);
        return place;
    }
    const char *number = getenv("FED_RANK"), *size = getenv("FED_SIZE");
    if (number == NULL || size == NULL || addresses == NULL) {
        snprintf(err.text, sizeof err.text, "FED_RANK, FED_SIZE and FED_ADDRESSES must be set");
        die("environment", &err);
    }
    place.rank = (uint32_t)strtoul(number, NULL, 10);
    place.size = (uint32_t)strtoul(size, NULL, 10);
    char *rest = addresses;
    for (uint32_t k = 0; k < place.size && k < FEDDC_RANKS; k++) {
        address[k] = strtok_r(k == 0 ? addresses : NULL, ",", &rest);
    }
    return place;
}

static bool read_option(setting *s, const char *option) {
    const char *value = strchr(option, '=');
    const size_t len = value != NULL ? (size_t)(value - option) : 0;
    const struct {
        const char *name, **to;
    } words[] = {{"link", &s->link},     {"collective", &s->collective},
                 {"codec", &s->codec},   {"nic", &s->nic},
                 {"pull", &s->pull},     {"congestion", &s->congestion},
                 {"values", &s->values}, {"trace", &s->trace}};
    for (size_t k = 0; k < sizeof words / sizeof words[0] && len > 0; k++) {
        if (strlen(words[k].name) == len && memcmp(words[k].name, option, len) == 0) {
            *words[k].to = value + 1;
            return true;
        }
    }
    unsigned long number = len > 0 ? strtoul(value + 1, NULL, 10) : 0;
    if (strncmp(option, "floats=", 7) == 0) {
        s->floats = number;
    } else if (strncmp(option, "steps=", 6) == 0) {
        s->steps = (uint32_t)(number < BENCH_ROUNDS_MAX - WARM_UP ? number : 0);
    } else if (strncmp(option, "bucket=", 7) == 0) {
        s->bucket = number;
    } else if (strncmp(option, "size=", 5) == 0) {
        s->size = (uint32_t)number;
    } else if (strncmp(option, "leave=", 6) == 0) {
        s->leave = number != 0;
    } else if (strncmp(option, "raw=", 4) == 0) {
        s->raw = number != 0;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    setting s = {.floats = 430000, .steps = 20, .size = 4, .link = "tcp"};
    static const char *address[FEDDC_RANKS];
    static char addresses[65536];
    for (int k = 1; k < argc; k++) {
        if (!read_option(&s, argv[k])) {
            fprintf(stderr,
                    "bench_exchange: \"%s\" is no option; the head of tests/bench/bench_exchange.c "
                    "lists them\n",
                    argv[k]);
            return 2;
        }
    }
    if (feddc_link_named(s.link) == NULL || s.floats == 0 || s.steps == 0) {
        fprintf(stderr,
                "bench_exchange: this build has no such link=, or floats= or steps= is 0\n");
        return 2;
    }
    if (strcmp(s.link, "threads") == 0) {
        run_threads(&s);
        return 0;
    }
    const char *listed = getenv("FED_ADDRESSES");
    snprintf(addresses, sizeof addresses, "%s", listed != NULL ? listed : "");
    rank one = {.setting = &s, .place = find(&s, addresses, address)};
    one.place.mark = s.raw && s.nic != NULL;
    run(&one);
    if (one.place.rank == 0) {
        print(&s, &one.result);
    }
    return 0;
}
