// A device in C++17: its training pulls each value a little towards 0.
/* SPDX-License-Identifier: Apache-2.0 */
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "fed/clock.h"
#include "fed/file.h"
#include "fedclient/fedclient.h"

namespace {

fed_status train(void *, fedclient_round *round, fed_error *) noexcept {
    for (std::size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] *= 1.0f - round->task->learning_rate;
    }
    round->samples = 100;
    round->loss = 1.0f;
    return FED_OK;
}

struct Device {
    fedclient_platform platform{};
    fedclient_transport transport{};
    fedclient *client = nullptr;

    fed_status open(const char *server, const char *ca_pem, fed_error &err) {
        FED_TRY(fedclient_platform_posix_open("device-state", &platform, &err));
        fedclient_transport_options trust{};
        trust.ca_pem = ca_pem;
        FED_TRY(fedclient_transport_open(nullptr, &trust, &transport, &err));
        fedclient_options options{};
        options.server = server;
        options.platform = &platform;
        options.transport = &transport;
        options.hold_ms = 25000;
        options.train = train;
        return fedclient_open(&options, &client, &err);
    }

    fed_status take_part(const char *token, fed_error &err) {
        FED_TRY(fedclient_enrol(client, token, &err));
        for (fedclient_event event{}; event.outcome != FEDCLIENT_FINISHED;) {
            FED_TRY(fedclient_step(client, &event, &err));
            if (event.outcome == FEDCLIENT_COUNTED) {
                std::printf("round %u counted\n", event.round);
            }
            fed_sleep_ms(event.wait_ms);
        }
        return FED_OK;
    }

    ~Device() {
        fedclient_close(client);
        fedclient_transport_close(&transport);
        fedclient_platform_posix_close(&platform);
    }
};

fed_status run(char **argv, fed_error &err) {
    uint8_t *text = nullptr;
    std::size_t len = 0;
    FED_TRY(fed_file_read(argv[2], 65536, &text, &len, &err));
    std::unique_ptr<uint8_t, decltype(&std::free)> ca(text, &std::free);
    Device device;
    FED_TRY(device.open(argv[1], reinterpret_cast<const char *>(text), err));
    return device.take_part(argv[3], err);
}

} // namespace

int main(int argc, char **argv) {
    fed_error err{};
    if (argc != 4 || run(argv, err) != FED_OK) {
        std::fprintf(stderr, "device++: %s\n", err.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
