/* The release and the protocol version. */
#ifndef FED_VERSION_H
#define FED_VERSION_H

#define FED_VERSION "0.1.0"

/* Versions of the protocol (docs/protocol.md#versions): the newest, and the oldest still spoken. */
#define FED_PROTOCOL        2
#define FED_PROTOCOL_OLDEST 1

#endif
