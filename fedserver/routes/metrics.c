/* Writes metrics in the text format of Prometheus, also the metrics that every process has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/routes/metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "fed/version.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/routes/answers.h"

enum { NAME = 64 };

void fedserver_metric_head(fed_writer *w, const char *name, const char *type, const char *help) {
    fed_write_printf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void fedserver_metric_counter(fed_writer *w, const char *name, const char *help, uint64_t value) {
    fedserver_metric_head(w, name, "counter", help);
    fed_write_printf(w, "%s %llu\n", name, (unsigned long long)value);
}

void fedserver_metric_gauge(fed_writer *w, const char *name, const char *help, double value) {
    fedserver_metric_head(w, name, "gauge", help);
    fed_write_printf(w, "%s %.17g\n", name, value);
}

static const char *const computers[FEDSERVER_COMPUTERS] = {"processor", "opencl", "cuda", "other"};

void fedserver_metric_computer(uint64_t counts[FEDSERVER_COMPUTERS], const char *computes_on) {
    size_t kind = computes_on[0] == '\0' ? 0 : FEDSERVER_COMPUTERS - 1;
    for (size_t k = 1; k + 1 < FEDSERVER_COMPUTERS; k++) {
        const size_t len = strlen(computers[k]);
        if (strncmp(computes_on, computers[k], len) == 0 && computes_on[len] == ':') {
            kind = k;
        }
    }
    counts[kind]++;
}

void fedserver_metric_computers(fed_writer *w, const char *name, const char *help,
                                const uint64_t counts[FEDSERVER_COMPUTERS]) {
    fedserver_metric_head(w, name, "gauge", help);
    for (size_t k = 0; k < FEDSERVER_COMPUTERS; k++) {
        fed_write_printf(w, "%s{on=\"%s\"} %llu\n", name, computers[k],
                         (unsigned long long)counts[k]);
    }
}

void fedserver_metrics_rounds(fed_writer *w, const fedserver_counters *counters) {
    uint64_t sum = 0;
    fedserver_metric_head(w, "fed_round_seconds", "histogram",
                          "From a round's opening to its commit.");
    for (size_t k = 0; k < FEDSERVER_ROUND_TIMES; k++) {
        char bound[16] = "+Inf";
        sum += counters->round_times[k];
        if (k < FEDSERVER_ROUND_TIMES - 1) {
            snprintf(bound, sizeof bound, "%g", fedserver_round_bounds[k]);
        }
        fed_write_printf(w, "fed_round_seconds_bucket{le=\"%s\"} %llu\n", bound,
                         (unsigned long long)sum);
    }
    fed_write_printf(w, "fed_round_seconds_sum %.17g\nfed_round_seconds_count %llu\n",
                     counters->round_seconds, (unsigned long long)sum);
}

static void answers(const fedserver *server, const char *prefix, fed_writer *w) {
    /* these are written even if 0, so that a rate can be computed from the first answer on */
    static const int always[] = {200, 400, 401, 403, 409, 429, 503};
    char name[NAME];
    snprintf(name, sizeof name, "%s_responses_total", prefix);
    fedserver_metric_head(w, name, "counter", "Answers sent, by status.");
    for (int status = 0; status < 600; status++) {
        bool shown = server->wire.answers[status] > 0;
        for (size_t k = 0; k < sizeof always / sizeof always[0]; k++) {
            shown = shown || always[k] == status;
        }
        if (shown) {
            fed_write_printf(w, "%s{code=\"%d\"} %llu\n", name, status,
                             (unsigned long long)server->wire.answers[status]);
        }
    }
}

static void handshakes(const fedserver *server, const char *prefix, fed_writer *w) {
    static const char *const reasons[] = {"budget", "certificate", "unfinished"};
    char name[NAME];
    snprintf(name, sizeof name, "%s_handshakes_failed_total", prefix);
    fedserver_metric_head(w, name, "counter",
                          "Connections that ended without a request, by reason.");
    for (size_t k = 0; k < sizeof reasons / sizeof reasons[0]; k++) {
        fed_write_printf(w, "%s{reason=\"%s\"} %llu\n", name, reasons[k],
                         (unsigned long long)server->wire.handshakes[k]);
    }
}

static double resident_bytes(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) {
        return 0;
    }
    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes valid numbers */
    const int found = fscanf(file, "%ld %ld", &size, &resident);
    (void)fclose(file);
    return found == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

void fedserver_metrics_process(const fedserver *server, const char *prefix, fed_writer *w) {
    char name[NAME];
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    answers(server, prefix, w);
    handshakes(server, prefix, w);
    snprintf(name, sizeof name, "%s_connections", prefix);
    fedserver_metric_gauge(w, name, "Open connections.", (double)server->wire.connections);
    snprintf(name, sizeof name, "%s_blobs_total", prefix);
    fedserver_metric_counter(w, name, "Requests of caches that were answered with a download.",
                             server->blobs);
    snprintf(name, sizeof name, "%s_cpu_seconds_total", prefix);
    fedserver_metric_head(w, name, "counter", "CPU time of this process.");
    fed_write_printf(w, "%s %.6f\n", name, (double)t.tv_sec + (double)t.tv_nsec / 1e9);
    snprintf(name, sizeof name, "%s_resident_bytes", prefix);
    fedserver_metric_gauge(w, name, "Memory of this process.", resident_bytes());
}

void fedserver_metrics_place(const fedserver *server, fed_writer *w) {
    static const char *const names[] = {"server", "ca"};
    struct statvfs disk;
    fedserver_metric_head(w, "fed_build_info", "gauge", "Always 1; the label has the version.");
    fed_write_printf(w, "fed_build_info{version=\"%s\"} 1\n", FED_VERSION);
    if (statvfs(server->directory, &disk) == 0) {
        fedserver_metric_gauge(w, "fed_directory_free_bytes",
                               "Free bytes on the disk of the coordinator's directory.",
                               (double)disk.f_bavail * (double)disk.f_frsize);
    }
    fedserver_metric_head(w, "fed_certificate_expires_seconds", "gauge",
                          "When a certificate expires, Unix time; 0: it can't be read.");
    for (size_t k = 0; k < 2; k++) {
        char file[16];
        snprintf(file, sizeof file, "%s.pem", names[k]);
        fed_write_printf(w, "fed_certificate_expires_seconds{certificate=\"%s\"} %lld\n", names[k],
                         (long long)fedserver_certificate_expires_s(server->directory, file));
    }
}

void fedserver_metrics_cluster(const fedserver *server, fed_writer *w) {
    fedserver_metric_gauge(w, "fed_leads",
                           "1: this coordinator runs the rounds; 0: it follows another one.",
                           server->following ? 0 : 1);
    fedserver_metric_gauge(w, "fed_term",
                           "Number of the leader's term; 0: no other coordinator can lead.",
                           (double)server->lead.term);
    if (!server->following) {
        fedserver_metric_gauge(w, "fed_coordinators",
                               "Coordinators that serve: the leader, and those that pass requests "
                               "on to it.",
                               1 + (double)server->followers);
    }
}

fed_status fedserver_metrics_of_follower(const fedserver *server, fedserver_response *response,
                                         fed_error *err) {
    fed_writer w;
    fed_writer_growing(&w);
    fedserver_metrics_cluster(server, &w);
    fedserver_metrics_process(server, "fed", &w);
    fedserver_metrics_place(server, &w);
    return fedserver_answer(response, 200, FEDSERVER_METRICS_TYPE, &w, err);
}

fed_status fedserver_metrics_append(const fedserver *server, fedserver_response *response,
                                    fed_error *err) {
    size_t len = 0;
    const char *type = response->content_type;
    const uint8_t *data = fedserver_blob_data(response->body, &len);
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_bytes(&w, data, len);
    fedserver_metrics_process(server, "fed_front", &w);
    fedserver_blob_free(response->body);
    response->body = NULL;
    return fedserver_answer(response, response->status, type, &w, err);
}
