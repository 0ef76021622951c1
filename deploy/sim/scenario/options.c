/* What a run is asked to do is looked through before anything is done. */
#include "deploy/sim/scenario/options.h"

#include <stdio.h>

#include "deploy/sim/conditions/network.h"
#include "deploy/sim/conditions/presence.h"
#include "deploy/sim/conditions/speed.h"

static bool given(const char *spec) {
    return spec != NULL && spec[0] != '\0';
}

static fed_status check_numbers(const sim_options *o, fed_error *err) {
    if (o->clients == 0 || o->threads == 0 || o->evaluate_every == 0) {
        return fed_fail(err, FED_EINVAL,
                        "clients, threads and evaluate_every must be 1 or more, not %u, %u and %u",
                        o->clients, o->threads, o->evaluate_every);
    }
    if (!(o->offline >= 0 && o->offline < 1 && o->broken >= 0 && o->broken < 1 && o->hostile >= 0 &&
          o->hostile <= 1)) {
        return fed_fail(err, FED_EINVAL,
                        "offline (%g) and broken (%g) are fractions from 0 to below 1, hostile "
                        "(%g) one from 0 to 1",
                        o->offline, o->broken, o->hostile);
    }
    return FED_OK;
}

/** Over HTTPS time is real, and nothing is kept of the clients. */
static fed_status check_https(const sim_options *o, fed_error *err) {
    if (o->transport != SIM_HTTPS) {
        return FED_OK;
    }
    if (given(o->line) || given(o->speed) || given(o->presence)) {
        return fed_fail(err, FED_EINVAL,
                        "lines, speeds and presence are of virtual time: they need transport "
                        "inproc, or have to be left out");
    }
    if (o->state != NULL) {
        return fed_fail(
            err, FED_EINVAL,
            "a run over https can't be resumed: use transport inproc, or keep no state");
    }
    return FED_OK;
}

fed_status sim_options_check(const sim_options *o, fed_error *err) {
    FED_TRY(check_numbers(o, err));
    FED_TRY(check_https(o, err));
    if (o->resume && o->state == NULL) {
        return fed_fail(err, FED_EINVAL, "to resume, name the directory that keeps the state");
    }
    sim_network network;
    sim_speed speed;
    sim_presence presence = {0};
    FED_TRY(sim_network_parse(o->line, &network, err));
    FED_TRY(sim_speed_parse(o->speed, &speed, err));
    fed_status status = sim_presence_parse(o->presence, o->clients, &presence, err);
    sim_presence_free(&presence);
    return status;
}

void sim_options_state_path(const sim_options *options, const char *name, char *path, size_t cap) {
    snprintf(path, cap, "%s/%s", options->state, name);
}
