/* The cost models, against numbers worked out by hand from the papers' formulas. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "feddc/cost.h"

static void assert_near(double value, double wanted) {
    if (!(fabs(value - wanted) <= 1e-9 * fmax(1, fabs(wanted)))) {
        fail_msg("the cost model gives %.12g, not %.12g", value, wanted);
    }
}

static double total(const feddc_cost *cost) {
    return feddc_cost_communication(cost) + cost->codec;
}

static double exchange(feddc_cost_way way, uint32_t p, double n, const feddc_cost_line *line,
                       const feddc_cost_codec *codec) {
    const feddc_cost cost = feddc_cost_exchange(way, p, n, line, codec);
    return total(&cost);
}

/* ---- INCEPTIONN, section VIII-D ---- */

FED_TEST(star_and_ring_are_the_papers_formulas) {
    const feddc_cost_line line = {.alpha = 0.5, .beta = 3, .gamma = 7};
    /* With p = 4 and n = 10, a star takes (1 + 2) alpha + (4 + 2) n beta + 3 n gamma, and a ring
     * takes 6 alpha + 1.5 n beta + 0.75 n gamma. */
    const feddc_cost star = feddc_cost_exchange(FEDDC_COST_STAR, 4, 10, &line, NULL);
    assert_near(star.latency, 1.5);
    assert_near(star.wire, 180);
    assert_near(star.sum, 210);
    assert_near(star.codec, 0);
    const feddc_cost ring = feddc_cost_exchange(FEDDC_COST_RING, 4, 10, &line, NULL);
    assert_near(ring.latency, 3);
    assert_near(ring.wire, 45);
    assert_near(ring.sum, 52.5);
    assert_near(feddc_cost_communication(&ring), 100.5);
}

FED_TEST(star_to_ring_is_3_0_3_4_and_4_0_where_only_bytes_count) {
    const feddc_cost_line line = {.beta = 8e-8};
    const double wanted[] = {3.0, 3.4, 4.0};
    for (uint32_t p = 2; p <= 4; p++) {
        const double ratio = exchange(FEDDC_COST_STAR, p, 1e6, &line, NULL) /
                             exchange(FEDDC_COST_RING, p, 1e6, &line, NULL);
        assert_near(round(10 * ratio) / 10, wanted[p - 2]);
    }
}

FED_TEST(a_star_grows_with_the_workers_and_a_ring_hardly) {
    const feddc_cost_line line = {.beta = 8e-8, .gamma = 1e-10};
    double star = 0, ring = 0;
    for (uint32_t p = 2; p <= 1024; p *= 2) {
        const double s = exchange(FEDDC_COST_STAR, p, 1e6, &line, NULL);
        const double r = exchange(FEDDC_COST_RING, p, 1e6, &line, NULL);
        assert_true(s > star && r > ring);
        assert_true(r < 1e6 * (2 * line.beta + line.gamma)); /* a ring's limit for many workers */
        star = s;
        ring = r;
    }
}

FED_TEST(one_worker_exchanges_nothing) {
    const feddc_cost_line line = {.alpha = 1, .beta = 1, .gamma = 1, .message = 1};
    for (unsigned way = FEDDC_COST_STAR; way <= FEDDC_COST_GATHER; way++) {
        assert_near(exchange((feddc_cost_way)way, 1, 100, &line, NULL), 0);
        assert_string_not_equal(feddc_cost_way_name((feddc_cost_way)way), "?");
    }
    assert_string_equal(feddc_cost_way_name((feddc_cost_way)99), "?");
}

FED_TEST(owners_send_what_a_ring_sends_in_two_hops) {
    const feddc_cost_line line = {.alpha = 1, .beta = 2, .gamma = 3};
    const feddc_cost ring = feddc_cost_exchange(FEDDC_COST_RING, 8, 100, &line, NULL);
    const feddc_cost owners = feddc_cost_exchange(FEDDC_COST_OWNERS, 8, 100, &line, NULL);
    assert_near(owners.wire, ring.wire);
    assert_near(owners.sum, ring.sum);
    assert_near(owners.latency, 2);
    assert_near(ring.latency, 14);
    /* If all send to one machine, and receive at the same time: p n beta. If each sends to all
     * others: (p - 1) n beta. */
    assert_near(feddc_cost_exchange(FEDDC_COST_CENTRAL, 8, 100, &line, NULL).wire, 1600);
    assert_near(feddc_cost_exchange(FEDDC_COST_GATHER, 8, 100, &line, NULL).wire, 1400);
}

FED_TEST(each_message_of_each_bucket_costs_what_it_costs) {
    const feddc_cost_line line = {.message = 1, .bucket = 50};
    assert_near(exchange(FEDDC_COST_OWNERS, 8, 120, &line, NULL), 3 * 14);
    assert_near(exchange(FEDDC_COST_RING, 8, 50, &line, NULL), 14);
    assert_near(exchange(FEDDC_COST_CENTRAL, 8, 50, &line, NULL), 16);
    assert_near(exchange(FEDDC_COST_GATHER, 8, 50, &line, NULL), 7);
    assert_near(exchange(FEDDC_COST_STAR, 8, 50, &line, NULL), 11);
    const feddc_cost_line one = {.message = 1};
    assert_near(exchange(FEDDC_COST_OWNERS, 8, 120, &one, NULL), 14);
}

FED_TEST(a_codec_saves_wire_and_costs_its_own_time) {
    const feddc_cost_line line = {.beta = 1};
    const feddc_cost_codec codec = {.push = 4, .pull = 2, .encode = 0.5, .decode = 0.25};
    const feddc_cost owners = feddc_cost_exchange(FEDDC_COST_OWNERS, 4, 100, &line, &codec);
    assert_near(owners.wire, 75.0 / 4 + 75.0 / 2);
    /* A worker encodes its gradient and its quarter of the sum, and decodes four quarters and the
     * sum. */
    assert_near(owners.codec, 0.5 * (100 + 25) + 0.25 * (100 + 100));
    const feddc_cost_codec push_only = {.push = 4, .pull = 1, .encode = 0.5, .decode = 0.25};
    const feddc_cost half = feddc_cost_exchange(FEDDC_COST_OWNERS, 4, 100, &line, &push_only);
    assert_near(half.wire, 75.0 / 4 + 75.0);
    assert_near(half.codec, 0.5 * 100 + 0.25 * 100);
    /* In the paper the aggregator gets compressed gradients, and sends uncompressed weights. */
    assert_near(feddc_cost_exchange(FEDDC_COST_STAR, 4, 100, &line, &push_only).wire,
                400.0 / 4 + 200.0);
    /* Each block is encoded for each of p - 1 hops of n / p values, and once complete. */
    assert_near(feddc_cost_exchange(FEDDC_COST_RING, 4, 100, &line, &codec).codec,
                0.5 * 100 + 0.25 * (75 + 100));
    const feddc_cost_codec plain = {.push = 1, .pull = 1, .encode = 1, .decode = 1};
    assert_near(feddc_cost_exchange(FEDDC_COST_RING, 4, 100, &line, &plain).codec, 0);
}

FED_TEST(a_nic_codes_while_the_line_carries) {
    const feddc_cost_line line = {.beta = 1};
    /* With a NIC as fast as the line the codec reduces bytes and takes no time of the hosts. */
    const feddc_cost_codec gates = {.push = 4, .pull = 2};
    const feddc_cost ring = feddc_cost_exchange(FEDDC_COST_RING, 4, 100, &line, &gates);
    assert_near(ring.wire, 75.0 / 4 + 75.0 / 2);
    assert_near(ring.codec, 0);
    /* A push takes the NIC's 0.3 for each byte, not the line's 1/4. A pull takes the line's 1/2. */
    const feddc_cost_codec soft = {.push = 4, .pull = 2, .nic = 0.3};
    assert_near(feddc_cost_exchange(FEDDC_COST_RING, 4, 100, &line, &soft).wire,
                75.0 * 0.3 + 75.0 / 2);
    assert_near(feddc_cost_exchange(FEDDC_COST_CENTRAL, 4, 100, &line, &soft).wire, 400.0 / 2);
    /* INCEPTIONN's WA+C, a worker-aggregator with compression: the NIC compresses gradients, and
     * weights pass it unchanged. */
    const feddc_cost_codec slow = {.push = 4, .pull = 1, .nic = 2};
    assert_near(feddc_cost_exchange(FEDDC_COST_STAR, 4, 100, &line, &slow).wire, 400.0 * 2 + 200.0);
}

FED_TEST(a_tree_is_its_parts) {
    const feddc_cost_line below = {.alpha = 1, .beta = 2, .gamma = 4};
    const feddc_cost_line above = {.alpha = 10, .beta = 20, .gamma = 4};
    const feddc_cost flat = feddc_cost_tree(4, 1, 100, &below, &above, NULL);
    assert_near(total(&flat), exchange(FEDDC_COST_OWNERS, 4, 100, &above, NULL));
    const feddc_cost one = feddc_cost_tree(4, 4, 100, &below, &above, NULL);
    assert_near(total(&one), exchange(FEDDC_COST_OWNERS, 4, 100, &below, NULL));
    /* 2 * 3/4 n within a group of four, and 2 * 1/2 n on the line that a group shares. */
    const feddc_cost tree = feddc_cost_tree(8, 4, 100, &below, &above, NULL);
    assert_near(tree.latency, 2 + 20);
    assert_near(tree.wire, 150 * 2 + 100 * 20);
    assert_near(tree.sum, 75 * 4 + 50 * 4 / 4.0);
}

/* ---- CD-SGD, section 3.3 ---- */

FED_TEST(the_equations_of_a_step) {
    const feddc_cost_step s = {.tau = 10, .phi = 30, .delta = 2, .psi = 5, .k = 4};
    assert_near(feddc_cost_ssgd(&s), 40);
    assert_near(feddc_cost_odsgd(&s), 30);
    assert_near(feddc_cost_bitsgd(&s), 17);
    assert_near(feddc_cost_cdsgd_exchange(&s, 8), 30);
    assert_near(feddc_cost_cdsgd_exchange(&s, 9), 7);
    assert_near(feddc_cost_cdsgd_at(&s, 8), 30);
    assert_near(feddc_cost_cdsgd_at(&s, 9), 10);
    assert_near(feddc_cost_cdsgd(&s), (3 * 10 + 30) / 4.0);
    feddc_cost_step slow = s;
    slow.tau = 1;
    assert_near(feddc_cost_cdsgd_at(&slow, 9), 7);
    assert_near(feddc_cost_cdsgd(&slow), ((4 - 1) * (2 + 5) + 30) / 4.0);
}

FED_TEST(the_equations_of_what_is_saved) {
    feddc_cost_step s = {.tau = 10, .phi = 30, .delta = 2, .psi = 5, .k = 4};
    assert_near(feddc_cost_saved_odsgd(&s, 1), 20); /* equation 8 of CD-SGD, case 2: phi - tau */
    assert_near(feddc_cost_saved_bitsgd(&s, 1), 7); /* equation 9 of CD-SGD, case 1: delta + psi */
    assert_near(feddc_cost_saved_odsgd(&s, 4), 0);  /* equation 8, case 4 */
    assert_near(feddc_cost_saved_bitsgd(&s, 4), 10 + 2 + 5 - 30); /* equation 9, case 3 */
    s.tau = 1;
    assert_near(feddc_cost_saved_odsgd(&s, 1), 30 - 2 - 5); /* equation 8, case 3 */
    assert_near(feddc_cost_saved_bitsgd(&s, 1), 1);         /* equation 9, case 2: tau */
    s.tau = 40;
    assert_near(feddc_cost_saved_odsgd(&s, 1), 0); /* equation 8, case 1 */
}

FED_TEST(k_5_at_100_mbit_is_44_ms) {
    /* LeNet-5, two workers, 2 bits: phi is 158 ms, a compressed step computes for 15.7 ms. */
    feddc_cost_step s = {.tau = 15.7, .phi = 158, .delta = 1, .psi = 10, .k = 5};
    assert_near(round(feddc_cost_cdsgd(&s)), 44);
    s.k = 1; /* every step is float32 */
    assert_near(feddc_cost_cdsgd(&s), feddc_cost_odsgd(&s));
    s.k = 0; /* no step is float32 */
    assert_near(feddc_cost_cdsgd(&s), 15.7);
    double before = INFINITY;
    for (s.k = 1; s.k <= 64; s.k++) {
        assert_true(feddc_cost_cdsgd(&s) < before);
        before = feddc_cost_cdsgd(&s);
    }
}

static double mean(const feddc_cost_step *s, const char *spec, uint32_t steps) {
    fed_error err = {0};
    feddc_sync sync;
    assert_fed_ok_err(feddc_sync_parse(spec, &sync, &err));
    return feddc_cost_sync(s, &sync, steps, 0);
}

FED_TEST(the_rules_of_syncs_def_give_the_same_steps) {
    const feddc_cost_step s = {.tau = 10, .phi = 30, .delta = 2, .psi = 5, .k = 4};
    assert_near(mean(&s, "ssgd", 7), feddc_cost_ssgd(&s));
    assert_near(mean(&s, "bitsgd", 7), feddc_cost_bitsgd(&s));
    assert_near(mean(&s, "odsgd", 7), feddc_cost_odsgd(&s));
    assert_near(mean(&s, "cdsgd:n=0,k=4", 400), feddc_cost_cdsgd(&s));
    /* The last of five warm-up steps does not wait for its sum (CD-SGD, Algorithm 1, line 6). */
    assert_near(mean(&s, "cdsgd:n=5,k=4", 405),
                (4 * feddc_cost_ssgd(&s) + feddc_cost_odsgd(&s) + 400 * feddc_cost_cdsgd(&s)) /
                    405);
    assert_near(mean(&s, "local:n=3", 9), 10 + (2 + 5) / 3.0);
    assert_near(mean(&s, "ssgd", 0), 0);
    const feddc_act ssgd = {true, true, false, 0}, odsgd = {true, true, true, 1};
    assert_near(feddc_cost_act(&s, &ssgd, 3), feddc_cost_layered(10, 30, 3));
    assert_near(feddc_cost_act(&s, &odsgd, 3), 30);
}

FED_TEST(what_the_backward_pass_does_not_cover_is_exposed) {
    const double ready[] = {4, 6, 10}, wire[] = {1, 5, 2};
    /* The second bucket arrives at 11. The third is ready at 10 and arrives at 13. */
    assert_near(feddc_cost_exposed(ready, wire, 3, 10), 3);
    assert_near(feddc_cost_exposed(ready, wire, 1, 10), 0);
    assert_near(feddc_cost_exposed(NULL, NULL, 0, 10), 0);
    /* With one bucket the time is the sum. With many it is little more than the forward pass and
     * the longer of the backward pass and the exchange. */
    assert_near(feddc_cost_layered(9, 4, 1), 13);
    assert_near(feddc_cost_layered(9, 6, 1000), 9.006);
    assert_near(feddc_cost_layered(9, 12, 1000), 3 + 0.006 + 12);
    for (uint32_t buckets = 1; buckets < 5000; buckets *= 3) {
        const double step = feddc_cost_layered(9, 12, buckets);
        assert_true(step >= 15 && step <= 21);
    }
}

FED_TEST(tables_have_each_number_of_workers_up_to_1024) {
    const feddc_cost_inputs in = {.values = 430500,
                                  .mbit = 1000,
                                  .codec = "3lc:s=1.75",
                                  .push = 100,
                                  .pull = 50,
                                  .no_ring = true,
                                  .tau = 0.04,
                                  .k = 5,
                                  .low = 2,
                                  .high = 5};
    fed_writer out;
    fed_writer_growing(&out);
    feddc_cost_tables(&in, &out);
    fed_write_u8(&out, 0);
    assert_fed_ok(out.status);
    const char *table = (const char *)out.data;
    assert_non_null(strstr(table, "3lc:s=1.75"));
    for (uint32_t p = 2; p <= 1024; p = p < 5 ? p + 1 : p == 5 ? 8 : 2 * p) {
        char line[16];
        snprintf(line, sizeof line, "\n%7u ", p);
        const char *first = strstr(table, line);
        assert_non_null(first);
        assert_non_null(strstr(first + 1, line));
    }
    assert_null(strstr(table, "\n      6 "));
    assert_null(strstr(table, "\n   2048 "));
    /* n beta is 13.776 ms. A star takes 3 n beta, ring and owners take n beta. The table has no
     * number for 3lc in a ring. */
    assert_non_null(strstr(table, "\n      2     41.33     13.78     13.78 "));
    assert_non_null(strstr(table, " 0.55         - "));
    assert_non_null(strstr(table, "\n      2     53.78 "));
    fed_writer_free(&out);
}
