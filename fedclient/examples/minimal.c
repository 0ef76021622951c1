/*
 * The smallest device: a program that embeds the client library and has its own training, steps of
 * softmax regression (model "lr") on made-up samples.
 *
 *     minimal https://127.0.0.1:8443 ca.pem TOKEN
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fedclient/fedclient.h"

enum { PIXELS = 784, CLASSES = 10, SAMPLES = 100 };

/** Made-up data: in samples of class k, every tenth pixel from pixel k on is bright. */
static float pixel(int sample, int i) {
    return i % CLASSES == sample % CLASSES ? 1.0f : 0.1f * (float)(sample % 7);
}

/** Train with one gradient step for each sample. w: weights (CLASSES, PIXELS), then biases. */
static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    float *w = round->values, *bias = w + CLASSES * PIXELS, loss = 0;
    if (round->arch->layout.size != CLASSES * PIXELS + CLASSES) {
        return fed_fail(err, FED_EINVAL, "this device trains the model \"lr\" only");
    }
    for (int n = 0; n < SAMPLES; n++) {
        float p[CLASSES], sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            float score = bias[c];
            for (int i = 0; i < PIXELS; i++) {
                score += w[c * PIXELS + i] * pixel(n, i);
            }
            sum += p[c] = expf(score);
        }
        loss -= logf(p[n % CLASSES] / sum) / SAMPLES;
        for (int c = 0; c < CLASSES; c++) {
            float step =
                round->task->learning_rate * (p[c] / sum - (c == n % CLASSES ? 1.0f : 0.0f));
            bias[c] -= step;
            for (int i = 0; i < PIXELS; i++) {
                w[c * PIXELS + i] -= step * pixel(n, i);
            }
        }
    }
    round->samples = SAMPLES;
    round->loss = loss;
    return FED_OK;
}

static fed_status take_part(fedclient *client, const char *token, fed_error *err) {
    FED_TRY(fedclient_token_give(client, token, err));
    for (fedclient_event event = {0}; !event.over;) {
        FED_TRY(fedclient_step(client, &event, err));
        if (event.outcome == FEDCLIENT_COUNTED) {
            printf("round %u: loss %.4f\n", event.round, (double)event.loss);
        }
        fed_sleep_ms(event.wait_ms);
    }
    return FED_OK;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: minimal https://HOST:PORT CA.PEM [TOKEN]\n");
        return 2;
    }
    fed_error err = {0};
    char *ca = NULL;
    size_t len = 0;
    fedclient_platform platform = {0};   /* keeps the state in ./device-state */
    fedclient_transport transport = {0}; /* HTTPS that trusts this CA */
    fedclient *client = NULL;
    const fedclient_options options = {.server = argv[1],
                                       .platform = &platform,
                                       .transport = &transport,
                                       .hold_ms = 25000,
                                       .train = train};
    bool ok = fed_file_read_text(argv[2], 65536, &ca, &len, &err) == FED_OK &&
              fedclient_platform_posix_open("device-state", &platform, &err) == FED_OK &&
              fedclient_transport_open(NULL, &(fedclient_transport_options){.ca_pem = ca},
                                       &transport, &err) == FED_OK &&
              fedclient_open(&options, &client, &err) == FED_OK &&
              take_part(client, argc > 3 ? argv[3] : "", &err) == FED_OK;
    if (!ok) {
        fprintf(stderr, "minimal: %s\n", err.text);
    }
    fedclient_close(client);
    fedclient_transport_close(&transport);
    fedclient_platform_posix_close(&platform);
    free(ca);
    return ok ? 0 : 1;
}
