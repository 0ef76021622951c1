/* Every program names the word of its command line that is wrong, and says what is wrong. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_program.h"

#include <unistd.h>

typedef struct line {
    const char *program, *words, *says;
} line;

static void assert_refused(const line *l) {
    fed_program p;
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        skip();
    }
    fed_program_open(&p, l->program);
    assert_runs(&p, l->words, 2, l->says);
    if (strncmp(p.out, l->program, strlen(l->program)) != 0) {
        fail_msg("%s %s does not begin with the error: %s", l->program, l->words, p.out);
    }
    fed_program_close(&p);
}

static void assert_each_refused(const line *lines, size_t count) {
    for (size_t k = 0; k < count; k++) {
        assert_refused(&lines[k]);
    }
}

#define ASSERT_EACH_REFUSED(lines) assert_each_refused(lines, sizeof(lines) / sizeof(lines)[0])

FED_TEST(an_unknown_command) {
    static const line lines[] = {
        {"fedserver", "", "a command is missing: the commands are init, run"},
        {"fedserver", "tsks", "unknown command tsks: did you mean tasks?"},
        {"fedserver", "nonesuch", "unknown command nonesuch: the commands are init, run"},
        {"fedserver", "--dir x token", "unknown command --dir: the commands are"},
        {"fedtrain", "", "a command is missing: the commands are train"},
        {"fedtrain", "trian", "unknown command trian: did you mean train?"},
        {"fedtrain", "nonesuch", "unknown command nonesuch: the commands are train"},
        {"fedworker", "", "a command is missing: the commands are train"},
        {"fedworker", "lunch", "unknown command lunch: did you mean launch?"},
        {"fedworker", "nonesuch", "unknown command nonesuch: the commands are train"},
        {"fedsim", "", "a command is missing: the commands are run, report, keys"},
        {"fedsim", "repot", "unknown command repot: did you mean report?"},
        {"fedsim", "nonesuch", "unknown command nonesuch: the commands are run, report, keys"},
        {"fedcodec", "", "a command is missing: the commands are encode"},
        {"fedcodec", "decdoe", "unknown command decdoe: did you mean decode?"},
        {"fedcodec", "nonesuch", "unknown command nonesuch: the commands are encode"},
    };
    ASSERT_EACH_REFUSED(lines);
}

FED_TEST(an_unknown_option) {
    static const line lines[] = {
        {"fedserver", "token --nonesuch", "unknown option --nonesuch"},
        {"fedserver", "token --nonesuch=3", "unknown option --nonesuch\n"},
        {"fedserver", "token -x", "unknown option -x: options begin with --"},
        {"fedserver", "token -dir x", "unknown option -d: options begin with --"},
        {"fedserver", "token --dir x --bind y", "token has no option --bind"},
        {"fedserver", "run --de x",
         "--de is short for several options: --devices-port, --device-days"},
        {"fedserver", "tasks --json=yes", "--json takes no value"},
        {"fedclientd", "--d x",
         "--d is short for several options: --downloads-ca, --data, --dataset, --device"},
        {"fedclientd", "--nonesuch", "unknown option --nonesuch"},
        {"fedclientd", "--verbose=yes", "--verbose takes no value"},
        {"fedclientd", "more", "\"more\" is not an option"},
        {"fednic", "--nonesuch", "unknown option --nonesuch"},
        {"fedtrain", "train --nonesuch", "unknown option --nonesuch"},
        {"fedtrain", "evaluate --csv x", "evaluate has no option --csv"},
        {"fedworker", "train --nonesuch", "unknown option --nonesuch"},
        {"fedworker", "predict --nonesuch", "unknown option --nonesuch"},
        {"fedworker", "launch --nonesuch", "unknown option --nonesuch"},
        {"fedworker", "devices --nonesuch", "--nonesuch"},
        {"fedworker", "train --server https://localhost --nonesuch", "unknown option --nonesuch"},
        {"fedsim", "run --nonesuch", "unknown option --nonesuch"},
        {"fedsim", "report", "report lacks the DIR of a run"},
        {"fedcodec", "encode --nonesuch", "encode has no option --nonesuch"},
        {"fedcodec", "compare --nonesuch", "compare has no option --nonesuch"},
    };
    ASSERT_EACH_REFUSED(lines);
}

FED_TEST(a_missing_value) {
    static const line lines[] = {
        {"fedserver", "token --dir", "a value is missing after --dir"},
        {"fedserver", "token --dir ''", "the value of --dir is empty"},
        {"fedserver", "init --dir x --host ''", "the value of --host is empty"},
        {"fedclientd", "--server", "a value is missing after --server"},
        {"fednic", "--wire", "a value is missing after --wire"},
        {"fedtrain", "train --model", "a value is missing after --model"},
        {"fedworker", "train --model", "a value is missing after --model"},
        {"fedworker", "predict --model", "a value is missing after --model"},
        {"fedsim", "run --out", "a value is missing after --out"},
        {"fedcodec", "encode --codec", "a value is missing after --codec"},
    };
    ASSERT_EACH_REFUSED(lines);
}

FED_TEST(a_value_that_an_option_can_not_have) {
    static const line lines[] = {
        {"fedserver", "run --dir x --task-memory 8GB",
         "--task-memory is a number from 0.001 to 1000000, not 8GB"},
        {"fedserver", "run --dir x --task-memory nan", "not nan"},
        {"fedserver", "run --dir x --task-memory ''", "not \"\""},
        {"fedserver", "run --dir x --front-port 65536",
         "--front-port is a whole number from 0 to 65535, not 65536"},
        {"fedserver", "token --dir x --count 1x",
         "--count is a whole number from 1 to 1000000, not 1x"},
        {"fedserver", "token --dir x --hours -1",
         "--hours is a whole number from 1 to 1000000, not -1"},
        {"fedserver", "token --dir x --role king",
         "--role must be device, evaluator, operator or helper"},
        {"fedserver", "run --dir x --log xml", "--log is text or json, not xml"},
        {"fedserver", "front --dir x --log ''", "the value of --log is empty"},
        {"fedclientd", "--log xml", "--log is text or json, not xml"},
        {"fedworker", "train --server https://localhost --log ''", "--log is text or json, not"},
        {"fedclientd", "--slots 0", "--slots takes 1 to"},
        {"fedclientd", "--least-devices 1", "--least-devices is a whole number from 2 to"},
        {"fedclientd", "--server https://localhost --ca x --state x --data x --private",
         "--private needs --helper FILE: get helper.pem from the helper's party"},
        {"fedclientd", "--hold 8GB", "--hold takes 0 to 3600 seconds, not 8GB"},
        {"fedclientd", "--shard 3", "--shard is K/N"},
        {"fednic", "--bound 10", "--bound is a power of two from 2^-1 to 2^-15"},
        {"fedtrain", "train --batch 8GB",
         "--batch is a whole number from 1 to 4294967295, not 8GB"},
        {"fedworker", "train --workers 8GB", "--workers is a whole number from 1 to"},
        {"fedworker", "train --lr 8GB", "--lr is a number above 0, not 8GB"},
        {"fedsim", "run data=x model=lr rounds=8GB", "rounds"},
        {"fedcodec", "encode --codec float32 --threads 8GB a b",
         "--threads is a whole number from 0 to 4294967295, not 8GB"},
    };
    ASSERT_EACH_REFUSED(lines);
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
