/* Test, by an exchange of known values, whether the NICs exist that the option nic=packet needs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fedclient/datacenter/nic/nic.h"
#include "fedclient/datacenter/worker/worker_impl.h"
#include "fedcodec/bursts.h"

/* Value i tests rank (i / PROBES) % workers. That rank puts in a fraction (the probe), the next
 * rank 1, the others 0. A NIC rounds the fraction before 1 is added. The sum is above 1, and NICs
 * do not change such values. So the sum minus 1 is the probe if no NIC was on the way, else the
 * rounded probe. A NIC with a different bound rounds some probes differently. */
enum { PROBES = 8 };

static float probe_at(size_t i) {
    /* NICs keep at most one of these two bits */
    const float fine = 1.0F / (1 << 15) + 1.0F / (1 << 17);
    return 1.0F / (float)(2U << (i % PROBES)) + fine;
}

static uint32_t prober_of(const feddc_worker *w, size_t i) {
    return (uint32_t)(i / PROBES % w->workers);
}

static void fill(const feddc_worker *w, float *grad) {
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t prober = prober_of(w, i);
        grad[i] = w->rank == prober                      ? probe_at(i)
                  : w->rank == (prober + 1) % w->workers ? 1.0F
                                                         : 0.0F;
    }
}

typedef struct finding {
    bool probed[FEDDC_RANKS], rounded[FEDDC_RANKS];
} finding;

static fed_status detector(const feddc_worker *w, const float *sum, int e, finding *found,
                           fed_error *err) {
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t rank = prober_of(w, i);
        const float probe = probe_at(i);
        float wanted = 0;
        fedcodec_bursts_round(e, &probe, &wanted, 1);
        found->probed[rank] = true;
        found->rounded[rank] = found->rounded[rank] || sum[i] == 1 + wanted;
        if (sum[i] != 1 + wanted && sum[i] != 1 + probe) {
            return fed_fail(err, FED_ESTATE,
                            "a NIC rounds what rank %" PRIu32
                            " sends, but not with the bound 2^-%d: give NICs and workers the "
                            "same bound",
                            rank, e);
        }
    }
    return FED_OK;
}

fed_status feddc_worker_find_nics(feddc_worker *w, fed_error *err) {
    feddc_nic nic;
    finding found = {{false}, {false}};
    FED_TRY(feddc_nic_parse(w->o.exchange.nic, &nic, err));
    if (nic.kind != FEDDC_NIC_PACKET || w->workers < 2) {
        return FED_OK;
    }
    fill(w, w->words);
    FED_TRY(feddc_worker_turn(w, false, w->words, w->n, err));
    FED_TRY(detector(w, w->words, nic.e, &found, err));
    uint32_t rank = 0;
    while (rank < w->workers && (found.rounded[rank] || !found.probed[rank])) {
        rank++;
    }
    if (rank < w->workers && w->rank == 0) { /* all ranks have the same result; rank 0 reports it */
        snprintf(w->remark, sizeof w->remark,
                 "no NIC compresses what rank %" PRIu32
                 " sends, so it arrives as float32: start fednic on its host",
                 rank);
    }
    return FED_OK;
}
