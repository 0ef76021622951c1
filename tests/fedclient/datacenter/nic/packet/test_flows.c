/* The table of connections (flows): which are found, and which are dropped when it is full. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fedclient/datacenter/nic/packet/flows.h"

static fednic_flow_key key_of(uint64_t n) {
    return (fednic_flow_key){{n, 2, 3, 4, 5, 6}};
}

static bool known(fednic_flows *flows, uint64_t n) {
    fednic_flow_key key = key_of(n);
    return fednic_flows_find(flows, &key) != NULL;
}

static fednic_flow *enter(fednic_flows *flows, uint64_t n) {
    fednic_flow_key key = key_of(n);
    return fednic_flows_enter(flows, &key, (int64_t)n);
}

static fednic_flows *new_flows(uint32_t max) {
    fednic_flows *flows = NULL;
    assert_fed_ok(fednic_flows_new(max, &flows, NULL));
    return flows;
}

FED_TEST(each_flow_is_found_until_it_is_dropped) {
    fednic_flows *flows = new_flows(5000);
    for (uint64_t n = 0; n < 5000; n++) {
        assert_false(known(flows, n));
        enter(flows, n)->own_isn = (uint32_t)n;
    }
    for (uint64_t n = 0; n < 5000; n++) {
        fednic_flow_key key = key_of(n);
        fednic_flow *flow = fednic_flows_find(flows, &key);
        assert_int_equal(flow->own_isn, n);
        if (n % 3 == 0) {
            fednic_flows_drop(flows, flow);
        }
    }
    for (uint64_t n = 0; n < 5000; n++) {
        assert_int_equal(known(flows, n), n % 3 != 0);
    }
    assert_int_equal(fednic_flows_count(flows), 3333);
    enter(flows, 3);
    fednic_flow_key key = key_of(3);
    assert_int_equal(fednic_flows_find(flows, &key)->own_isn, 0);
    fednic_flows_free(flows);
}

FED_TEST(the_longest_unused_goes_first) {
    fednic_flows *flows = new_flows(8);
    fednic_flow *flow[8];
    for (uint64_t n = 0; n < 8; n++) {
        flow[n] = enter(flows, n);
        fednic_flows_use(flows, flow[n], true, 0);
    }
    fednic_flows_use(flows, flow[0], true, 1);
    fednic_flows_use(flows, flow[2], true, 1);
    enter(flows, 8);
    assert_true(known(flows, 0) && !known(flows, 1) && known(flows, 2));
    enter(flows, 9);
    assert_true(known(flows, 0) && !known(flows, 3) && known(flows, 8));
    assert_int_equal(fednic_flows_count(flows), 8);
    fednic_flows_free(flows);
}

FED_TEST(a_flood_of_handshakes_drives_out_no_connection_at_work) {
    fednic_flows *flows = new_flows(100);
    for (uint64_t n = 0; n < 60; n++) {
        fednic_flows_use(flows, enter(flows, n), true, 0);
    }
    for (uint64_t n = 1000; n < 9000; n++) {
        enter(flows, n);
    }
    for (uint64_t n = 0; n < 60; n++) {
        assert_true(known(flows, n));
    }
    assert_int_equal(fednic_flows_count(flows), 100);
    fednic_flows_free(flows);
}

FED_TEST(what_has_ended_goes_before_the_rest) {
    fednic_flows *flows = new_flows(4);
    fednic_flow *flow[4];
    for (uint64_t n = 0; n < 4; n++) {
        flow[n] = enter(flows, n);
        fednic_flows_use(flows, flow[n], true, 0);
    }
    fednic_flows_age(flows, flow[2]);
    fednic_flows_age(flows, flow[3]);
    enter(flows, 4);
    assert_true(known(flows, 0) && known(flows, 1) && !known(flows, 2) && known(flows, 3));
    fednic_flows_use(flows, flow[3], true, 1); /* flow 3 is used again, so it is not ending */
    enter(flows, 5);
    assert_true(known(flows, 3) && !known(flows, 0));
    fednic_flows_free(flows);
}

FED_TEST(one_place_is_a_table_too) {
    fednic_flows *flows = new_flows(1);
    for (uint64_t n = 0; n < 10; n++) {
        fednic_flow *flow = enter(flows, n);
        fednic_flows_use(flows, flow, n % 2 == 0, 0);
        assert_true(known(flows, n) && fednic_flows_count(flows) == 1);
    }
    fednic_flows_free(flows);
    fednic_flows_free(NULL);
}
