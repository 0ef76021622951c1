/* Ports for servers that a test stops and starts again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "fed_test.h"

uint16_t fed_port_keep(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t len = sizeof at;
    const int on = 1;
    /* This socket only reserves the port. It is never closed. */
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}
