/* Settings of a member, compared with those of the worker group: which differ, and how. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/bytes.h"
#include "fedclient/datacenter/control/group_settings.h"

static const struct comparison {
    const char *member, *group;
    const char *says; /* NULL: the settings are equal */
} comparisons[] = {
    {"", "", NULL},
    {"batch=8\nlr=0.1\n", "batch=8\nlr=0.1\n", NULL},
    {"batch=8\nlr=0.1\n", "lr=0.1\nbatch=8\n", NULL},
    {"batch=8\nnew=\n", "batch=8\n", NULL},
    {"batch=8\n", "batch=8\nnew=\n", NULL},
    {"batch=8\n", "batch=80\n", "its batch is \"8\", and the worker group's is \"80\"; give all"},
    {"batch=8\n", "batch=\n", "its batch is \"8\", and the worker group's is \"\""},
    {"batch=8\n", "batch=8\nnic=inline\n", "its nic is \"\", and the worker group's is \"inline\""},
    {"batch=8\nnic=inline\n", "batch=8\n", "its nic is \"inline\", and the worker group's is \"\""},
    {"a=1\nb=2\nc=3\n", "a=1\nb=1\nc=1\n",
     "its b is \"2\", and the worker group's is \"1\"; also "
     "different: c; give all"},
    {"a=1\nb=2\nc=3\nd=4\n", "d=1\na=1\n",
     "its d is \"4\", and the worker group's is \"1\"; also "
     "different: b, c; give all"},
    {"model=input 1x28x28 | conv 6 5 | relu | dense 10 | dropout 0.5 | dense 10\n",
     "model=input 1x28x28 | conv 6 5 | relu | dense 10 | dropout 0.25 | dense 10\n",
     "its model is \"... 10 | dropout 0.5 | dense 10\", and the worker group's is \"... 10 | "
     "dropout 0.25 | dense 10\""},
    {"name=\033[1m\r\n", "name=b\n", "its name is \"?[1m?\""},
    {"no equals sign", "no equals sign\n", NULL},
    {"", "batch=8\n", "it does not tell its settings: use the same release"},
    {"batch=8\n", "", "tell no settings: use the same release"},
};

FED_TEST(settings_that_differ_are_named) {
    for (size_t k = 0; k < sizeof comparisons / sizeof comparisons[0]; k++) {
        const struct comparison *c = &comparisons[k];
        char why[300] = "";
        const bool equal = feddc_group_settings_equal(c->member, c->group, why, sizeof why);
        assert_int_equal(equal, c->says == NULL);
        if (c->says != NULL && strstr(why, c->says) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", why, c->says);
        }
    }
}

FED_TEST(a_sentence_about_long_settings_fits) {
    char member[FEDDC_SETTINGS] = "", group[FEDDC_SETTINGS] = "", why[280] = "";
    for (size_t k = 0; k < 15; k++) {
        fed_writer w;
        fed_writer_fixed(&w, member + strlen(member), sizeof member - strlen(member));
        fed_write_printf(&w, "%zu-%040d=%050d\n", k, 0, 1);
        fed_writer_fixed(&w, group + strlen(group), sizeof group - strlen(group));
        fed_write_printf(&w, "%zu-%040d=%050d\n", k, 0, 2);
    }
    assert_false(feddc_group_settings_equal(member, group, why, sizeof why));
    assert_non_null(strstr(why, "give all machines the same options and data"));
}
