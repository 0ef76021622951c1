/* Sets up a worker group whose ranks are threads of the test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "link_group.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "fed_test.h"

bool link_group_fits(const feddc_link_vtable *link) {
    return strcmp(link->name, "mpi") != 0;
}

static int listen_somewhere(char address[32]) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(fd, LINK_GROUP_RANKS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    snprintf(address, 32, "127.0.0.1:%u", (unsigned)ntohs(here.sin_port));
    return fd;
}

void link_group_open(link_group *group, const feddc_link_vtable *link, uint32_t size) {
    assert_true(size >= 1 && size <= LINK_GROUP_RANKS);
    *group = (link_group){.size = size};
    bool tcp = strcmp(link->name, "tcp") == 0;
    group->hub = feddc_hub_new(size);
    assert_non_null(group->hub);
    for (size_t k = 0; k < sizeof group->secret; k++) {
        group->secret[k] = (uint8_t)(k * 37 + 1);
    }
    for (uint32_t r = 0; r < size; r++) {
        group->addresses[r] = group->address[r];
        group->place[r] = (feddc_place){.rank = r,
                                        .size = size,
                                        .hub = group->hub,
                                        .address = group->addresses,
                                        .listener = tcp ? listen_somewhere(group->address[r]) : -1,
                                        .secret = group->secret,
                                        .patience_ms = 20000};
    }
}

void link_group_close(link_group *group) {
    feddc_hub_free(group->hub);
    group->hub = NULL;
}

unsigned link_group_connections(const char *address) {
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
    void (*part)(void *entry);
    void *entry;
} turn;

static void *take_turn(void *arg) {
    const turn *t = arg;
    t->part(t->entry);
    return NULL;
}

void link_group_run(uint32_t size, void (*part)(void *entry), void *entries, size_t each) {
    pthread_t thread[LINK_GROUP_RANKS];
    turn turns[LINK_GROUP_RANKS];
    for (uint32_t r = 0; r < size; r++) {
        turns[r] = (turn){part, (char *)entries + r * each};
        assert_int_equal(pthread_create(&thread[r], NULL, take_turn, &turns[r]), 0);
    }
    for (uint32_t r = 0; r < size; r++) {
        pthread_join(thread[r], NULL);
    }
}
