/* Compiled by bindings.modules: a device and a codec, with modules and no #include, as in Swift. */
/* SPDX-License-Identifier: Apache-2.0 */
#pragma clang module import FedClient
#pragma clang module import FedCodecs
#pragma clang module import FedCommon

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    if (round->arch->layout.size == 0) {
        return fed_fail_with(err, FED_EDECLINED, "no values");
    }
    round->values[0] += round->task->learning_rate;
    round->samples = 1;
    return fedclient_round_wanted(round, err);
}

const char *take_part(const char *server, const char *ca, const char *state, const char *token) {
    static fed_error err;
    fedclient_app *app = 0;
    fedclient_event event = {.outcome = FEDCLIENT_WAITED};
    const fedclient_options options = {.server = server, .train = train};
    if (fedclient_app_open(&options, ca, state, &app, &err) == FED_OK &&
        fedclient_enrol(fedclient_app_client(app), token, &err) == FED_OK) {
        while (event.outcome != FEDCLIENT_FINISHED &&
               fedclient_step(fedclient_app_client(app), &event, &err) == FED_OK) {
            fed_sleep_ms(event.wait_ms);
        }
    }
    fedclient_app_close(app);
    return fed_error_text(&err);
}

fed_status shrink(const float *x, unsigned n, float *residual, fed_writer *out, fed_error *err) {
    fed_writer_growing(out);
    return fedcodec_array_encode("sbc:p=0.01", x, n, residual, out, err);
}
