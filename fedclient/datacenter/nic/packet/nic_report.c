/* Write the NIC's counters as a table or for Prometheus. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/nic_report.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef struct shown {
    fednic_flow_report flows[FEDNIC_SHOWN];
    unsigned count;
    uint64_t known;
} shown;

static void keep(void *user, const fednic_flow_report *flow) {
    shown *s = user;
    unsigned oldest = s->count;
    s->known++;
    if (s->count == FEDNIC_SHOWN) {
        oldest = 0;
        for (unsigned k = 1; k < FEDNIC_SHOWN; k++) {
            oldest = s->flows[k].used_ms < s->flows[oldest].used_ms ? k : oldest;
        }
        if (s->flows[oldest].used_ms >= flow->used_ms) {
            return;
        }
    } else {
        s->count++;
    }
    s->flows[oldest] = *flow;
}

static int by_bytes(const void *a, const void *b) {
    const fednic_flow_report *x = a;
    const fednic_flow_report *y = b;
    const uint64_t of_x = x->sent_plain + x->received_plain;
    const uint64_t of_y = y->sent_plain + y->received_plain;
    return (of_x < of_y) - (of_x > of_y);
}

static void collect(const fednic_nic *nic, shown *s) {
    s->count = 0;
    s->known = 0;
    fednic_nic_flows(nic, keep, s);
    qsort(s->flows, s->count, sizeof s->flows[0], by_bytes);
}

enum { ENDPOINT = INET6_ADDRSTRLEN + 10 };

static const char *endpoint(uint8_t family, const uint8_t *address, uint16_t port,
                            char text[ENDPOINT]) {
    char host[INET6_ADDRSTRLEN] = "?";
    (void)inet_ntop(family == 4 ? AF_INET : AF_INET6, address, host, sizeof host);
    (void)snprintf(text, ENDPOINT, family == 4 ? "%s:%u" : "[%s]:%u", host, (unsigned)port);
    return text;
}

static double ratio(uint64_t plain, uint64_t coded) {
    return coded > 0 ? (double)plain / (double)coded : 1.0;
}

static void table_counts(const char *name, const fednic_counts *c, fed_writer *text) {
    fed_write_printf(text,
                     "%-9s %11" PRIu64 " %14" PRIu64 " %11" PRIu64 " %14" PRIu64 " %14" PRIu64
                     " %6.2f %9" PRIu64 " %9" PRIu64 " %5" PRIu64 "\n",
                     name, c->frames, c->bytes, c->coded_frames, c->plain_bytes, c->coded_bytes,
                     ratio(c->plain_bytes, c->coded_bytes), c->grown_frames, c->split_floats,
                     c->bad_frames);
}

static void table_flow(const fednic_flow_report *f, int64_t now_ms, fed_writer *text) {
    char host[ENDPOINT];
    char peer[ENDPOINT];
    fed_write_printf(text, "%-25s %-25s %-4s %7.1f %14" PRIu64 " %6.2f %14" PRIu64 " %6.2f\n",
                     endpoint(f->family, f->host, f->host_port, host),
                     endpoint(f->family, f->peer, f->peer_port, peer), f->agreed ? "both" : "ours",
                     (double)(now_ms - f->used_ms) / 1000.0, f->sent_plain,
                     ratio(f->sent_plain, f->sent_coded), f->received_plain,
                     ratio(f->received_plain, f->received_coded));
}

static void table(const fednic_report *r, const fednic_counts counts[2], const shown *s,
                  fed_writer *text) {
    const fednic_options *o = r->options;
    fed_write_printf(text, "%s is a NIC on %s for %.0f s, bound 2^-%d%s\n\n", o->tun, o->wire,
                     (double)(r->now_ms - r->begun_ms) / 1000.0, o->e,
                     o->bypass ? "; unmarked frames pass in the kernel, and are not counted" : "");
    fed_write_printf(text, "%-9s %11s %14s %11s %14s %14s %6s %9s %9s %5s\n", "", "frames",
                     "frame bytes", "compressed", "payload", "on the line", "ratio", "grown",
                     "split", "bad");
    table_counts("sent", &counts[FEDNIC_HOST], text);
    table_counts("received", &counts[FEDNIC_WIRE], text);
    fed_write_printf(text,
                     "\nthe line was full %" PRIu64 " times; frames lost: %" PRIu64
                     " by the line, %" PRIu64 " by this program, %" PRIu64 " by the host\n",
                     r->line.waits, r->line.refused, r->line.missed, r->unwanted);
    fed_write_printf(text, "\n%" PRIu64 " marked connections%s\n", s->known,
                     s->known > s->count ? "; these were used last:" : "");
    if (s->count > 0) {
        fed_write_printf(text, "%-25s %-25s %-4s %7s %14s %6s %14s %6s\n", "host", "peer", "NIC",
                         "idle s", "sent", "ratio", "received", "ratio");
    }
    for (unsigned k = 0; k < s->count; k++) {
        table_flow(&s->flows[k], r->now_ms, text);
    }
}

static const struct {
    const char *name, *help;
    size_t offset;
} counters[] = {
#define AT(member) offsetof(fednic_counts, member)
    {"frames", "Frames that came from this side.", AT(frames)},
    {"frame_bytes", "Bytes of the frames that came from this side.", AT(bytes)},
    {"coded_frames", "Frames that were compressed, or restored.", AT(coded_frames)},
    {"plain_bytes", "Payload of the frames that were compressed or restored, as the host has it.",
     AT(plain_bytes)},
    {"coded_bytes", "Payload of the frames that were compressed or restored, as the line has it.",
     AT(coded_bytes)},
    {"grown_frames", "Marked frames that compression would not have made shorter.",
     AT(grown_frames)},
    {"split_floats", "Values that a segment's border cut.", AT(split_floats)},
    {"bad_frames", "Frames with the NIC's mark that are not of its format.", AT(bad_frames)},
#undef AT
};

enum { COUNTERS = sizeof counters / sizeof counters[0] };

static void metric(fed_writer *text, const char *name, const char *type, const char *help) {
    fed_write_printf(text, "# HELP fednic_%s %s\n# TYPE fednic_%s %s\n", name, help, name, type);
}

static void prometheus_losses(const fednic_report *r, fed_writer *text) {
    const struct {
        const char *by;
        uint64_t frames;
    } lost[] = {{"line", r->line.refused}, {"program", r->line.missed}, {"host", r->unwanted}};
    metric(text, "lost_frames_total", "counter", "Frames that somebody did not take.");
    for (unsigned k = 0; k < 3; k++) {
        fed_write_printf(text, "fednic_lost_frames_total{tun=\"%s\",by=\"%s\"} %" PRIu64 "\n",
                         r->options->tun, lost[k].by, lost[k].frames);
    }
    metric(text, "waits_total", "counter", "Times that the line was full, and the host waited.");
    fed_write_printf(text, "fednic_waits_total{tun=\"%s\"} %" PRIu64 "\n", r->options->tun,
                     r->line.waits);
}

static void prometheus_flows(const fednic_report *r, const shown *s, fed_writer *text) {
    static const char *const names[] = {"flow_plain_bytes_total", "flow_coded_bytes_total"};
    static const char *const help[] = {"Payload of a marked connection as the host has it.",
                                       "Payload of a marked connection as the line has it."};
    char host[ENDPOINT];
    char peer[ENDPOINT];
    metric(text, "flows", "gauge", "Marked connections that are known.");
    fed_write_printf(text, "fednic_flows{tun=\"%s\"} %" PRIu64 "\n", r->options->tun, s->known);
    for (unsigned n = 0; n < 2 && s->count > 0; n++) {
        metric(text, names[n], "counter", help[n]);
        for (unsigned k = 0; k < s->count; k++) {
            const fednic_flow_report *f = &s->flows[k];
            endpoint(f->family, f->host, f->host_port, host);
            endpoint(f->family, f->peer, f->peer_port, peer);
            fed_write_printf(
                text,
                "fednic_%s{tun=\"%s\",host=\"%s\",peer=\"%s\",side=\"sent\"} %" PRIu64
                "\nfednic_%s{tun=\"%s\",host=\"%s\",peer=\"%s\",side=\"received\"} %" PRIu64 "\n",
                names[n], r->options->tun, host, peer, n == 0 ? f->sent_plain : f->sent_coded,
                names[n], r->options->tun, host, peer,
                n == 0 ? f->received_plain : f->received_coded);
        }
    }
}

static void prometheus(const fednic_report *r, const fednic_counts counts[2], const shown *s,
                       fed_writer *text) {
    static const char *const sides[] = {[FEDNIC_HOST] = "sent", [FEDNIC_WIRE] = "received"};
    for (unsigned k = 0; k < COUNTERS; k++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s_total", counters[k].name);
        metric(text, name, "counter", counters[k].help);
        for (unsigned side = 0; side < 2; side++) {
            const uint64_t value =
                *(const uint64_t *)((const char *)&counts[side] + counters[k].offset);
            fed_write_printf(text, "fednic_%s{tun=\"%s\",side=\"%s\"} %" PRIu64 "\n", name,
                             r->options->tun, sides[side], value);
        }
    }
    prometheus_losses(r, text);
    prometheus_flows(r, s, text);
}

void fednic_report_write(const fednic_report *report, fednic_format format, fed_writer *text) {
    fednic_counts counts[2];
    shown s;
    fednic_nic_count(report->nic, FEDNIC_HOST, &counts[FEDNIC_HOST]);
    fednic_nic_count(report->nic, FEDNIC_WIRE, &counts[FEDNIC_WIRE]);
    collect(report->nic, &s);
    if (format == FEDNIC_PROMETHEUS) {
        prometheus(report, counts, &s, text);
    } else {
        table(report, counts, &s, text);
    }
}
