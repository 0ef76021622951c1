/* The clients' links: reads a spec, draws each client's class, computes how long bytes take. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/conditions/network.h"

#include <stdio.h>
#include <string.h>

#include "deploy/sim/conditions/streams.h"
#include "fed/params.h"
#include "fed/rng.h"

typedef struct named_link {
    const char *name;
    sim_link link;
} named_link;

static const named_link classes[] = {
    {"3g", {0.768e6, 1.6e6, 0.300}}, {"4g", {9e6, 9e6, 0.170}}, {"lte", {12e6, 12e6, 0.070}},
    {"wifi", {5e6, 20e6, 0.010}},    {"lan", {0, 0, 0}},
};

static const fed_param own[] = {
    {.key = "up", .low = 0, .high = 1e12, .help = "bit/s; 0: no limit"},
    {.key = "down", .low = 0, .high = 1e12, .help = "bit/s; 0: no limit"},
    {.key = "latency", .low = 0, .high = 3600, .help = "seconds a round trip"},
    {.key = NULL}};

static fed_status parse_class(const char *text, sim_link *link, fed_error *err) {
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strcmp(text, classes[i].name) == 0) {
            *link = classes[i].link;
            return FED_OK;
        }
    }
    if (strchr(text, '=') == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "unknown link \"%.60s\": write 3g, 4g, lte, wifi, lan, or numbers such as "
                        "up=1e6,down=5e6,latency=0.05",
                        text);
    }
    char numbers[520];
    double value[3];
    snprintf(numbers, sizeof numbers, ":%s", text);
    FED_TRY(fed_params_read("link", "class", own, numbers, value, err));
    *link = (sim_link){.up_bps = value[0], .down_bps = value[1], .latency_s = value[2]};
    return FED_OK;
}

/** Read a class and its share, such as "3g:0.5". Changes text. */
static fed_status parse_part(char *text, sim_network *network, fed_error *err) {
    double share = 1;
    char *colon = strrchr(text, ':');
    if (colon != NULL) {
        *colon = '\0';
        fed_word word = {.text = colon + 1, .len = strlen(colon + 1)};
        if (!fed_word_number(word, &share) || !(share > 0 && share <= 1e6)) {
            return fed_fail(
                err, FED_EINVAL,
                "link \"%.60s\": write the link's share of the clients after ':', such as 0.5, "
                "not \"%.30s\"",
                text, colon + 1);
        }
    }
    if (network->count == SIM_LINKS) {
        return fed_fail(err, FED_EINVAL, "a mixture of links has at most %d classes", SIM_LINKS);
    }
    FED_TRY(parse_class(text, &network->link[network->count], err));
    network->share[network->count++] = share;
    return FED_OK;
}

/** Return the next '+' between classes, not one in a number such as 1e+6; NULL: there is none. A
 * class may begin with a digit, so fed_spec_plus can't be used. */
static char *next_class(char *text) {
    char *plus = strchr(text, '+');
    while (plus != NULL && plus - text >= 2 && plus[-1] == 'e' && strchr("0123456789.", plus[-2])) {
        plus = strchr(plus + 1, '+');
    }
    return plus;
}

fed_status sim_network_parse(const char *spec, sim_network *network, fed_error *err) {
    char text[512];
    spec = spec != NULL && spec[0] != '\0' ? spec : "lan";
    if (strlen(spec) >= sizeof text) {
        return fed_fail(err, FED_EINVAL, "the links' spec is longer than %zu characters",
                        sizeof text - 1);
    }
    memcpy(text, spec, strlen(spec) + 1);
    sim_network parsed = {0};
    for (char *part = text; part != NULL;) {
        char *plus = next_class(part);
        if (plus != NULL) {
            *plus++ = '\0';
        }
        FED_TRY(parse_part(part, &parsed, err));
        part = plus;
    }
    *network = parsed;
    return FED_OK;
}

sim_link sim_network_draw(const sim_network *network, uint64_t seed, uint32_t k) {
    double all = 0;
    for (size_t i = 0; i < network->count; i++) {
        all += network->share[i];
    }
    fed_rng rng;
    fed_rng_init(&rng, seed, k, SIM_STREAM_LINK);
    double left = (double)fed_rng_float(&rng) * all;
    size_t i = 0;
    while (i + 1 < network->count && left >= network->share[i]) {
        left -= network->share[i++];
    }
    return network->link[i];
}

static int64_t travel_us(double latency_s, double bps, uint64_t bytes) {
    double s = latency_s / 2 + (bps > 0 ? 8.0 * (double)bytes / bps : 0);
    return (int64_t)(s * 1e6);
}

int64_t sim_link_up_us(const sim_link *link, uint64_t bytes) {
    return travel_us(link->latency_s, link->up_bps, bytes);
}

int64_t sim_link_down_us(const sim_link *link, uint64_t bytes) {
    return travel_us(link->latency_s, link->down_bps, bytes);
}

int64_t sim_link_connect_us(const sim_link *link) {
    return (int64_t)(2 * link->latency_s * 1e6);
}
