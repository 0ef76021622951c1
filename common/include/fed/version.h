/* The release and the protocol version. */
#ifndef FED_VERSION_H
#define FED_VERSION_H

#define FED_VERSION "0.1.0"
#define FED_PROTOCOL                                                                               \
    1 /* docs/protocol.md; changes only when old peers can no longer talk to new ones */

#endif
