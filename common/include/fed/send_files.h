/* Hand open files to another process of this machine, through a socket. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_SEND_FILES_H
#define FED_SEND_FILES_H

#include <sys/types.h>
#include <sys/uio.h>

#include "fed/api.h"

FED_API_BEGIN

enum { FED_SEND_FILES = 2 };

/** Send parts[count] as one message through a socket of AF_UNIX, with files[file_count], at most
 * FED_SEND_FILES. The receiver gets descriptors of its own; the caller's stay open. Returns the
 * bytes that were sent, or -1 with errno, as sendmsg does: EPIPE, without a signal, if the receiver
 * has ended. */
ssize_t fed_send_files(int socket, const struct iovec *parts, size_t count, const int *files,
                       size_t file_count);

FED_API_END

#endif
