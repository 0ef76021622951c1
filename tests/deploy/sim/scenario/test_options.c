/* A run's options: each key of a scenario sets a member, and another value makes another run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/task_file.h"
#include "fed_cases.h"

static void read_options(const char *text, sim_scenario *s, sim_options *o) {
    fed_error err = {0};
    *s = (sim_scenario){0};
    assert_fed_ok_err(sim_scenario_parse("s", text, s, &err));
    assert_fed_ok_err(sim_scenario_complete(s, &err));
    assert_fed_ok_err(sim_options_read(s, 1, o, &err));
}

#define LEAST "data = d\nmodel = lr\nrounds = 3\n"

static void write_options(const char *text, char dst[1000]) {
    sim_scenario s;
    sim_options o;
    fed_writer w;
    read_options(text, &s, &o);
    fed_writer_fixed(&w, dst, 1000);
    sim_options_write(&o, &w);
    assert_fed_ok(w.status);
    sim_scenario_free(&s);
}

FED_TEST(each_key_has_its_member) {
    sim_scenario s;
    sim_options o;
    read_options("data = d\nmodel = lr\nrounds = 3\nclients = 7\ndataset = cifar10\nnormalise = 1\n"
                 "evaluate_every = 4\nthreads = 5\noffline = 0.25\nbroken = 0.5\nhostile = 1\n"
                 "line = wifi\nspeed = sample_s=0.01\nkill_round = 2\nfront_port = 65535\n"
                 "devices_port = 1\nhelper = 1\nfedserver = here\ndevice = cuda:1\nseed = "
                 "4294967295\ncohort = 1\n",
                 &s, &o);
    assert_string_equal(o.data, "d");
    assert_string_equal(o.dataset, "cifar10");
    assert_string_equal(o.train_part, "train");
    assert_string_equal(o.line, "wifi");
    assert_string_equal(o.speed, "sample_s=0.01");
    assert_string_equal(o.presence, "");
    assert_string_equal(o.fedserver, "here");
    assert_string_equal(o.device, "cuda:1");
    assert_true(o.normalise && o.offline == 0.25 && o.broken == 0.5 && o.hostile == 1.0);
    assert_int_equal(o.clients, 7);
    assert_int_equal(o.evaluate_every, 4);
    assert_int_equal(o.threads, 5);
    assert_true(o.helper);
    assert_int_equal(o.kill_round, 2);
    assert_int_equal(o.front_port, 65535);
    assert_int_equal(o.devices_port, 1);
    assert_true(o.seed == 4294967295);
    sim_scenario_free(&s);
}

FED_TEST(another_value_makes_another_run) {
    static const char *const others[] = {"data = e\nmodel = lr\nrounds = 3\n",
                                         LEAST "clients = 399\n",
                                         LEAST "dataset = cifar10\n",
                                         LEAST "train_part = test\n",
                                         LEAST "normalise = 1\n",
                                         LEAST "split = dirichlet:alpha=0.25\n",
                                         LEAST "split = classes:k=3\n",
                                         LEAST "evaluate_every = 2\n",
                                         LEAST "offline = 0.001\n",
                                         LEAST "broken = 0.1\n",
                                         LEAST "hostile = 0.1\n",
                                         LEAST "line = 3g\n",
                                         LEAST "speed = sample_s=0.01\n",
                                         LEAST "presence = charging\n",
                                         LEAST "kill_round = 1\n",
                                         LEAST "helper = 1\n",
                                         LEAST "device = opencl:0\n",
                                         LEAST "seed = 2\n"};
    static const char *const same[] = {LEAST "threads = 9\n", LEAST "fedserver = there\n",
                                       LEAST "crowd = there\n"};
    char before[1000], after[1000];
    write_options(LEAST, before);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        write_options(others[k], after);
        if (strcmp(before, after) == 0) {
            fail_msg("the same run with %s", others[k]);
        }
    }
    for (size_t k = 0; k < sizeof same / sizeof same[0]; k++) {
        write_options(same[k], after);
        assert_string_equal(before, after);
    }
}
