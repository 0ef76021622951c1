/* The choice of a codec for a number of bytes: at the limit, one below, and what is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/arch.h"
#include "fedcodec/envelope.h"
#include "fedserver/task/auto_codec.h"
#include "fedserver/task/config.h"
#include "fedserver/task/task_text.h"

enum { SMALL = 256 };

/* Return the most bytes of an update of LeNet in this codec. */
static size_t bound_of(const char *spec) {
    fed_arch arch;
    fedcodec codec;
    assert_fed_ok(fed_arch_parse("lenet5-caffe", &arch, NULL));
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    const size_t size = fedcodec_envelope_bound(&codec, &arch.layout, SMALL);
    fed_arch_free(&arch);
    return size;
}

static fed_status choose(size_t bytes, char spec[FEDCODEC_SPEC], fed_error *err) {
    fed_arch arch;
    assert_fed_ok(fed_arch_parse("lenet5-caffe", &arch, NULL));
    snprintf(spec, FEDCODEC_SPEC, "auto:bytes=%zu", bytes);
    const fed_status status = fedserver_codec_choose(&arch.layout, SMALL, spec, err);
    fed_arch_free(&arch);
    return status;
}

static void assert_chosen(size_t bytes, const char *wanted) {
    char spec[FEDCODEC_SPEC];
    fed_error err = {0};
    assert_fed_ok_err(choose(bytes, spec, &err));
    assert_string_equal(spec, wanted);
}

FED_TEST(the_budget_is_used_and_kept) {
    const size_t nine = bound_of("eden:p=0.0087890625"), one = bound_of("eden");
    assert_chosen(nine, "eden:bits=1,seed=1,p=0.0087890625");
    assert_chosen(nine - 1, "eden:bits=1,seed=1,p=0.0068359375");
    assert_chosen(bound_of("eden:bits=2"), "eden:bits=2,seed=1");
    assert_chosen((size_t)1 << 30, "eden:bits=4,seed=1");
    char spec[FEDCODEC_SPEC];
    for (size_t bytes = nine; bytes < one; bytes += one / 37) {
        assert_fed_ok(choose(bytes, spec, NULL));
        assert_true(bound_of(spec) <= bytes);
    }
}

FED_TEST(a_budget_that_is_too_small_is_refused_with_the_least) {
    const size_t least = bound_of("eden:p=0.0009765625");
    char spec[FEDCODEC_SPEC], wanted[64];
    fed_error err = {0};
    assert_chosen(least, "eden:bits=1,seed=1,p=0.0009765625");
    assert_fed_status(choose(least - 1, spec, &err), FED_EINVAL);
    snprintf(wanted, sizeof wanted, "give codec auto bytes=%zu or more", least);
    assert_non_null(strstr(err.text, wanted));
}

static void assert_refused(const char *text, const char *why) {
    char spec[FEDCODEC_SPEC];
    fed_layout layout;
    fed_error err = {0};
    fed_layout_init(&layout);
    snprintf(spec, sizeof spec, "%s", text);
    assert_true(fedserver_codec_is_auto(spec));
    assert_fed_status(fedserver_codec_choose(&layout, SMALL, spec, &err), FED_EINVAL);
    assert_non_null(strstr(err.text, why));
    fed_layout_free(&layout);
}

FED_TEST(a_budget_that_is_no_number_is_refused) {
    assert_refused("auto", "bytes");
    assert_refused("auto:loss=1", "codec auto has no parameter");
    assert_refused("auto:bytes=0", "out of range");
    assert_refused("auto:bytes=1.5", "must be a whole number");
    assert_refused("auto:bytes=9+entropy", "is not a decimal number");
    assert_false(fedserver_codec_is_auto("automatic"));
    assert_false(fedserver_codec_is_auto("eden"));
}

static const char asking[] =
    "{\"model\": \"lenet5-caffe\", \"rounds\": 9, \"cohort\": 2, \"small_tensor\": 256,"
    " \"codec_up\": \"auto:bytes=6000\", \"phases\": [{\"round\": 2, \"batch\": 4},"
    " {\"round\": 3, \"codec_up\": \"auto:bytes=60000\"}, {\"round\": 4, \"codec_up\": \"int8\"},"
    " {\"round\": 5}]}";

/* The task has the codec that was chosen, and so has each phase. */
FED_TEST(a_task_and_its_phases_take_what_was_chosen) {
    fedserver_config config;
    fed_error err = {0};
    assert_fed_ok_err(fedserver_config_parse("t.json", asking, sizeof asking - 1, &config, &err));
    assert_true(bound_of(config.task.wire.codec_up) <= 6000);
    assert_true(bound_of(config.task.wire.codec_up) > 5000);
    assert_string_equal(config.task.phases[0].codec_up, config.task.wire.codec_up);
    assert_true(bound_of(config.task.phases[1].codec_up) > 50000);
    static const char little[] = "{\"model\": \"lenet5-caffe\", \"rounds\": 9, \"cohort\": 2,"
                                 "\n \"codec_up\": \"auto:bytes=60\"}";
    assert_fed_status(fedserver_config_parse("t.json", little, sizeof little - 1, &config, &err),
                      FED_EINVAL);
    assert_non_null(strstr(err.text, "t.json:2: key \"codec_up\": updates of this model take"));
}

/* What was asked stays known beside the choice, also in the text that the store keeps. */
FED_TEST(what_was_asked_is_kept_beside_the_choice) {
    static const char *const asked[] = {"auto:bytes=6000", "auto:bytes=60000", "", ""};
    fedserver_config config;
    fedserver_task kept;
    fed_error err = {0};
    fed_writer text;
    fed_writer_growing(&text);
    assert_fed_ok_err(fedserver_config_parse("t.json", asking, sizeof asking - 1, &config, &err));
    fedserver_task_text_write(&config.task, &text);
    assert_fed_ok(text.status);
    assert_fed_ok_err(fedserver_task_text_read(1, (const char *)text.data, text.len, &kept, &err));
    assert_string_equal(kept.codec_up_asked, "auto:bytes=6000");
    assert_string_equal(kept.wire.codec_up, config.task.wire.codec_up);
    for (uint32_t k = 0; k < 4; k++) {
        assert_string_equal(config.task.phases[k].codec_up_asked, asked[k]);
        assert_string_equal(kept.phases[k].codec_up_asked, asked[k]);
        assert_string_equal(kept.phases[k].codec_up, config.task.phases[k].codec_up);
    }
    fed_writer_free(&text);
}

/* A task file can't say that the coordinator has chosen. */
FED_TEST(what_a_task_file_claims_was_asked_is_refused) {
    static const char text[] = "{\"model\": \"lr\", \"rounds\": 1, \"cohort\": 1,"
                               " \"codec_up_asked\": \"auto:bytes=9\"}";
    static const char phase[] = "{\"model\": \"lr\", \"rounds\": 3, \"cohort\": 1, \"phases\":"
                                " [{\"round\": 2,\n \"codec_up_asked\": \"auto:bytes=9\"}]}";
    fedserver_config config;
    fed_error err = {0};
    assert_fed_status(fedserver_config_parse("t.json", text, sizeof text - 1, &config, &err),
                      FED_EINVAL);
    assert_fed_says(err, "t.json:1: key \"codec_up_asked\": the coordinator writes it");
    assert_fed_says(err, "\"codec_up\": \"auto:bytes=N\"");
    assert_fed_status(fedserver_config_parse("t.json", phase, sizeof phase - 1, &config, &err),
                      FED_EINVAL);
    assert_fed_says(err, "t.json:2: ");
}
