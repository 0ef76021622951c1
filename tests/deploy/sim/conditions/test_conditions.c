/* Specs of links, speeds and presence, and what is drawn from them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "deploy/sim/conditions/network.h"
#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/conditions/speed.h"
#include "deploy/sim/scenario/options.h"
#include "fed_cases.h"

enum { CLIENTS = 2000 };
static const int64_t S = 1000000, HOUR = 3600 * (int64_t)1000000;

FED_TEST(lines_of_a_mixture_may_begin_with_a_digit) {
    sim_network network;
    fed_error err = {0};
    assert_fed_ok_err(sim_network_parse("lte+3g:0.7+4g:0.3+wifi", &network, &err));
    assert_int_equal(network.count, 4);
    assert_true(network.share[2] == 0.3);
}

FED_TEST(a_mixture_gives_each_line_its_share) {
    sim_network network;
    fed_error err = {0};
    assert_fed_ok_err(
        sim_network_parse("3g:0.25+up=1e+6,down=2e6,latency=0.05:0.75", &network, &err));
    uint32_t slow = 0;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        slow += sim_network_draw(&network, 1, k).latency_s > 0.1 ? 1U : 0U;
    }
    assert_in_range(slow, CLIENTS / 5, CLIENTS * 3 / 10);
}

FED_TEST(bytes_take_half_a_round_trip_and_their_time) {
    const sim_link link = {.up_bps = 1e6, .down_bps = 8e6, .latency_s = 0.1};
    assert_int_equal(sim_link_up_us(&link, 125000), 1050000);
    assert_int_equal(sim_link_down_us(&link, 125000), 175000);
    assert_int_equal(sim_link_connect_us(&link), 200000);
    const sim_link lan = {0};
    assert_int_equal(sim_link_up_us(&lan, 125000), 0);
}

FED_TEST(speeds_spread_about_their_median) {
    sim_speed speed;
    fed_error err = {0};
    assert_fed_ok_err(sim_speed_parse("sample_s=0.01,spread=0.5", &speed, &err));
    uint32_t slower = 0, much = 0;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        sim_speed own = sim_speed_draw(&speed, 3, k);
        slower += own.sample_s > 0.01 ? 1U : 0U;
        much += own.sample_s > 0.01 * exp(0.5) ? 1U : 0U; /* above one standard deviation: 15.9 % */
    }
    assert_in_range(slower, CLIENTS * 45 / 100, CLIENTS * 55 / 100);
    assert_in_range(much, CLIENTS * 12 / 100, CLIENTS * 20 / 100);
    assert_fed_ok_err(sim_speed_parse(NULL, &speed, &err));
    assert_int_equal(sim_speed_us(&speed, 1000), 0);
}

static sim_presence parse(const char *spec) {
    sim_presence presence;
    fed_error err = {0};
    assert_fed_ok_err(sim_presence_parse(spec, CLIENTS, &presence, &err));
    return presence;
}

static double present(const sim_presence *presence, int64_t us) {
    uint32_t there = 0;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        sim_attendance a;
        sim_attendance_open(&a, presence, 7, k);
        there += sim_attendance_until(&a, us) > us ? 1U : 0U;
    }
    return (double)there / CLIENTS;
}

static void assert_about(double value, double wanted) {
    assert_true(fabs(value - wanted) < 0.04);
}

FED_TEST(an_on_and_off_process_is_in_its_steady_state_at_any_time) {
    sim_presence presence = parse("charging:on=100,off=300");
    assert_about(present(&presence, 0), 0.25);
    assert_about(present(&presence, 1000 * S), 0.25);
    sim_presence_free(&presence);
}

FED_TEST(each_has_its_own_hours_of_the_day) {
    sim_presence presence = parse("day:hours=6");
    assert_about(present(&presence, 0), 0.25);
    assert_about(present(&presence, 100 * HOUR), 0.25);
    sim_attendance a;
    sim_attendance_open(&a, &presence, 7, 0);
    int64_t begin = sim_attendance_from(&a, 30 * HOUR);
    begin = begin == 30 * HOUR ? sim_attendance_from(&a, sim_attendance_until(&a, begin)) : begin;
    int64_t end = sim_attendance_until(&a, begin);
    assert_true(end - begin == 6 * HOUR);
    assert_true(sim_attendance_from(&a, end) == begin + 24 * HOUR);
    sim_presence_free(&presence);
}

FED_TEST(joined_conditions_must_all_hold) {
    sim_presence presence = parse("charging:on=100,off=100+wifi:on=100,off=100");
    assert_about(present(&presence, 5000 * S), 0.25);
    for (uint32_t k = 0; k < 50; k++) {
        sim_attendance a;
        sim_attendance_open(&a, &presence, 7, k);
        int64_t t = 0;
        for (int i = 0; i < 50; i++) {
            int64_t from = sim_attendance_from(&a, t);
            int64_t until = sim_attendance_until(&a, from);
            assert_true(t <= from && from < until);
            assert_true(sim_attendance_until(&a, until) == until);
            t = until;
        }
    }
    sim_presence_free(&presence);
}

static void assert_refused(const char *path, const char *spec, const char *text,
                           const char *words) {
    sim_presence presence;
    fed_error err = {0};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(sim_presence_parse(spec, CLIENTS, &presence, &err), FED_EFORMAT);
    assert_non_null(strstr(err.text, words));
    sim_presence_free(&presence);
}

FED_TEST(a_trace_says_it_line_by_line) {
    char directory[256], path[300], spec[320];
    fed_test_tmpdir(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/trace.csv", directory);
    snprintf(spec, sizeof spec, "trace:%s", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("client,from_s,to_s\n1,5,6.5\n0,0,10\n1,20,30\n", file);
    assert_int_equal(fclose(file), 0);
    sim_presence presence = parse(spec);
    sim_attendance a;
    sim_attendance_open(&a, &presence, 7, 1);
    assert_int_equal(sim_attendance_from(&a, 0), 5 * S);
    assert_int_equal(sim_attendance_until(&a, 6 * S), 6500000);
    assert_int_equal(sim_attendance_from(&a, 7 * S), 20 * S);
    assert_true(sim_attendance_from(&a, 30 * S) == SIM_NEVER);
    sim_attendance_open(&a, &presence, 7, 2);
    assert_true(sim_attendance_from(&a, 0) == SIM_NEVER);
    sim_presence_free(&presence);

    assert_refused(path, spec, "1,5,6\n1,5.5,7\n", "trace.csv:2:");
    assert_refused(path, spec, "1, ,7\n", "three numbers");
    assert_refused(path, spec, "1,5,7,8\n", "three numbers");
    assert_refused(path, spec, "1,7,5\n", "less than to_s");
    assert_refused(path, spec, "2000,1,5\n", "numbered from 0");
    fed_test_rmdir(directory);
}

#define OPTIONS .clients = 4, .threads = 1

FED_TEST(options_that_make_no_sense_are_refused_in_words) {
    static const struct {
        sim_options options;
        fed_status status;
        const char *words;
    } cases[] = {
        {{OPTIONS, .evaluate_every = 1}, FED_OK, ""},
        {{OPTIONS, .evaluate_every = 1, .line = "5g"}, FED_EINVAL, "unknown link \"5g\""},
        {{OPTIONS, .evaluate_every = 1, .line = "3g:x"}, FED_EINVAL, ""},
        {{OPTIONS, .evaluate_every = 1, .speed = "spread=9"}, FED_EINVAL, ""},
        {{OPTIONS, .evaluate_every = 1, .presence = "always+moon"}, FED_EINVAL, ""},
        {{OPTIONS, .evaluate_every = 1, .presence = "trace:/nowhere"}, FED_ENOTFOUND, ""},
        {{OPTIONS, .evaluate_every = 1, .transport = SIM_HTTPS, .line = "3g"}, FED_EINVAL, ""},
        {{OPTIONS, .evaluate_every = 1, .resume = true}, FED_EINVAL, ""},
        {{OPTIONS, .evaluate_every = 0}, FED_OK, ""},
        {{OPTIONS, .device = "bfloat16"}, FED_OK, ""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fed_error err = {0};
        assert_int_equal(sim_options_check(&cases[k].options, &err), cases[k].status);
        assert_non_null(strstr(err.text, cases[k].words));
    }
}
