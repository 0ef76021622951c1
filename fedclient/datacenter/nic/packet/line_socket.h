/* The line's side of the NIC: a packet socket on an interface without addresses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_LINE_SOCKET_H
#define FEDNIC_LINE_SOCKET_H

#include "fedclient/datacenter/nic/packet/packet_nic.h"

typedef struct fednic_line fednic_line;

/** nics_only: receive only SYNs and frames with a mark of NICs. Errors: FED_ENOTFOUND no such
 * interface; FED_EAUTH root's rights are missing; FED_EINVAL it is no Ethernet; FED_EIO;
 * FED_ENOMEM. */
fed_status fednic_line_open(const char *name, bool nics_only, fednic_line **line,
                            fed_error *err) FED_CHECKED;
void fednic_line_close(fednic_line *line); /* NULL is allowed */

int fednic_line_fd(const fednic_line *line);
uint32_t fednic_line_index(const fednic_line *line);
uint32_t fednic_line_mtu(const fednic_line *line); /* rounded down to a multiple of 4 */
const uint8_t *fednic_line_address(const fednic_line *line);

bool fednic_line_is_gone(const fednic_line *line);

/** Receive at most a batch of frames, and call use(user, frame) for each. Returns their number. */
typedef void fednic_use(void *user, const fednic_frame *frame);
size_t fednic_line_receive(fednic_line *line, fednic_use *use, void *user);

/** Return whether the queue has room for the frames that the NIC usually makes of one. */
bool fednic_line_has_room(const fednic_line *line);

/** Queue a frame. kept: the caller keeps its bytes unchanged until the queue is empty; else a copy
 * is made. */
void fednic_line_put(fednic_line *line, const fednic_frame *frame, bool kept);

typedef enum fednic_sent {
    FEDNIC_ALL,  /* the queue is empty */
    FEDNIC_FULL, /* the socket is full: wait for POLLOUT */
    FEDNIC_LATER /* the line's queue is full, which poll does not report: wait a millisecond */
} fednic_sent;

/** Send the queued frames. Those that the line refuses for good, as when it is down, are dropped
 * and counted. */
fednic_sent fednic_line_flush(fednic_line *line);

typedef struct fednic_line_counts {
    uint64_t refused; /* frames that could not be sent */
    uint64_t missed;  /* frames that came while the socket's buffer was full, or incomplete */
    uint64_t waits;   /* times that the line was full and frames had to wait */
} fednic_line_counts;

void fednic_line_count(fednic_line *line, fednic_line_counts *counts);

#endif
