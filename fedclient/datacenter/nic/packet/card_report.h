/* What a card has done, as a table for people and as Prometheus reads it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_CARD_REPORT_H
#define FEDNIC_CARD_REPORT_H

#include "fedclient/datacenter/nic/packet/card.h"
#include "fedclient/datacenter/nic/packet/line_socket.h"
#include "fednic/fednic.h"

/** Of the connections the FEDNIC_SHOWN that were used last. */
enum { FEDNIC_SHOWN = 100 };

typedef struct fednic_report {
    const fednic_options *options;
    const fednic_card *card;
    fednic_line_counts line;
    uint64_t unwanted; /* frames that the host did not take */
    int64_t begun_ms, now_ms;
} fednic_report;

void fednic_report_write(const fednic_report *report, fednic_format format, fed_writer *text);

#endif
