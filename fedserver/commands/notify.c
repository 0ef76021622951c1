/* Sends messages to the service manager. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/commands/notify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fed/clock.h"

static socklen_t manager(struct sockaddr_un *address) {
    const char *path = getenv("NOTIFY_SOCKET");
    const size_t len = path != NULL ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address->sun_path || (path[0] != '/' && path[0] != '@')) {
        return 0;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, len);
    if (path[0] == '@') {
        /* "@" stands for the NUL with which Linux's abstract socket names begin */
        address->sun_path[0] = '\0';
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

void notify_send(const char *message) {
    struct sockaddr_un address;
    const socklen_t len = manager(&address);
    const int fd = len > 0 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0) {
        (void)sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const void *)&address, len);
        close(fd);
    }
}

void notify_alive(void) {
    /* limit_ms: the service manager's limit; 0: there is none; -1: it was not read yet */
    static int64_t limit_ms = -1, sent_ms;
    const int64_t now_ms = fed_clock_monotonic_ms();
    if (limit_ms < 0) {
        const char *limit = getenv("WATCHDOG_USEC");
        const char *pid = getenv("WATCHDOG_PID");
        const bool ours = pid == NULL || strtoll(pid, NULL, 10) == (long long)getpid();
        limit_ms = limit != NULL && ours ? strtoll(limit, NULL, 10) / 1000 : 0;
    }
    if (limit_ms > 0 && now_ms - sent_ms >= limit_ms / 3) {
        sent_ms = now_ms;
        notify_send("WATCHDOG=1");
    }
}
