/* The NIC's loop: pass frames between host and line, and answer requests for reports. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: ifaddrs' flags */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fed/clock.h"
#include "fedclient/datacenter/nic/packet/kernel_path.h"
#include "fedclient/datacenter/nic/packet/line_socket.h"
#include "fedclient/datacenter/nic/packet/nic_report.h"
#include "fedclient/datacenter/nic/packet/report_socket.h"
#include "fedclient/datacenter/nic/packet/tap.h"
#include "fedclient/datacenter/nic/packet/vnet_header.h"

enum {
    AREA = 4 * FEDNIC_SLOT, /* bytes for frames that are read from the host before they are sent */
    BATCH = 64,             /* most frames that are read from the host before they are sent */
    LATER_MS = 1,
    LINE = FEDNIC_REPORT_POLLS, /* index in `polls`, behind the entries of the report socket */
    TAP,
    STOP,
    POLLS
};

typedef struct nic_loop {
    const fednic_options *options;
    fednic_nic *nic;
    fednic_tap tap;
    fednic_line *line;
    fednic_kernel_path path;
    fednic_reports *reports;
    uint8_t *area;
    size_t used;
    fednic_sent sent;
    uint64_t unwanted;
    int64_t begun_ms, now_ms;
} nic_loop;

static void to_line(void *user, const fednic_frame *frame) {
    nic_loop *l = user;
    const uintptr_t at = (uintptr_t)frame->data;
    const uintptr_t area = (uintptr_t)l->area;
    fednic_line_put(l->line, frame, at >= area && at < area + AREA);
}

static void to_host(void *user, const fednic_frame *frame) {
    nic_loop *l = user;
    l->unwanted += !fednic_tap_write(&l->tap, frame);
}

static void from_line(void *user, const fednic_frame *frame) {
    nic_loop *l = user;
    fednic_nic_take(l->nic, FEDNIC_WIRE, frame, l->now_ms, to_host, l);
}

static void flush(nic_loop *l) {
    l->sent = fednic_line_flush(l->line);
    if (l->sent == FEDNIC_ALL) {
        l->used = 0;
    }
}

/* While the line is full nothing is read from the host, so the TAP device's queue fills and the
 * host's TCP waits. */
static fednic_got from_host(nic_loop *l) {
    fednic_got got = FEDNIC_FRAME_GOT;
    for (unsigned k = 0; k < BATCH && l->used + FEDNIC_SLOT <= AREA &&
                         fednic_line_has_room(l->line) && got == FEDNIC_FRAME_GOT;
         k++) {
        fednic_frame frame;
        got = fednic_tap_read(&l->tap, l->area + l->used, &frame);
        if (got == FEDNIC_FRAME_GOT) {
            l->used += (FEDNIC_VNET + frame.len + 63) / 64 * 64;
            fednic_nic_take(l->nic, FEDNIC_HOST, &frame, l->now_ms, to_line, l);
        }
    }
    flush(l);
    return got;
}

static void report_now(void *user, fednic_format format, fed_writer *text) {
    nic_loop *l = user;
    fednic_report r = {.options = l->options,
                       .nic = l->nic,
                       .unwanted = l->unwanted,
                       .begun_ms = l->begun_ms,
                       .now_ms = l->now_ms};
    fednic_line_count(l->line, &r.line);
    fednic_report_write(&r, format, text);
}

static int prepare(const nic_loop *l, int stop, struct pollfd *polls) {
    const int limit = fednic_reports_poll(l->reports, polls);
    const short out = l->sent == FEDNIC_FULL ? POLLOUT : 0;
    polls[LINE] = (struct pollfd){.fd = fednic_line_fd(l->line), .events = (short)(POLLIN | out)};
    polls[TAP] = (struct pollfd){.fd = l->sent == FEDNIC_ALL ? l->tap.fd : -1, .events = POLLIN};
    polls[STOP] = (struct pollfd){.fd = stop, .events = POLLIN};
    return l->sent == FEDNIC_LATER ? LATER_MS : limit;
}

static fed_status work(nic_loop *l, const struct pollfd *polls, fed_error *err) {
    if (polls[LINE].revents != 0 && fednic_line_receive(l->line, from_line, l) == 0 &&
        (polls[LINE].revents & POLLERR) != 0 && fednic_line_is_gone(l->line)) {
        return fed_fail(err, FED_EIO,
                        "the interface %s (--wire) was removed: start fednic again when it is back",
                        l->options->wire);
    }
    if (l->sent != FEDNIC_ALL) {
        flush(l);
    } else if (polls[TAP].revents != 0 && from_host(l) == FEDNIC_GONE) {
        return fed_fail(err, FED_EIO, "the device %s (--tun) was removed: start fednic again",
                        l->options->tun);
    }
    return FED_OK;
}

static fed_status go_on(nic_loop *l, int stop, fed_error *err) {
    struct pollfd polls[POLLS];
    for (;;) {
        const int limit = prepare(l, stop, polls);
        (void)poll(polls, POLLS, limit); /* if interrupted, no entry of polls is ready */
        l->now_ms = fed_clock_monotonic_ms();
        if (polls[STOP].revents != 0) {
            return FED_OK;
        }
        FED_TRY(work(l, polls, err));
        fednic_reports_serve(l->reports, polls, l->now_ms, report_now, l);
    }
}

static bool has_address(const char *name) {
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
        if (a->ifa_addr != NULL && strcmp(a->ifa_name, name) == 0) {
            const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)a->ifa_addr;
            found = found || a->ifa_addr->sa_family == AF_INET ||
                    (a->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
        }
    }
    freeifaddrs(all);
    return found;
}

static void warn_of_addresses(const fednic_options *o, fednic_report_line *say, void *user) {
    char text[300];
    if (has_address(o->wire)) {
        (void)snprintf(text, sizeof text,
                       "%s still has an address, which can't be reached while the NIC runs: "
                       "ip address flush dev %s, and give the address to %s",
                       o->wire, o->wire, o->tun);
        say(user, text);
    }
}

/* Attach the eBPF programs. Without the bypass the NIC also works on kernels that can't attach
 * them. Then the user must keep the host's stack from answering on the line's interface. */
static fed_status open_path(nic_loop *l, fednic_report_line *say, void *user, fed_error *err) {
    char text[400];
    const fednic_options *o = l->options;
    const fed_status status =
        fednic_kernel_path_open(l->tap.index, fednic_line_index(l->line), o->bypass, &l->path, err);
    if (status == FED_OK || o->bypass) {
        return status;
    }
    (void)snprintf(text, sizeof text,
                   "this host answers on %s itself, as its kernel is older than 6.6: "
                   "ip link set %s arp off; sysctl -w net.ipv6.conf.%s.disable_ipv6=1",
                   o->wire, o->wire, o->wire);
    say(user, text);
    return FED_OK;
}

static fed_status open_all(nic_loop *l, fednic_report_line *say, void *user, fed_error *err) {
    const fednic_options *o = l->options;
    FED_TRY(fednic_line_open(o->wire, o->bypass, &l->line, err));
    FED_TRY(fednic_tap_open(o->tun, fednic_line_mtu(l->line), fednic_line_address(l->line), &l->tap,
                            err));
    const fednic_nic_options options = {.e = o->e, .mtu = l->tap.mtu};
    FED_TRY(fednic_nic_new(&options, &l->nic, err));
    FED_TRY(fednic_reports_open(o->control, &l->reports, err));
    FED_TRY(open_path(l, say, user, err));
    l->area = malloc(AREA);
    return l->area != NULL ? FED_OK : FED_ENOMEM;
}

static fed_status check(const fednic_options *o, fed_error *err) {
    const char *const names[] = {o->tun, o->wire};
    for (unsigned k = 0; k < 2; k++) {
        if (names[k][0] == '\0' || strlen(names[k]) >= IFNAMSIZ || strpbrk(names[k], "/% \t\"\\")) {
            return fed_fail(err, FED_EINVAL, "\"%.60s\" is no name of an interface", names[k]);
        }
    }
    return strcmp(o->tun, o->wire) != 0
               ? FED_OK
               : fed_fail(err, FED_EINVAL, "--tun and --wire are two interfaces, not both %s",
                          o->tun);
}

fed_status fednic_run(const fednic_options *options, int stop, fednic_report_line *say, void *user,
                      fed_error *err) {
    char ready[200];
    nic_loop l = {.options = options, .tap = {.fd = -1}, .path = {{-1, -1}}};
    FED_TRY(check(options, err));
    fed_status status = open_all(&l, say, user, err);
    if (status == FED_OK) {
        l.now_ms = l.begun_ms = fed_clock_monotonic_ms();
        warn_of_addresses(options, say, user);
        (void)snprintf(ready, sizeof ready, "ready: %s is a NIC on %s, bound 2^-%d", options->tun,
                       options->wire, options->e);
        say(user, ready);
        status = go_on(&l, stop, err);
    }
    free(l.area);
    fednic_kernel_path_close(&l.path);
    fednic_reports_close(l.reports);
    fednic_nic_free(l.nic);
    if (l.tap.fd >= 0) {
        fednic_tap_close(&l.tap);
    }
    fednic_line_close(l.line);
    return status;
}
