/* Files that one process hands to another: the receiver reads what the sender's descriptor has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed/send_files.h"

/* Receive a message. Returns how many descriptors came with it. */
static size_t receive(int socket, char text[16], int files[FED_SEND_FILES + 1]) {
    char room[256];
    struct iovec part = {text, 15};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    const ssize_t len = recvmsg(socket, &message, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    const struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    const size_t count = first != NULL ? (first->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    assert_true(count <= FED_SEND_FILES);
    if (count > 0) {
        memcpy(files, CMSG_DATA(first), count * sizeof(int));
    }
    return count;
}

FED_TEST(parts_and_files_arrive_together) {
    int ends[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(pipe(pipes), 0);
    for (size_t count = 0; count <= FED_SEND_FILES; count++) {
        char text[16], byte;
        int got[FED_SEND_FILES + 1];
        const struct iovec parts[2] = {{"head ", 5}, {"and body", 8}};
        assert_int_equal(fed_send_files(ends[0], parts, 2, pipes, count), 13);
        assert_int_equal(receive(ends[1], text, got), count);
        assert_string_equal(text, "head and body");
        if (count == 2) { /* the pipe's two ends, in this order */
            assert_int_equal(write(got[1], "x", 1), 1);
            assert_int_equal(read(got[0], &byte, 1), 1);
        }
        for (size_t k = 0; k < count; k++) {
            assert_int_not_equal(got[k], pipes[k]);
            close(got[k]);
            assert_int_not_equal(fcntl(pipes[k], F_GETFD), -1); /* the sender's stays open */
        }
    }
    close(ends[1]);
    assert_int_equal(fed_send_files(ends[0], &(struct iovec){"x", 1}, 1, pipes, 1), -1);
    assert_int_equal(errno, EPIPE);
    close(ends[0]);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
