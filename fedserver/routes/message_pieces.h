/* Messages that come in pieces: one at a time of a device or helper, kept in the store. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROUTES_MESSAGE_PIECES_H
#define FEDSERVER_ROUTES_MESSAGE_PIECES_H

#include "fedserver/routes/router.h"

/** A piece of a message. data points into the request's body. */
typedef struct fedserver_piece {
    fed_piece head;
    const uint8_t *data;
    size_t len;
} fedserver_piece;

/** Answers a whole message, whose digest is checked already. */
typedef fed_status (*fedserver_message_take)(fedserver *server, const fedserver_call *call,
                                             const uint8_t *bytes, size_t len, uint64_t digest,
                                             fedserver_response *response, fed_error *err);

/** Read a piece. False: the body is none. */
bool fedserver_piece_read(const fedserver_request *request, fedserver_piece *piece);

/** Keep a piece, and answer 202 with the number of bytes that have come (u64). With the last piece
 * `take` answers the whole message. An empty piece asks only how much has come. */
fed_status fedserver_piece_take(fedserver *server, const fedserver_call *call,
                                const fedserver_piece *piece, fedserver_message_take take,
                                fedserver_response *response, fed_error *err) FED_CHECKED;

#endif
