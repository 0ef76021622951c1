/* Functions on the state of the rounds that several files use. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/rounds.h"

#include <stdlib.h>

#include "fedserver/rounds/closing.h"

void fedserver_training_free(fedserver_training *training) {
    fedserver_closing_drop(training->closing); /* it reads the versions, and the layout */
    fedserver_closing_drop(training->tidying);
    fedserver_downloads_free(&training->downloads);
    fedserver_versions_free(&training->versions);
    fedserver_sum_free(&training->sum);
    free(training->state);
    fed_arch_free(&training->arch);
    *training = (fedserver_training){0};
}

void fedserver_rounds_free(fedserver_rounds *rounds) {
    fedserver_training_free(&rounds->training);
    fedserver_devices_free(&rounds->devices);
}

fedserver_archive fedserver_rounds_archive(const fedserver_rounds *rounds,
                                           const fedserver_training *t) {
    return (fedserver_archive){.store = rounds->store,
                               .db = rounds->db,
                               .task = t->task.wire.id,
                               .layout = &t->arch.layout,
                               .log = rounds->log};
}

fedserver_round_row fedserver_round_row_of(const fedserver_training *t) {
    return (fedserver_round_row){.number = t->round.number,
                                 .attempts = t->round.attempt,
                                 .opened_ms = t->round.opened_ms,
                                 .deadline_ms = t->round.deadline_ms,
                                 .closing_ms = t->round.closing_ms};
}

fed_status fedserver_round_save(fedserver_rounds *rounds, const fedserver_training *t,
                                fed_error *err) {
    fedserver_round_row row = fedserver_round_row_of(t);
    return rounds->store->round_put(rounds->db, t->task.wire.id, &row, err);
}
