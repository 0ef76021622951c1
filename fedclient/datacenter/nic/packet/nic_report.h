/* The report of a NIC's counters: a table for people, or metrics for Prometheus. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_NIC_REPORT_H
#define FEDNIC_NIC_REPORT_H

#include "fedclient/datacenter/nic/packet/line_socket.h"
#include "fedclient/datacenter/nic/packet/packet_nic.h"
#include "fednic/fednic.h"

/** A report shows at most this many connections: those that were used last. */
enum { FEDNIC_SHOWN = 100 };

typedef struct fednic_report {
    const fednic_options *options;
    const fednic_nic *nic;
    fednic_line_counts line;
    uint64_t unwanted; /* frames that the TAP device refused */
    int64_t begun_ms, now_ms;
} fednic_report;

void fednic_report_write(const fednic_report *report, fednic_format format, fed_writer *text);

#endif
