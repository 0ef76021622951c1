/* Marked and unmarked connections of real kernels, between two hosts with fednic. Skipped without
 * network namespaces. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* NOLINT: setns */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/rng.h"
#include "fed_test.h"
#include "fedclient/datacenter/nic/packet/packet_nic.h"
#include "fedcodec/bursts.h"

enum { SKIPPED = 77, PORT = 5000, FLOATS = 1 << 19, BYTES = 4 * FLOATS, LIMIT_S = 30, E = 10 };

static char lab[32];

static int nic(const char *options, const char *words) {
    char command[400];
    (void)snprintf(command, sizeof command,
                   "NIC_LAB=%s NIC_OPTIONS=%s FED_BIN=%s timeout -k 5 60 %s/deploy/nic.sh %s", lab,
                   options, FED_BIN_DIR, FED_SOURCE_DIR, words);
    return system(command); /* NOLINT: the command holds only our own text */
}

static void inside(unsigned host) {
    char path[100];
    (void)snprintf(path, sizeof path, "/run/netns/%s-h%u", lab, host);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(setns(fd, CLONE_NEWNET), 0);
    close(fd);
}

static uint64_t metric(unsigned host, const char *name) {
    char words[100];
    char command[400];
    char line[400];
    uint64_t value = UINT64_MAX;
    (void)snprintf(words, sizeof words, "stats %u --prometheus", host);
    (void)snprintf(command, sizeof command, "NIC_LAB=%s FED_BIN=%s %s/deploy/nic.sh %s", lab,
                   FED_BIN_DIR, FED_SOURCE_DIR, words);
    FILE *out = popen(command, "r"); /* NOLINT: only our own text */
    assert_non_null(out);
    while (fgets(line, sizeof line, out) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtoull(line + strlen(name), NULL, 10);
        }
    }
    assert_int_equal(pclose(out), 0);
    return value;
}

static uint64_t coded_frames(unsigned host, const char *side) {
    char name[100];
    (void)snprintf(name, sizeof name, "fednic_coded_frames_total{tun=\"nic0\",side=\"%s\"}", side);
    return metric(host, name);
}

typedef struct wanted {
    int family;
    bool marked;
    bool unmarked_answer;
} wanted;

typedef struct board {
    _Atomic uint64_t received;
    _Atomic bool listens, failed;
    uint8_t bytes[2 * BYTES];
} board;

static socklen_t address_of(int family, unsigned host, struct sockaddr_storage *at) {
    memset(at, 0, sizeof *at);
    if (family == AF_INET) {
        struct sockaddr_in *four = (struct sockaddr_in *)at;
        *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(PORT)};
        four->sin_addr.s_addr = htonl(0x0a4e0000U + host);
        return sizeof *four;
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)at;
    *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    six->sin6_addr.s6_addr[0] = 0xfd;
    six->sin6_addr.s6_addr[1] = 0x78;
    six->sin6_addr.s6_addr[15] = (uint8_t)host;
    return sizeof *six;
}

static int socket_of(const wanted *w, int type) {
    const int one = 1;
    const int tos = w->marked ? FEDNIC_MARKED : 0;
    const struct timeval limit = {.tv_sec = LIMIT_S};
    const int fd = socket(w->family, type | SOCK_CLOEXEC, 0);
    const bool good =
        fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
        (w->family == AF_INET ? setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos)
                              : setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof tos)) == 0;
    assert_true(good);
    return fd;
}

/* Act as host 2, in a process of its own: accept one connection, and store the received bytes. */
static void receive(const wanted *w, board *b) {
    struct sockaddr_storage at;
    (void)alarm(2 * LIMIT_S);
    inside(2);
    const int listener = socket_of(
        &(wanted){.family = w->family, .marked = w->marked && !w->unmarked_answer}, SOCK_STREAM);
    const socklen_t len = address_of(w->family, 2, &at);
    b->failed = bind(listener, (struct sockaddr *)&at, len) != 0 || listen(listener, 1) != 0;
    b->listens = true;
    const int fd = accept(listener, NULL, NULL);
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && b->received < sizeof b->bytes) {
        got = read(fd, b->bytes + b->received, sizeof b->bytes - b->received);
        b->received += got > 0 ? (uint64_t)got : 0;
    }
    b->failed = b->failed || got < 0;
    _exit(0);
}

typedef struct connection {
    board *board;
    pid_t receiver;
    int fd;
} connection;

static void await(const board *b, uint64_t bytes) {
    for (int k = 0; k < LIMIT_S * 1000 && b->received < bytes && !b->failed; k++) {
        fed_sleep_ms(1);
    }
    assert_false(b->failed);
    assert_int_equal(b->received, bytes);
}

static connection open_connection(wanted w) {
    connection c = {.fd = -1};
    struct sockaddr_storage at;
    c.board =
        mmap(NULL, sizeof *c.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c.board != MAP_FAILED);
    c.receiver = fork();
    if (c.receiver == 0) {
        receive(&w, c.board);
    }
    for (int k = 0; k < 5000 && !c.board->listens; k++) {
        fed_sleep_ms(1);
    }
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    inside(1);
    c.fd = socket_of(&w, SOCK_STREAM);
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    close(home);
    const socklen_t len = address_of(w.family, 2, &at);
    assert_int_equal(connect(c.fd, (struct sockaddr *)&at, len), 0);
    return c;
}

static void put(const connection *c, const void *data, size_t len) {
    for (size_t sent = 0; sent < len;) {
        const ssize_t now = send(c->fd, (const uint8_t *)data + sent, len - sent, MSG_NOSIGNAL);
        if (now <= 0) {
            fail_msg("host 1 can't send: %s", strerror(errno));
        }
        sent += (size_t)now;
    }
}

static void end_connection(connection *c) {
    close(c->fd);
    (void)waitpid(c->receiver, NULL, 0);
    assert_int_equal(munmap(c->board, sizeof *c->board), 0);
}

static float values[FLOATS], rounded[FLOATS];

static void make_values(void) {
    fed_rng rng;
    fed_rng_init(&rng, 22, 0, 0);
    for (size_t k = 0; k < FLOATS; k++) {
        const float x = (float)fed_rng_below(&rng, 2000001) / 1e6F - 1;
        values[k] = k % 100 == 0 ? x * 1000 : x * x * x;
    }
    fedcodec_bursts_round(E, values, rounded, FLOATS);
    assert_memory_not_equal(values, rounded, BYTES);
}

static void a_datagram_arrives(void **state) {
    (void)state;
    const int families[] = {AF_INET, AF_INET6};
    for (int k = 0; k < 2; k++) {
        struct sockaddr_storage at;
        char got[8] = "";
        const wanted w = {.family = families[k]};
        const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        inside(2);
        const int to = socket_of(&w, SOCK_DGRAM);
        const socklen_t len = address_of(w.family, 2, &at);
        assert_int_equal(bind(to, (struct sockaddr *)&at, len), 0);
        inside(1);
        const int from = socket_of(&w, SOCK_DGRAM);
        assert_int_equal(sendto(from, "hello", 5, 0, (struct sockaddr *)&at, len), 5);
        assert_int_equal(recv(to, got, sizeof got, 0), 5);
        assert_string_equal(got, "hello");
        assert_int_equal(setns(home, CLONE_NEWNET), 0);
        close(home);
        close(from);
        close(to);
    }
}

static void an_unmarked_connection_is_untouched(void **state) {
    (void)state;
    const uint64_t before = coded_frames(1, "sent");
    const int families[] = {AF_INET, AF_INET6};
    for (int k = 0; k < 2; k++) {
        connection c = open_connection((wanted){.family = families[k]});
        put(&c, values, BYTES);
        await(c.board, BYTES);
        assert_memory_equal(c.board->bytes, values, BYTES);
        end_connection(&c);
    }
    assert_int_equal(coded_frames(1, "sent"), before);
}

static void a_marked_connection_is_rounded(void **state) {
    (void)state;
    const int families[] = {AF_INET, AF_INET6};
    for (int k = 0; k < 2; k++) {
        const uint64_t sent = coded_frames(1, "sent");
        const uint64_t restored = coded_frames(2, "received");
        connection c = open_connection((wanted){.family = families[k], .marked = true});
        put(&c, values, BYTES);
        await(c.board, BYTES);
        assert_memory_equal(c.board->bytes, rounded, BYTES);
        end_connection(&c);
        assert_true(coded_frames(1, "sent") > sent);
        assert_true(coded_frames(2, "received") > restored);
    }
}

static void the_answer_need_not_be_marked(void **state) {
    (void)state;
    const int families[] = {AF_INET, AF_INET6};
    for (int k = 0; k < 2; k++) {
        connection c = open_connection(
            (wanted){.family = families[k], .marked = true, .unmarked_answer = true});
        put(&c, values, BYTES);
        await(c.board, BYTES);
        assert_memory_equal(c.board->bytes, rounded, BYTES);
        end_connection(&c);
    }
}

/* With --bypass, the NIC sends at most two frames of an unmarked connection. */
static void the_kernel_forwards_unmarked_frames(void **state) {
    (void)state;
    static const char sent[] = "fednic_frames_total{tun=\"nic0\",side=\"sent\"}";
    const uint64_t before = metric(1, sent);
    connection c = open_connection((wanted){.family = AF_INET});
    put(&c, values, BYTES);
    await(c.board, BYTES);
    assert_memory_equal(c.board->bytes, values, BYTES);
    end_connection(&c);
    assert_true(metric(1, sent) <= before + 2);
}

static int tap_socket(void) {
    const struct sockaddr_ll at = {.sll_family = AF_PACKET,
                                   .sll_protocol = htons(ETH_P_ALL),
                                   .sll_ifindex = (int)if_nametoindex("nic0")};
    const struct timeval limit = {.tv_sec = LIMIT_S};
    const int one = 1;
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof one), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Wait for a frame of EtherType 0x88b5, which must have this VLAN tag. */
static void await_tag(int fd, uint16_t wanted_tag) {
    for (int k = 0; k < 1000; k++) {
        uint8_t frame[100];
        _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
        struct iovec part = {frame, sizeof frame};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        struct tpacket_auxdata more;
        const ssize_t got = recvmsg(fd, &message, 0);
        assert_true(got > 0);
        if (got >= 60 && frame[12] == 0x88 && frame[13] == 0xb5) {
            memcpy(&more, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof more);
            assert_true((more.tp_status & TP_STATUS_VLAN_VALID) != 0);
            assert_int_equal(more.tp_vlan_tci, wanted_tag);
            return;
        }
    }
    fail_msg("no frame of the test's protocol arrived");
}

static void a_vlan_keeps_its_tag(void **state) {
    (void)state;
    uint8_t frame[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,   0,    0,
                         0,    0,    9,    0x81, 0,    0,    100, 0x88, 0xb5};
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    inside(2);
    const int to = tap_socket();
    inside(1);
    const int from = tap_socket();
    assert_int_equal(send(from, frame, sizeof frame, 0), sizeof frame);
    await_tag(to, 100);
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    close(home);
    close(from);
    close(to);
}

/* The new NIC has not seen the connection's SYN, so it sends the data uncompressed. */
static void a_nic_is_killed_and_started_again(void **state) {
    (void)state;
    const int families[] = {AF_INET, AF_INET6};
    for (int k = 0; k < 2; k++) {
        connection c = open_connection((wanted){.family = families[k], .marked = true});
        put(&c, values, BYTES);
        await(c.board, BYTES);
        assert_int_equal(nic("", "kill 1"), 0);
        put(&c, values, BYTES / 8);
        assert_int_equal(nic("", "start 1"), 0);
        put(&c, (const uint8_t *)values + BYTES / 8, BYTES - BYTES / 8);
        await(c.board, 2 * BYTES);
        assert_memory_equal(c.board->bytes, rounded, BYTES);
        assert_memory_equal(c.board->bytes + BYTES, values, BYTES);
        assert_int_equal(coded_frames(1, "sent"), 0);
        end_connection(&c);
    }
}

static void the_line_goes_down_and_up(void **state) {
    (void)state;
    connection c = open_connection((wanted){.family = AF_INET, .marked = true});
    put(&c, values, BYTES / 2);
    await(c.board, BYTES / 2);
    assert_int_equal(nic("", "in 1 ip link set eth0 down"), 0);
    put(&c, (const uint8_t *)values + BYTES / 2, 40000);
    fed_sleep_ms(100);
    assert_int_equal(nic("", "in 1 ip link set eth0 up"), 0);
    put(&c, (const uint8_t *)values + BYTES / 2 + 40000, BYTES / 2 - 40000);
    await(c.board, BYTES);
    assert_memory_equal(c.board->bytes, rounded, BYTES);
    end_connection(&c);
}

/* Host 2's answer to the SYN lacks the NICs' TCP option, so nothing is compressed. */
static void the_far_end_has_no_nic(void **state) {
    (void)state;
    assert_int_equal(nic("", "kill 2"), 0);
    assert_int_equal(nic("", "in 2 ip link delete nic0"), 0);
    assert_int_equal(nic("", "in 2 ip address add 10.78.0.2/24 dev eth0"), 0);
    assert_int_equal(nic("", "in 2 ip address add fd78::2/64 dev eth0 nodad"), 0);
    assert_int_equal(nic("", "in 1 ip neighbour flush dev nic0"), 0);
    const int families[] = {AF_INET, AF_INET6};
    const uint64_t before = coded_frames(1, "sent");
    for (int k = 0; k < 2; k++) {
        connection c = open_connection((wanted){.family = families[k], .marked = true});
        put(&c, values, BYTES);
        await(c.board, BYTES);
        assert_memory_equal(c.board->bytes, values, BYTES);
        end_connection(&c);
    }
    assert_int_equal(coded_frames(1, "sent"), before);
}

static void what_fednic_says_when_it_cannot(void **state) {
    (void)state;
    static const struct {
        const char *words, *says;
        int code;
    } cases[] = {{"--wire nowhere", "there is no interface nowhere", 1},
                 {"--wire lo", "lo is no Ethernet interface", 1},
                 {"--wire eth0 --tun eth0", "two interfaces, not both eth0", 1},
                 {"--wire eth0 --tun lo", "lo is another kind of device than a TAP", 1},
                 {"--wire eth0 --tun nic0 --control /nowhere", "nic0 is in use", 1},
                 {"--bound 3", "--bound is a power of two", 2},
                 {"--stats --control /nowhere", "no fednic answers at /nowhere", 1}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char out[1000];
        const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        inside(1);
        const int code = fed_test_run("/", "fednic", cases[k].words, out, sizeof out);
        assert_int_equal(setns(home, CLONE_NEWNET), 0);
        close(home);
        if (code != cases[k].code || strstr(out, cases[k].says) == NULL) {
            fail_msg("fednic %s ended with %d: %s", cases[k].words, code, out);
        }
    }
}

static void down(void) {
    (void)nic("", "down");
}

static int two_hosts(void **state) {
    (void)state;
    down();
    return nic("", "up 2 none nic");
}

static int two_hosts_bypassed(void **state) {
    (void)state;
    down();
    return nic("--bypass", "up 2 none nic");
}

static int all_groups(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_datagram_arrives),
        cmocka_unit_test(a_vlan_keeps_its_tag),
        cmocka_unit_test(an_unmarked_connection_is_untouched),
        cmocka_unit_test(a_marked_connection_is_rounded),
        cmocka_unit_test(the_answer_need_not_be_marked),
        cmocka_unit_test(what_fednic_says_when_it_cannot),
        cmocka_unit_test(the_line_goes_down_and_up),
        cmocka_unit_test(a_nic_is_killed_and_started_again),
        cmocka_unit_test(the_far_end_has_no_nic),
    };
    const struct CMUnitTest bypassed[] = {
        cmocka_unit_test(a_datagram_arrives),
        cmocka_unit_test(a_vlan_keeps_its_tag),
        cmocka_unit_test(an_unmarked_connection_is_untouched),
        cmocka_unit_test(the_kernel_forwards_unmarked_frames),
        cmocka_unit_test(a_marked_connection_is_rounded),
        cmocka_unit_test(the_answer_need_not_be_marked),
    };
    make_values();
    const int failed = cmocka_run_group_tests(tests, two_hosts, NULL);
    return failed + cmocka_run_group_tests(bypassed, two_hosts_bypassed, NULL);
}

/* A child process runs the tests, so that the parent can always remove the namespaces. */
int main(void) {
    int how = 0;
    if (geteuid() != 0 || access("/dev/net/tun", R_OK | W_OK) != 0 ||
        system("ip netns list >/dev/null 2>&1 && tc -V >/dev/null 2>&1") != 0) { /* NOLINT */
        fputs("skipped: it needs root, /dev/net/tun, ip and tc\n", stderr);
        return SKIPPED;
    }
    (void)snprintf(lab, sizeof lab, "t%d", (int)getpid());
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGTERM, SIG_DFL);
        (void)signal(SIGINT, SIG_DFL);
        (void)alarm(300);
        return all_groups();
    }
    if (child < 0 || waitpid(child, &how, 0) != child) {
        return EXIT_FAILURE;
    }
    down();
    return WIFEXITED(how) ? WEXITSTATUS(how) : EXIT_FAILURE;
}
