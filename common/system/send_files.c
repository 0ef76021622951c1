/* Sends descriptors as the control data SCM_RIGHTS. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/send_files.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

ssize_t fed_send_files(int socket, const struct iovec *parts, size_t count, const int *files,
                       size_t file_count) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int[FED_SEND_FILES]))];
    } attached;
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};
    assert(file_count <= FED_SEND_FILES);
    if (file_count > 0) {
        memset(&attached, 0, sizeof attached);
        attached.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(file_count * sizeof *files),
                                           .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&attached.header), files, file_count * sizeof *files);
        message.msg_control = attached.room;
        message.msg_controllen = CMSG_SPACE(file_count * sizeof *files);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}
