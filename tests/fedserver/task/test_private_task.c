/* What goes with a private task, and what does not: the sentence that says so names the key. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/task/private_task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fed_cases.h"
#include "fed_test.h"
#include "fedserver/task/config.h"

static fed_status read_task(const char *more, fedserver_config *config, fed_error *err) {
    char text[1000];
    snprintf(text, sizeof text, "{\"rounds\": 9, \"goal\": 10, %s}", more);
    return fedserver_config_parse("task.json", text, strlen(text), config, err);
}

#define DENSE   "\"model\": \"input 8 | dense 3\", "
#define BN      "\"model\": \"input 1x8x8 | conv 4 3 | bn | relu | dense 3\", "
#define PRIVATE "\"codec_up\": \"ring:b=5\", \"clip\": 0.5"

FED_TEST(devices_are_told_of_a_private_task) {
    fed_error err = {0};
    fedserver_config config;
    assert_fed_ok_err(read_task(DENSE PRIVATE, &config, &err));
    const fed_layout layout = {.size = 27};
    const fed_privacy told = fedserver_privacy_of(&config.task, &layout);
    assert_true(fedserver_task_is_private(&config.task) && told.clip == 0.5f);
    assert_int_equal(told.minimum, 1);
    assert_int_equal(told.goal, 10);
    assert_int_equal(told.cohort, 13);
    assert_int_equal(told.apart, 1);
    assert_int_equal(told.helpers, 0);
    assert_string_equal(config.task.wire.codec_up, "ring:b=5,p=1");
    assert_fed_ok_err(read_task(DENSE "\"codec_up\": \"sbc:p=0.01\"", &config, &err));
    assert_true(!fedserver_task_is_private(&config.task));
    assert_true(fedserver_privacy_of(&config.task, &layout).clip == 0);
}

/* What is clipped and summed is what travels. */
FED_TEST(a_layer_with_statistics_may_stay_on_the_devices) {
    fed_error err = {0};
    fedserver_config config;
    assert_fed_ok_err(read_task(BN "\"private_layers\": \"bn\", " PRIVATE, &config, &err));
    assert_fed_ok_err(read_task(BN "\"private_layers\": \"1-2\", " PRIVATE, &config, &err));
}

FED_TEST(what_does_not_go_with_a_private_task_is_refused_with_its_reason) {
    static const struct {
        const char *text, *key, *why;
    } wrong[] = {
        {DENSE "\"codec_up\": \"ring\"", "clip", "it is missing"},
        {DENSE "\"clip\": 1", "clip", "codec_up ring"},
        {DENSE "\"clip\": 0, \"codec_up\": \"ring\"", "clip", "a number from"},
        {DENSE PRIVATE ", \"phases\": [{\"round\": 2, \"codec_up\": \"float32\"}]", "codec_up",
         "one codec"},
        {DENSE "\"codec_up\": \"float32\", \"phases\": [{\"round\": 2, \"codec_up\": \"ring\"}]",
         "clip", "it is missing"},
        {DENSE "\"codec_up\": \"ring:b=5+entropy\", \"clip\": 1", "codec_up", "second stage"},
        {DENSE PRIVATE ", \"staleness\": 1", "staleness", "their own round"},
        {DENSE PRIVATE ", \"strategy\": \"median\"", "strategy", "only the sum"},
        {DENSE PRIVATE ", \"strategy\": \"krum\"", "strategy", "only the sum"},
        {DENSE PRIVATE ", \"strategy\": \"fedavg+clip:norm=1\"", "strategy", "only the sum"},
        {DENSE PRIVATE ", \"strategy\": \"median\"", "strategy", "let groups say"},
        {DENSE PRIVATE ", \"strategy\": \"krum\", \"groups\": 3", "strategy", "median or trimmed"},
        {DENSE PRIVATE ", \"strategy\": \"custom\", \"groups\": 3", "strategy",
         "median or trimmed"},
        {DENSE PRIVATE ", \"groups\": 3", "strategy", "median or trimmed"},
        {DENSE PRIVATE ", \"strategy\": \"median\", \"groups\": 2", "groups", "from 3 to 64"},
        {DENSE PRIVATE ", \"strategy\": \"median\", \"groups\": 3, \"minimum\": 4", "groups",
         "minimum times groups"},
        {DENSE "\"codec_up\": \"float32\", \"strategy\": \"median\", \"groups\": 3", "groups",
         "only updates of codec ring"},
        {DENSE PRIVATE ", \"strategy\": \"median\", \"groups\": 3, \"epsilon\": 8, \"delta\": 1e-5,"
                       " \"participations\": 2, \"apart\": 3, \"selection\": \"round_robin\"",
         "groups", "take off"},
        {"\"model\": \"input 8 | dense 3 | scaffold\", \"optimizer\": \"sgd+scaffold\", " PRIVATE,
         "optimizer", "scaffold"},
        {DENSE PRIVATE ", \"optimizer\": \"momentum:m=0.9+mask\"", "optimizer", "leave +mask out"},
        {DENSE PRIVATE ", \"selection\": \"weighted\"", "selection", "how many samples"},
        {"\"model\": \"input 8 | dense 3 | bn\", " PRIVATE, "model", "running statistics"},
        {BN "\"private_layers\": \"head\", " PRIVATE, "model", "let private_layers be bn"},
        {DENSE "\"codec_up\": \"ring:b=16\", \"clip\": 1, \"cohort\": 1000000", "cohort",
         "32 bits"},
        {DENSE "\"codec_down\": \"ring\"", "codec_down", "updates of private tasks"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        fed_error err = {0};
        fedserver_config config;
        char key[64];
        snprintf(key, sizeof key, "\"%s\"", wrong[k].key);
        assert_fed_status(read_task(wrong[k].text, &config, &err), FED_EINVAL);
        if (strstr(err.text, key) == NULL || strstr(err.text, wrong[k].why) == NULL) {
            fail_msg("%s: %s", wrong[k].text, err.text);
        }
    }
}

/* A task of groups says what devices are promised of each sum, and what its rounds need. */
FED_TEST(groups_go_with_median_and_trimmed) {
    static const char *const strategies[] = {"median", "trimmed:p=0.2", "median+fedadam"};
    const fed_layout layout = {.size = 27};
    for (size_t k = 0; k < 3; k++) {
        fed_error err = {0};
        fedserver_config config;
        char more[300];
        snprintf(more, sizeof more,
                 DENSE PRIVATE ", \"strategy\": \"%s\", \"groups\": 3, \"minimum\": 3,"
                               " \"phases\": [{\"round\": 2, \"batch\": 4}]",
                 strategies[k]);
        assert_fed_ok_err(read_task(more, &config, &err));
        assert_int_equal(fedserver_task_groups(&config.task), 3);
        assert_int_equal(fedserver_round_least(&config.task.rules), 9);
        assert_int_equal(fedserver_privacy_of(&config.task, &layout).minimum, 3);
    }
}

/* Each of four groups has all of the noise, and a median is worse than a mean by sqrt(pi / 2). */
FED_TEST(the_noise_of_groups_is_told) {
    fed_error err = {0};
    fedserver_config config;
    const fed_layout layout = {.size = 27};
    assert_fed_ok_err(read_task(
        DENSE PRIVATE ", \"epsilon\": 8, \"delta\": 1e-5, \"participations\": 2", &config, &err));
    const fedserver_promise before = fedserver_promise_of(&config.task, &layout);
    config.task.rules.groups = 4;
    const fedserver_promise after = fedserver_promise_of(&config.task, &layout);
    assert_true(before.z == after.z && before.cost == after.cost);
    assert_true(fabs(after.ratio / before.ratio - 2 * sqrt(acos(-1) / 2)) < 1e-9);
}

#define PROMISE PRIVATE ", \"epsilon\": 8, \"delta\": 1e-5, \"participations\": 8"

FED_TEST(a_clip_that_follows_a_quantile_needs_a_promise_and_a_goal) {
    static const struct {
        const char *text, *key, *why;
    } wrong[] = {
        {DENSE PRIVATE ", \"clip_quantile\": 0.5", "clip_quantile", "belongs to a promise"},
        {DENSE "\"codec_up\": \"sbc\", \"clip_quantile\": 0.5", "clip_quantile",
         "belongs to a promise"},
        {DENSE PROMISE ", \"clip_quantile\": 1", "clip_quantile", "from 0.01 to 0.99"},
        {DENSE PROMISE ", \"clip_quantile\": 0.5, \"apart\": 2, \"selection\": \"round_robin\"",
         "clip_quantile", "leave clip_quantile or apart out"},
        {DENSE PROMISE ", \"clip_quantile\": 0.5, \"strategy\": \"median\", \"groups\": 3,"
                       " \"minimum\": 3",
         "clip_quantile", "leave clip_quantile or groups out"},
        {DENSE PROMISE ", \"clip_quantile\": 0.5", "goal",
         "(z = 1.80) hides who is clipped in rounds of more devices only; let goal be 19 at least"},
    };
    fed_error err = {0};
    fedserver_config config;
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\"", wrong[k].key);
        assert_fed_status(read_task(wrong[k].text, &config, &err), FED_EINVAL);
        if (strstr(err.text, key) == NULL || strstr(err.text, wrong[k].why) == NULL) {
            fail_msg("%s: %s", wrong[k].text, err.text);
        }
    }
    static const char enough[] =
        "{\"rounds\": 9, \"goal\": 19, \"clip_quantile\": 0.5, " DENSE PROMISE "}";
    assert_fed_ok_err(fedserver_config_parse("task.json", enough, strlen(enough), &config, &err));
    assert_true(fedserver_task_adapts(&config.task) && fedserver_task_clip(&config.task) == 0.5F);
    config.task.round_clip = 0.25F;
    const fed_layout layout = {.size = 27};
    const fed_privacy told = fedserver_privacy_of(&config.task, &layout);
    assert_true(told.counted && told.clip == 0.25F);
}

FED_TEST(a_phase_that_keeps_the_codec_goes_with_it) {
    fed_error err = {0};
    fedserver_config config;
    assert_fed_ok_err(
        read_task(DENSE PRIVATE ", \"phases\": [{\"round\": 2, \"batch\": 4}]", &config, &err));
    assert_fed_ok_err(read_task(DENSE PRIVATE
                                ", \"strategy\": \"fedadam\", \"selection\": \"round_robin\"",
                                &config, &err));
}
