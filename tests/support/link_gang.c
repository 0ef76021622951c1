/* A gang whose ranks are threads of the test: hubs, loopback ports, and the threads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "link_gang.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "fed_test.h"

bool link_gang_fits(const feddc_link_vtable *link) {
    return strcmp(link->name, "mpi") != 0;
}

/* A socket that listens on a port of the loopback interface which the system picks. */
static int listen_somewhere(char address[32]) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(fd, LINK_GANG_RANKS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    snprintf(address, 32, "127.0.0.1:%u", (unsigned)ntohs(here.sin_port));
    return fd;
}

void link_gang_open(link_gang *gang, const feddc_link_vtable *link, uint32_t size) {
    assert_true(size >= 1 && size <= LINK_GANG_RANKS);
    *gang = (link_gang){.size = size};
    bool tcp = strcmp(link->name, "tcp") == 0;
    gang->hub = feddc_hub_new(size);
    assert_non_null(gang->hub);
    for (size_t k = 0; k < sizeof gang->secret; k++) {
        gang->secret[k] = (uint8_t)(k * 37 + 1);
    }
    for (uint32_t r = 0; r < size; r++) {
        gang->addresses[r] = gang->address[r];
        gang->place[r] = (feddc_place){.rank = r,
                                       .size = size,
                                       .hub = gang->hub,
                                       .address = gang->addresses,
                                       .listener = tcp ? listen_somewhere(gang->address[r]) : -1,
                                       .secret = gang->secret,
                                       .patience_ms = 20000};
    }
}

void link_gang_close(link_gang *gang) {
    feddc_hub_free(gang->hub);
    gang->hub = NULL;
}

unsigned link_gang_connections(const char *address) {
    enum { ESTABLISHED = 1 };
    unsigned count = 0, port = 0, state = 0;
    char line[300];
    FILE *file = fopen("/proc/net/tcp", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%*u: %*8x:%x %*x:%*x %x", &port, &state) == 2) {
            count += state == ESTABLISHED && port == strtoul(strchr(address, ':') + 1, NULL, 10);
        }
    }
    fclose(file);
    return count;
}

typedef struct turn {
    void (*part)(void *seat);
    void *seat;
} turn;

static void *take_turn(void *arg) {
    const turn *t = arg;
    t->part(t->seat);
    return NULL;
}

void link_gang_run(uint32_t size, void (*part)(void *seat), void *seats, size_t each) {
    pthread_t thread[LINK_GANG_RANKS];
    turn turns[LINK_GANG_RANKS];
    for (uint32_t r = 0; r < size; r++) {
        turns[r] = (turn){part, (char *)seats + r * each};
        assert_int_equal(pthread_create(&thread[r], NULL, take_turn, &turns[r]), 0);
    }
    for (uint32_t r = 0; r < size; r++) {
        pthread_join(thread[r], NULL);
    }
}
