/* Connecting to a PostgreSQL that is still starting. The test is the server. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fedserver/stores/postgres/pg_database.h"

/* A try is two connections: its own, and one that asks whether the server starts. */
enum { STARTING = 2 * 2, CONNECTIONS_MOST = 20 };

typedef struct server {
    int fd;
    atomic_int connections;
    pthread_t thread;
} server;

/* Write a server's answer to a connection that it does not take: ErrorResponse, the length of what
 * follows, and fields. The severity is told twice: in the user's language, and in English. */
static size_t write_refusal(uint8_t dst[128], const char *code, const char *message) {
    const int fields =
        snprintf((char *)dst + 5, 120, "SFATAL%cVFATAL%cC%s%cM%s%c", 0, 0, code, 0, message, 0) + 1;
    memcpy(dst, (const uint8_t[]){'E', 0, 0, 0, (uint8_t)(4 + fields)}, 5);
    return 5 + (size_t)fields;
}

/* Refuse connections: the first ones because the server starts, all later ones for good. */
static void *refuse(void *arg) {
    server *s = arg;
    for (int k = 0, fd; k < CONNECTIONS_MOST && (fd = accept(s->fd, NULL, NULL)) >= 0; k++) {
        uint8_t startup[512], refusal[128];
        const size_t len =
            k < STARTING ? write_refusal(refusal, "57P03", "the database system is starting up")
                         : write_refusal(refusal, "28000", "the role does not exist");
        (void)!recv(fd, startup, sizeof startup, 0);
        (void)!send(fd, refusal, len, MSG_NOSIGNAL);
        atomic_fetch_add(&s->connections, 1);
        close(fd);
    }
    return NULL;
}

FED_TEST(a_server_that_starts_is_asked_again) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    server s = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(s.fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s.fd, 8), 0);
    assert_int_equal(getsockname(s.fd, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(pthread_create(&s.thread, NULL, refuse, &s), 0);
    char where[160];
    snprintf(where, sizeof where,
             "host=127.0.0.1 port=%u user=nobody dbname=none sslmode=disable gssencmode=disable",
             ntohs(address.sin_port));
    fedserver_pg *db = NULL;
    fed_error err = {0};
    assert_fed_status(fedserver_pg_connect(where, &db, &err), FED_EIO);
    assert_non_null(strstr(err.text, "does not exist"));
    assert_true(atomic_load(&s.connections) > STARTING);
    (void)shutdown(s.fd, SHUT_RDWR);
    pthread_join(s.thread, NULL);
    close(s.fd);
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
