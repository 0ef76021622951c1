/* Custom metrics that devices report: counted with the update, stored, and shown as JSON and
 * CSV. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <jansson.h>
#include <math.h>

#include "fed/own_metrics.h"

static const char task[] = "{\"model\": \"vector 2\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"float32\", \"rounds\": 3, \"cohort\": 2}";
static const float zeros[2] = {0, 0};

static fed_own_metrics metrics(const char *name, double value) {
    fed_own_metrics m = {.count = 0};
    assert_fed_ok(fed_own_metrics_set(&m, name, value, NULL));
    return m;
}

static void make_body(const fed_assignment *work, uint32_t samples, const fed_own_metrics *own,
                      fed_writer *w) {
    fed_writer plain;
    fed_writer_growing(&plain);
    fed_writer_growing(w);
    device_encode(work, zeros, samples, &plain);
    const size_t head = 8 + 4 + 8 + 4 + 4;
    fed_write_bytes(w, plain.data, head);
    fed_own_metrics_write(w, own);
    fed_write_bytes(w, plain.data + head, plain.len - head);
    fed_writer_free(&plain);
}

static int report(coordinator *c, const test_device *d, uint32_t samples,
                  const fed_own_metrics *own) {
    const fed_assignment work = device_ask_work(c, d);
    fed_writer body;
    make_body(&work, samples, own, &body);
    answer a = coordinator_ask(c, d, "POST", "/v1/update", "", body.data, body.len);
    const int status = a.status;
    answer_free(&a);
    fed_writer_free(&body);
    return status;
}

static int evaluate(coordinator *c, const test_device *d, uint32_t version, uint32_t samples,
                    const fed_own_metrics *own) {
    fed_writer body;
    fed_writer_growing(&body);
    fed_metric_write(&body, &(fed_metric){.task = 1, .version = version, .samples = samples});
    fed_own_metrics_write(&body, own);
    answer a = coordinator_ask(c, d, "POST", "/v1/metric", "", body.data, body.len);
    const int status = a.status;
    answer_free(&a);
    fed_writer_free(&body);
    return status;
}

static json_t *newest_round(coordinator *c) {
    json_t *root = coordinator_json(c, "/v1/status", "");
    json_t *round = json_incref(json_array_get(json_object_get(root, "rounds"), 0));
    json_decref(root);
    return round;
}

/* Check the metrics of the newest round. Each metric is written as "WHO NAME=MEAN LEAST..MOST of
 * REPORTS (SAMPLES)", such as "devices f1=0.5 0..1 of 2 (40)". */
static void expect_metrics(coordinator *c, const char *want) {
    json_t *round = newest_round(c), *m;
    char said[600] = "";
    size_t k;
    json_array_foreach(json_object_get(round, "metrics"), k, m) {
        const char *name = NULL, *by = NULL;
        double mean = 0, least = 0, most = 0;
        json_int_t reports = 0, samples = 0;
        assert_int_equal(json_unpack(m, "{s:s, s:s, s:f, s:f, s:f, s:I, s:I !}", "name", &name,
                                     "by", &by, "mean", &mean, "least", &least, "most", &most,
                                     "reports", &reports, "samples", &samples),
                         0);
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s %s=%g %g..%g of %d (%d)",
                 k > 0 ? "; " : "", by, name, mean, least, most, (int)reports, (int)samples);
    }
    assert_string_equal(said, want);
    json_decref(round);
}

static void a_rounds_metrics_are_means_of_its_updates(void **state) {
    coordinator *c = *state;
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    fed_own_metrics own = metrics("f1", 1);
    assert_fed_ok(fed_own_metrics_set(&own, "energy", 70, NULL));
    coordinator_task(c, task);
    assert_int_equal(report(c, &d[0], 10, &own), 200);
    own = metrics("f1", 0);
    assert_int_equal(report(c, &d[1], 30, &own), 200);
    expect_metrics(c, "devices energy=70 70..70 of 1 (10); devices f1=0.25 0..1 of 2 (40)");
    own.count = 0;
    assert_int_equal(report(c, &d[0], 10, &own), 200);
    assert_int_equal(report(c, &d[1], 10, &own), 200);
    expect_metrics(c, "");
}

static void metrics_of_the_open_round_survive_a_crash(void **state) {
    coordinator *c = *state;
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    coordinator_task(c, task);
    fed_own_metrics own = metrics("f1", 3);
    assert_int_equal(report(c, &d[0], 1, &own), 200);
    coordinator_restart(c);
    own = metrics("f1", 5);
    assert_int_equal(report(c, &d[1], 1, &own), 200);
    expect_metrics(c, "devices f1=4 3..5 of 2 (2)");
    coordinator_restart(c);
    expect_metrics(c, "devices f1=4 3..5 of 2 (2)");
}

static void what_is_no_list_of_metrics_is_refused_and_the_lease_stands(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    fed_own_metrics own = metrics("f1", 1);
    coordinator_task(c, task);
    const fed_assignment work = device_ask_work(c, &d);
    fed_writer body;
    make_body(&work, 1, &own, &body);
    body.data[8 + 4 + 8 + 4 + 4 + 2] = ' '; /* the first byte of a metric's name */
    answer a = coordinator_ask(c, &d, "POST", "/v1/update", "", body.data, body.len);
    assert_int_equal(a.status, 400);
    assert_string_equal(a.error, "bad_update");
    assert_non_null(strstr((char *)a.body, "a name of 1 to 31 letters, digits"));
    answer_free(&a);
    fed_writer_free(&body);
    assert_int_equal(report(c, &d, 1, &own), 200);
}

static void names_without_end_are_dropped_and_that_is_shown(void **state) {
    coordinator *c = *state;
    enum { DEVICES = 10 };
    coordinator_task(c, "{\"model\": \"vector 2\", \"codec_up\": \"float32\", \"rounds\": 1,"
                        " \"codec_down\": \"float32\", \"cohort\": 10}");
    for (int k = 0; k < DEVICES; k++) {
        const test_device d = coordinator_enrol(c);
        fed_own_metrics own = {.count = 0};
        for (int i = 0; i < FED_OWN_METRICS; i++) {
            char name[16];
            snprintf(name, sizeof name, "n%03d", FED_OWN_METRICS * k + i);
            assert_fed_ok(fed_own_metrics_set(&own, name, i, NULL));
        }
        assert_int_equal(report(c, &d, 1, &own), 200);
    }
    json_t *round = newest_round(c);
    assert_int_equal(json_array_size(json_object_get(round, "metrics")), FEDSERVER_OWN_NAMES);
    assert_int_equal(json_integer_value(json_object_get(round, "metrics_dropped")),
                     DEVICES * FED_OWN_METRICS - FEDSERVER_OWN_NAMES);
    json_decref(round);
}

static void evaluators_metrics_stand_beside_the_devices(void **state) {
    coordinator *c = *state;
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    const test_device judge[2] = {coordinator_enrol_evaluator(c), coordinator_enrol_evaluator(c)};
    coordinator_task(c, task);
    fed_own_metrics own = metrics("auc", 0.5);
    /* An evaluation of the initial model belongs to no round. */
    assert_int_equal(evaluate(c, &judge[0], 0, 10, &own), 200);
    assert_int_equal(report(c, &d[0], 1, &own), 200);
    assert_int_equal(report(c, &d[1], 1, &own), 200);
    own = metrics("auc", 0.9);
    assert_int_equal(evaluate(c, &judge[0], 1, 30, &own), 200);
    own = metrics("auc", 0.1);
    assert_int_equal(evaluate(c, &judge[1], 1, 10, &own), 200);
    expect_metrics(c, "devices auc=0.5 0.5..0.5 of 2 (2); evaluators auc=0.7 0.1..0.9 of 2 (40)");
    own = metrics("other", 1);
    assert_int_equal(evaluate(c, &judge[1], 1, 10, &own), 200);
    expect_metrics(c, "devices auc=0.5 0.5..0.5 of 2 (2); evaluators auc=0.9 0.9..0.9 of 1 (30); "
                      "evaluators other=1 1..1 of 1 (10)");
}

static void an_evaluation_with_other_bytes_behind_it_is_refused(void **state) {
    coordinator *c = *state;
    const test_device judge = coordinator_enrol_evaluator(c);
    coordinator_task(c, task);
    fed_writer body;
    fed_writer_growing(&body);
    fed_metric_write(&body, &(fed_metric){.task = 1, .samples = 10});
    fed_write_u8(&body, 0xfe); /* neither metrics nor another optional part */
    answer a = coordinator_ask(c, &judge, "POST", "/v1/metric", "", body.data, body.len);
    answer_expect(&a, 400, "bad_metric");
    fed_writer_free(&body);
}

static void the_table_has_a_column_for_each_name(void **state) {
    coordinator *c = *state;
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    const test_device judge = coordinator_enrol_evaluator(c);
    coordinator_task(c, task);
    fed_own_metrics own = {.count = 0};
    assert_int_equal(report(c, &d[0], 1, &own), 200);
    assert_int_equal(report(c, &d[1], 1, &own), 200);
    own = metrics("f1", 0.25);
    assert_int_equal(evaluate(c, &judge, 0, 10, &own), 200);
    assert_int_equal(report(c, &d[0], 1, &own), 200);
    assert_int_equal(report(c, &d[1], 1, &own), 200);
    own = metrics("auc", 1e300);
    assert_int_equal(evaluate(c, &judge, 2, 10, &own), 200);
    assert_int_equal(report(c, &d[0], 1, &own), 200);
    assert_int_equal(report(c, &d[1], 1, &own), 200);
    answer a = coordinator_ask(c, NULL, "GET", "/rounds.csv", "", NULL, 0);
    assert_int_equal(a.status, 200);
    char *text = (char *)a.body, *rest = NULL;
    static const char *const ends[] = {
        ",accuracy,test_loss,clip,devices:f1,evaluators:auc,devices:auc", ",,,,,,",
        ",0,0,,0.25,1e+300,", ",,,,,,1e+300"};
    for (size_t k = 0; k < 4; k++) {
        const char *line = strtok_r(k == 0 ? text : NULL, "\r\n", &rest);
        assert_non_null(line);
        assert_string_equal(line + strlen(line) - strlen(ends[k]), ends[k]);
    }
    assert_null(strtok_r(NULL, "\r\n", &rest));
    answer_free(&a);
}

static int report_loss(coordinator *c, const test_device *d, uint32_t samples, float loss) {
    const fed_assignment work = device_ask_work(c, d);
    fed_writer body;
    fed_writer_growing(&body);
    device_encode(&work, zeros, samples, &body);
    memcpy(body.data + 8 + 4 + 8 + 4, &loss, sizeof loss);
    answer a = coordinator_ask(c, d, "POST", "/v1/update", "", body.data, body.len);
    const int status = a.status;
    answer_free(&a);
    fed_writer_free(&body);
    return status;
}

static void measure(coordinator *c, const test_device *d, uint32_t version, uint32_t correct,
                    float loss) {
    fed_writer body;
    fed_writer_growing(&body);
    fed_metric_write(
        &body, &(fed_metric){
                   .task = 1, .version = version, .samples = 10, .correct = correct, .loss = loss});
    answer a = coordinator_ask(c, d, "POST", "/v1/metric", "", body.data, body.len);
    assert_int_equal(a.status, 200);
    answer_free(&a);
    fed_writer_free(&body);
}

/* Check the two losses of the newest round in the status, such as "2.5 null". */
static void expect_losses(coordinator *c, const char *want) {
    json_t *round = newest_round(c);
    char *loss = json_dumps(json_object_get(round, "loss"), JSON_ENCODE_ANY);
    char *test_loss = json_dumps(json_object_get(round, "test_loss"), JSON_ENCODE_ANY);
    char said[80];
    snprintf(said, sizeof said, "%s %s", loss, test_loss);
    assert_string_equal(said, want);
    free(loss);
    free(test_loss);
    json_decref(round);
}

static int said_no_loss;

static void hear(void *user, fed_log_level level, const char *line) {
    (void)user;
    (void)level;
    said_no_loss += strstr(line, "committed with 2 updates, no loss, delta of") != NULL;
}

static const fed_log listener = {.write = hear, .level = FED_LOG_INFO};

static void a_device_without_a_loss_is_left_out_of_the_mean(void **state) {
    coordinator *c = *state;
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    const test_device judge[2] = {coordinator_enrol_evaluator(c), coordinator_enrol_evaluator(c)};
    fed_error err = {0};
    coordinator_task(c, task);
    assert_int_equal(report_loss(c, &d[0], 30, NAN), 200);
    coordinator_commit(c);
    fedserver_close(c->server); /* the update is read again from the store */
    assert_fed_ok_err(fedserver_open(c->directory, &listener, &c->server, &err));
    assert_fed_ok_err(fedserver_begin(c->server, &err));
    assert_int_equal(report_loss(c, &d[1], 10, 2.5f), 200);
    expect_losses(c, "2.5 null");
    measure(c, &judge[0], 1, 5, NAN);
    measure(c, &judge[1], 1, 5, 4);
    expect_losses(c, "2.5 4.0");
    assert_int_equal(report_loss(c, &d[0], 30, NAN), 200);
    assert_int_equal(report_loss(c, &d[1], 10, NAN), 200);
    coordinator_commit(c);
    assert_int_equal(said_no_loss, 1);
    measure(c, &judge[0], 2, 5, NAN);
    expect_losses(c, "null null");
    coordinator_restart(c);
    expect_losses(c, "null null");
    answer a = coordinator_ask(c, NULL, "GET", "/rounds.csv", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, ",2,40,,"));
    assert_non_null(strstr((char *)a.body, ",0.5,,\r\n"));
    answer_free(&a);
    a = coordinator_ask(c, NULL, "GET", "/metrics", "", NULL, 0);
    assert_non_null(strstr((char *)a.body, "fed_model_accuracy{task=\"1\"} 0.5"));
    assert_null(strstr((char *)a.body, "fed_model_test_loss{"));
    answer_free(&a);
}

/* Check what the newest round has in the status, the history, the table and the metrics. */
static void expect_accuracy(coordinator *c, const char *json, const char *csv, const char *gauge) {
    static const char *const paths[] = {"/v1/status", "/v1/rounds", "/rounds.csv", "/metrics"};
    char ends[4][64];
    snprintf(ends[0], sizeof ends[0], "\"accuracy\":%s,\"test_loss\":2.5,", json);
    snprintf(ends[1], sizeof ends[1], "\"test_loss\":[2.5],\"accuracy\":[%s]", json);
    snprintf(ends[2], sizeof ends[2], ",%s,2.5,\r\n", csv);
    snprintf(ends[3], sizeof ends[3], "fed_model_accuracy{task=\"1\"} %s", gauge);
    for (size_t k = 0; k < 4; k++) {
        answer a = coordinator_ask(c, NULL, "GET", paths[k], k == 1 ? "task=1" : "", NULL, 0);
        assert_int_equal(a.status, 200);
        const bool found = strstr((char *)a.body, ends[k]) != NULL;
        if (found != (k < 3 || *gauge != '\0')) {
            fail_msg("%s: %s is %sin %s", paths[k], ends[k], found ? "" : "not ", (char *)a.body);
        }
        answer_free(&a);
    }
}

static void an_evaluator_without_an_accuracy_is_left_out_of_the_mean(void **state) {
    coordinator *c = *state;
    const test_device d[2] = {coordinator_enrol(c), coordinator_enrol(c)};
    const test_device judge[2] = {coordinator_enrol_evaluator(c), coordinator_enrol_evaluator(c)};
    fed_error err = {0};
    coordinator_task(c, task);
    assert_int_equal(report_loss(c, &d[0], 30, 1), 200);
    assert_int_equal(report_loss(c, &d[1], 30, 1), 200);
    coordinator_commit(c);
    measure(c, &judge[0], 1, FED_NO_CORRECT, 2.5f);
    expect_accuracy(c, "null", "", "");
    coordinator_restart(c);
    expect_accuracy(c, "null", "", "");
    assert_fed_ok_err(fedserver_begin(c->server, &err));
    measure(c, &judge[1], 1, 5, 2.5f);
    expect_accuracy(c, "0.5", "0.5", "0.5");
}

static void a_loss_that_is_infinite_is_refused(void **state) {
    coordinator *c = *state;
    const test_device d = coordinator_enrol(c);
    coordinator_task(c, task);
    assert_int_equal(report_loss(c, &d, 1, INFINITY), 400);
    assert_int_equal(report_loss(c, &d, 1, 1e13f), 422);
    assert_int_equal(report_loss(c, &d, 1, 1), 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(a_rounds_metrics_are_means_of_its_updates),
        WITH_COORDINATOR(metrics_of_the_open_round_survive_a_crash),
        WITH_COORDINATOR(what_is_no_list_of_metrics_is_refused_and_the_lease_stands),
        WITH_COORDINATOR(names_without_end_are_dropped_and_that_is_shown),
        WITH_COORDINATOR(evaluators_metrics_stand_beside_the_devices),
        WITH_COORDINATOR(an_evaluation_with_other_bytes_behind_it_is_refused),
        WITH_COORDINATOR(the_table_has_a_column_for_each_name),
        WITH_COORDINATOR(a_device_without_a_loss_is_left_out_of_the_mean),
        WITH_COORDINATOR(an_evaluator_without_an_accuracy_is_left_out_of_the_mean),
        WITH_COORDINATOR(a_loss_that_is_infinite_is_refused),
    };
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
