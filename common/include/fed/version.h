/* The release and the protocol version. */
#ifndef FED_VERSION_H
#define FED_VERSION_H

#define FED_VERSION "0.1.0"

/** The commit that this build was made of: "2d9f797ab0", with "+changes" behind it where files
 * differed from the commit; "unknown" outside a git checkout. Static text. */
const char *fed_build_id(void);

/* Versions of the protocol (docs/protocol.md#versions): the newest, and the oldest still spoken. */
#define FED_PROTOCOL        2
#define FED_PROTOCOL_OLDEST 1

#endif
