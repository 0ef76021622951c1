/* A small LSTM on real text: it must learn more than how frequent each character is.
 *
 *   FED_TEXT_DIR    else ../shared/data/text
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>

#include "fed/arch.h"
#include "fedtrain/text.h"
#include "fedtrain/train.h"

enum { SKIPPED = 77, BATCH = 16 };

static fedtrain_text train, test;

/* Return the loss in nats if each character was predicted from its frequency alone. */
static double entropy_of(const fedtrain_text *text) {
    size_t count[256] = {0};
    double entropy = 0;
    for (size_t i = 0; i < text->count; i++) {
        count[text->token[i]]++;
    }
    for (size_t k = 0; k < 256; k++) {
        double share = (double)count[k] / (double)text->count;
        entropy -= count[k] > 0 ? share * log(share) : 0;
    }
    return entropy;
}

FED_TEST(test_an_lstm_learns_shakespeares_spelling) {
    char model[200];
    fed_arch arch;
    fedtrain_net *net;
    fed_error err = {0};
    unsigned letters = (unsigned)fedtrain_vocabulary_size(train.words);
    snprintf(model, sizeof model,
             "input tokens 32 of %u | embedding 32 | lstm 96 | dropout 0.1 | dense %u each",
             letters, letters);
    assert_fed_ok_err(fed_arch_parse(model, &arch, &err));
    assert_fed_ok(fedtrain_net_new(&arch, BATCH, NULL, &net, NULL));
    fedtrain_job job = {
        .net = net, .token = train.token, .token_count = train.count, .steps = 50, .batch = BATCH};
    assert_fed_ok_err(fed_optimizer_parse("adam:lr=0.01", 0, &job.optimizer, &err));
    float *params = malloc(arch.layout.size * sizeof *params);
    float *moments =
        calloc(fedtrain_optimizer_state_size(&job.optimizer, arch.trained), sizeof *moments);
    assert_true(params != NULL && moments != NULL);
    fed_arch_init_values(&arch, 1, params);
    float loss = 0;
    for (job.round = 0; job.round < 4; job.round++) {
        assert_fed_ok_err(fedtrain_run(&job, params, moments, &loss, &err));
    }
    fedtrain_score score;
    size_t some = test.count < 10000 ? test.count : 10000;
    assert_fed_ok_err(fedtrain_evaluate_text(net, BATCH, test.token, some, params, &score, &err));
    double entropy = entropy_of(&train);
    printf("loss %.3f, on other plays %.3f (%.1f %% right); by frequency %.3f\n", (double)loss,
           (double)score.loss, 100.0 * (double)score.correct / (double)score.samples, entropy);
    assert_true(score.loss < 0.75 * entropy);
    assert_true(score.correct > score.samples / 3);
    free(params);
    free(moments);
    fedtrain_net_free(net);
    fed_arch_free(&arch);
}

static const char *directory(void) {
    const char *set = getenv("FED_TEXT_DIR");
    return set != NULL ? set : FED_SOURCE_DIR "/../shared/data/text";
}

int main(void) {
    fed_error err = {0};
    if (fedtrain_text_open("shakespeare", directory(), "train", NULL, &train, &err) != FED_OK ||
        fedtrain_text_open("shakespeare", directory(), "test", train.words, &test, &err) !=
            FED_OK) {
        fedtrain_text_free(&train);
        printf("skipped: %s\n", err.text);
        return SKIPPED;
    }
    int failed = fed_cases_run(NULL, NULL);
    fedtrain_text_free(&test);
    fedtrain_text_free(&train);
    return failed;
}
