/* Two hosts with offload NICs, and a line that loses, repeats and damages frames. The data must
 * arrive complete. Skipped without network namespaces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fed_test.h"
#include "ip_tos.h"
#include "nic_streams.h"

enum { SKIPPED = 77, STALL_MS = 30000, MB = 1 << 20, MANY = 8, ODD_MSS = 1347, SMALL_ROOM = 9000 };

static void make_plans(nic_stream_plan *plans, size_t bytes) {
    for (size_t k = 0; k < MANY; k++) {
        plans[k] = (nic_stream_plan){
            .six = k % 2 != 0, .from = k / 2 % 2 != 0, .marked = k < 5, .bytes = bytes};
    }
}

static void set_chances(nic_world *w, const unsigned *chance) {
    for (int k = 0; k < BAD_KINDS; k++) {
        atomic_store(&w->rates.chance[k], chance[k]);
    }
}

static uint64_t all_of(const nic_tally *t) {
    return t->rounded + t->same + t->raw + t->mixed;
}

static void say(const char *what, const nic_tally *t) {
    print_message("%s: floats: %llu rounded, %llu the same, %llu raw, %llu mixed\n", what,
                  (unsigned long long)t->rounded, (unsigned long long)t->same,
                  (unsigned long long)t->raw, (unsigned long long)t->mixed);
}

/* Most floats must have been rounded. A float that a segment's border splits may not be. */
static void assert_compressed(const char *what, const nic_tally *t) {
    say(what, t);
    assert_true(t->raw + t->mixed < all_of(t) / 50);
}

static void run(nic_world *w, const char *what, const nic_stream_plan *plans) {
    nic_tally t = nic_streams_run(w, what, plans, MANY, STALL_MS, NULL);
    assert_compressed(what, &t);
}

static uint64_t carried(const nic_world *w) {
    return w->line.way[0].counts.in_bytes + w->line.way[1].counts.in_bytes;
}

static void a_good_line_rounds_each_float(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    make_plans(plans, 2 * MB);
    uint64_t before = carried(w);
    nic_tally t = nic_streams_run(w, "good line", plans, 5, STALL_MS, NULL);
    say("good line", &t);
    assert_int_equal(all_of(&t), 5 * 2 * (2 * MB) / 4);
    assert_int_equal(t.raw + t.mixed, 0);
    uint64_t bytes = carried(w) - before;
    print_message("on the line %llu bytes for %d\n", (unsigned long long)bytes, 20 * MB);
    assert_true(bytes < 10 * MB);
}

/* Compressed segments must have complete checksums, because Linux would accept a partial checksum
 * unchecked. */
static void compressed_segments_have_their_whole_checksum(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    static uint8_t room[BAD_FRAME];
    int ends[NIC_HOSTS];
    size_t compressed = 0;
    make_plans(plans, MB / 8);
    nic_world_line_sockets(w, ends);
    (void)nic_streams_run(w, "checksums", plans, 5, STALL_MS, NULL);
    for (int k = 0; k < NIC_HOSTS; k++) {
        bad_frame f = {.data = room};
        while (bad_line_read(ends[k], &f)) {
            bad_parts p = bad_frame_parts(&f);
            const uint8_t *ip = room + p.ip;
            if (p.tcp && (ip_tos(ip) & 0xfc) == 0x2c) {
                assert_int_equal(f.offload.flags, 0);
                assert_false(bad_frame_whole(&f, &p));
                compressed++;
            }
        }
        close(ends[k]);
    }
    assert_true(compressed > 100);
}

typedef struct weather {
    const char *what;
    unsigned chance[BAD_KINDS];
    bool packets;
} weather;

static const weather weathers[] = {
    {"losses", {[BAD_DROP] = 10000}, true},
    {"losses of segments of many", {[BAD_DROP] = 10000}, false},
    {"duplicates", {[BAD_DUPLICATE] = 100000}, true},
    {"reordered", {[BAD_REORDER] = 30000}, true},
    {"delayed", {[BAD_DELAY] = 10000}, true},
    {"wrong bits", {[BAD_FLIP] = 5000}, true},
    {"truncated and padded", {[BAD_TRUNCATE] = 5000, [BAD_PAD] = 100000}, true},
    {"cut anew", {[BAD_CUT] = 200000, [BAD_DROP] = 5000}, true},
    {"all at once",
     {[BAD_CUT] = 50000,
      [BAD_DROP] = 5000,
      [BAD_BLEACH] = 100000,
      [BAD_CONGEST] = 100000,
      [BAD_FLIP] = 1000,
      [BAD_TRUNCATE] = 1000,
      [BAD_PAD] = 10000,
      [BAD_DUPLICATE] = 10000,
      [BAD_REORDER] = 10000,
      [BAD_DELAY] = 3000},
     true},
};

static void a_bad_line_changes_no_byte(void **state) {
    nic_world *w = *state;
    for (size_t k = 0; k < sizeof weathers / sizeof weathers[0]; k += FED_TEST_TRIES(1, 2)) {
        nic_stream_plan plans[MANY];
        make_plans(plans, MB / 2);
        set_chances(w, weathers[k].chance);
        atomic_store(&w->rates.packets, weathers[k].packets);
        atomic_store(&w->rates.least, 100);
        run(w, weathers[k].what, plans);
        nic_world_calm(w);
    }
}

static void turn_dscp_off(nic_world *w) {
    atomic_store(&w->rates.tos, 0);
    atomic_store(&w->rates.chance[BAD_BLEACH], BAD_SURE);
}

static void turn_dscp_into_the_nics(nic_world *w) {
    atomic_store(&w->rates.tos, 0x2c);
    atomic_store(&w->rates.chance[BAD_BLEACH], BAD_SURE);
}

static void turn_dscp_into_the_mark(nic_world *w) {
    atomic_store(&w->rates.tos, 0x28);
    atomic_store(&w->rates.chance[BAD_BLEACH], BAD_SURE);
}

static void routers_may_change_the_dscp(void **state) {
    nic_world *w = *state;
    void (*const changes[])(nic_world *) = {turn_dscp_off, turn_dscp_into_the_nics,
                                            turn_dscp_into_the_mark};
    for (size_t k = 0; k < 3; k++) {
        nic_stream_plan plans[MANY];
        make_plans(plans, MB);
        plans[6].tos = 0x2c;
        atomic_store(&w->rates.packets, k != 1);
        nic_tally t = nic_streams_run(w, "DSCP changed midway", plans, MANY, STALL_MS, changes[k]);
        assert_compressed("DSCP changed midway", &t);
        t = nic_streams_run(w, "DSCP changed", plans, MANY, STALL_MS, NULL);
        say("DSCP changed", &t);
        nic_world_calm(w);
    }
}

static void set_mtu(nic_world *w, int mtu) {
    char command[100];
    (void)snprintf(command, sizeof command, "ip link set nic0 mtu %d", mtu);
    for (int k = 0; k < NIC_HOSTS; k++) {
        nic_world_shell(w, k, command);
    }
}

static void shrink(nic_world *w) {
    set_mtu(w, 1300);
}

static void grow(nic_world *w) {
    set_mtu(w, 1500);
}

static void the_mtu_may_change(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    make_plans(plans, MB);
    atomic_store(&w->rates.chance[BAD_DROP], 1000);
    nic_tally t = nic_streams_run(w, "smaller MTU", plans, MANY, STALL_MS, shrink);
    assert_compressed("smaller MTU", &t);
    t = nic_streams_run(w, "larger MTU", plans, MANY, STALL_MS, grow);
    assert_compressed("larger MTU", &t);
}

static void both(nic_world *w, const char *command) {
    for (int k = 0; k < NIC_HOSTS; k++) {
        nic_world_shell(w, k, command);
    }
}

static void kernels_may_be_set_otherwise(void **state) {
    nic_world *w = *state;
    static const char *const settings[] = {
        "net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_sack=0",           "net.ipv4.tcp_ecn=1",
        "net.ipv4.tcp_fastopen=3",   "net.ipv4.tcp_window_scaling=0",
    };
    static const char *const back[] = {
        "net.ipv4.tcp_timestamps=1", "net.ipv4.tcp_sack=1",           "net.ipv4.tcp_ecn=2",
        "net.ipv4.tcp_fastopen=1",   "net.ipv4.tcp_window_scaling=1",
    };
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++) {
        char command[100];
        nic_stream_plan plans[MANY];
        make_plans(plans, MB / 2);
        for (size_t i = 0; i < MANY; i++) {
            plans[i].fast_open = k == 3;
        }
        (void)snprintf(command, sizeof command, "sysctl -qw %s", settings[k]);
        both(w, command);
        set_chances(w, (const unsigned[BAD_KINDS]){[BAD_DROP] = 2000, [BAD_CONGEST] = 5000});
        atomic_store(&w->rates.packets, k % 2 != 0);
        run(w, settings[k], plans);
        run(w, settings[k], plans); /* Fast Open needs the cookie of an earlier connection */
        nic_world_calm(w);
        (void)snprintf(command, sizeof command, "sysctl -qw %s", back[k]);
        both(w, command);
    }
}

static void segments_may_have_any_size(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    make_plans(plans, MB / 2);
    for (size_t k = 0; k < MANY; k++) {
        plans[k].mss = ODD_MSS;
        plans[k].odd = k % 2 != 0;
    }
    set_chances(w, (const unsigned[BAD_KINDS]){[BAD_DROP] = 5000});
    run(w, "odd segments", plans);
    for (size_t k = 0; k < MANY; k++) {
        plans[k].mss = 0;
        plans[k].room = SMALL_ROOM;
        plans[k].bytes = MB / 8;
    }
    run(w, "small windows", plans);
    for (size_t k = 0; k < MANY; k++) {
        plans[k].mss = 90 + (int)k;
        plans[k].room = 0;
        plans[k].odd = false;
    }
    nic_tally t = nic_streams_run(w, "tiny segments", plans, MANY, STALL_MS, NULL);
    say("tiny segments", &t);
    nic_world_calm(w);
}

static void tiny_segments_overrun_no_queue(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    make_plans(plans, 4 * MB);
    for (size_t k = 0; k < MANY; k++) {
        plans[k].mss = 88;
    }
    (void)nic_streams_run(w, "tiny segments", plans, 4, STALL_MS, NULL);
    for (int k = 0; k < NIC_HOSTS; k++) {
        char text[4000];
        nic_world_stats(w, k, text, sizeof text);
        assert_non_null(strstr(text, "lost: 0 by the line, 0 by this program"));
    }
}

static void ports_may_be_used_again(void **state) {
    nic_world *w = *state;
    for (unsigned k = 0; k < 6; k++) {
        nic_stream_plan plans[2] = {
            {.marked = k % 2 == 0, .port = 45000, .bytes = 100000},
            {.marked = k % 3 == 0, .port = 45001, .six = true, .from = 1, .bytes = 100000}};
        (void)nic_streams_run(w, "ports again", plans, 2, STALL_MS, NULL);
    }
}

static void send_datagrams(const nic_world *w) {
    static const uint8_t data[1472];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(9)};
    int fd = nic_world_socket(w, 0, AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(inet_pton(AF_INET, "10.79.0.2", &at.sin_addr), 1);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(sendto(fd, data, sizeof data, 0, (struct sockaddr *)&at, sizeof at),
                         sizeof data);
    }
    close(fd);
}

static void a_frame_that_is_too_long_stops_no_other(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    make_plans(plans, MB / 8);
    for (size_t k = 0; k < MANY; k++) {
        plans[k].mss = 500;
    }
    nic_world_shell(w, NIC_HOSTS, "ip link set end0 mtu 1300");
    send_datagrams(w);
    nic_tally t = nic_streams_run(w, "narrow line", plans, MANY, STALL_MS, NULL);
    nic_world_shell(w, NIC_HOSTS, "ip link set end0 mtu 1600");
    assert_compressed("narrow line", &t);
}

static void restart(nic_world *w) {
    nic_world_restart_nic(w, 1);
}

/* The line clears the DSCP, so the new NIC can't recognize compressed segments. */
static void kill_and_bleach(nic_world *w) {
    turn_dscp_off(w);
    nic_world_kill_nic(w, 0);
}

static void a_nic_may_begin_anew(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    make_plans(plans, MB);
    nic_tally t = nic_streams_run(w, "new NIC", plans, MANY, STALL_MS, restart);
    say("new NIC", &t);
    for (int k = 0; k < 2; k++) {
        atomic_store(&w->rates.packets, k != 0);
        t = nic_streams_run(w, "killed NIC", plans, MANY, STALL_MS, kill_and_bleach);
        say("killed NIC", &t);
        nic_world_calm(w);
    }
    run(w, "after the new NIC", plans);
}

static int set_up(void **state) {
    static nic_world w;
    *state = &w;
    nic_world_open(&w, true, true);
    return 0;
}

static int set_up_one_nic(void **state) {
    static nic_world w;
    *state = &w;
    nic_world_open(&w, true, false);
    return 0;
}

static int tear_down(void **state) {
    nic_world_close(*state);
    return 0;
}

static void the_other_host_may_have_no_nic(void **state) {
    nic_world *w = *state;
    nic_stream_plan plans[MANY];
    make_plans(plans, MB);
    for (int k = 0; k < 2; k++) {
        set_chances(w, weathers[8].chance);
        atomic_store(&w->rates.packets, k != 0);
        nic_tally t = nic_streams_run(w, "one NIC", plans, MANY, STALL_MS, NULL);
        assert_int_equal(t.rounded + t.mixed, 0);
    }
}

int main(void) {
    const char *why = NULL;
    if (!nic_world_possible(&why)) {
        fprintf(stderr, "skipped: %s\n", why);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_line_rounds_each_float),
        cmocka_unit_test(tiny_segments_overrun_no_queue),
        cmocka_unit_test(compressed_segments_have_their_whole_checksum),
        cmocka_unit_test(a_bad_line_changes_no_byte),
        cmocka_unit_test(routers_may_change_the_dscp),
        cmocka_unit_test(the_mtu_may_change),
        cmocka_unit_test(kernels_may_be_set_otherwise),
        cmocka_unit_test(segments_may_have_any_size),
        cmocka_unit_test(ports_may_be_used_again),
        cmocka_unit_test(a_frame_that_is_too_long_stops_no_other),
        cmocka_unit_test(a_nic_may_begin_anew),
    };
    const struct CMUnitTest one_nic[] = {
        cmocka_unit_test(the_other_host_may_have_no_nic),
    };
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    return failed + cmocka_run_group_tests(one_nic, set_up_one_nic, tear_down);
}
