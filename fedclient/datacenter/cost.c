/* The cost models of INCEPTIONN and of CD-SGD, and tables of what they predict. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "feddc/cost.h"

#include <math.h>

enum { MOST_WORKERS = 1024, BUCKET = 1 << 20, MOST_BUCKETS = 1024 };

static const char *const way_names[] = {"star", "ring", "owners", "central", "gather"};
static const unsigned ways = sizeof way_names / sizeof way_names[0];

const char *feddc_cost_way_name(feddc_cost_way way) {
    return (unsigned)way < ways ? way_names[way] : "?";
}

/* The work of the busiest rank in one exchange of p workers. Bytes are in units of the gradient's
 * size n. */
typedef struct amounts {
    double hops;       /* messages that must follow one another */
    double messages;   /* messages of a bucket at the busiest rank */
    double push, pull; /* bytes sent before and after the sum is complete */
    double sum;
    double encode_push, decode_push, encode_pull, decode_pull;
    bool side_by_side; /* pulls and pushes travel at the same time */
} amounts;

static amounts amounts_of(feddc_cost_way way, double p) {
    const double others = (p - 1) / p;
    switch (way) {
    case FEDDC_COST_STAR:
        return (amounts){1 + log2(p), p + log2(p), p, log2(p), p - 1, 1, p, 1, 1, false};
    case FEDDC_COST_RING: /* a complete block is encoded once, then only forwarded */
        return (amounts){2 * (p - 1), 2 * (p - 1), others, others, others,
                         others,      others,      1 / p,  1,      false};
    case FEDDC_COST_OWNERS:
        return (amounts){2, 2 * (p - 1), others, others, others, 1, 1, 1 / p, 1, false};
    case FEDDC_COST_CENTRAL:
        return (amounts){2, 2 * p, p, p, p - 1, 1, p, 1, 1, true};
    default:
        return (amounts){1, p - 1, p - 1, 0, p - 1, 1, p, 0, 0, false};
    }
}

/* Seconds on the line for a byte of float32, compressed by `ratio`. beta: seconds per byte of the
 * line. nic: seconds per byte of a compressing NIC. */
static double byte_time(double beta, double ratio, double nic) {
    return ratio > 0 && ratio != 1 ? fmax(beta / ratio, nic) : beta;
}

feddc_cost feddc_cost_exchange(feddc_cost_way way, uint32_t p, double n,
                               const feddc_cost_line *line, const feddc_cost_codec *codec) {
    feddc_cost cost = {0};
    if (p < 2) {
        return cost;
    }
    const amounts a = amounts_of(way, p);
    const bool codes = codec != NULL && codec->push > 0;
    const double beta = line->beta, nic = codes ? codec->nic : 0;
    const double push = a.push * byte_time(beta, codes ? codec->push : 1, nic);
    const double pull = a.pull * byte_time(beta, codes ? codec->pull : 1, nic);
    const double buckets = line->bucket > 0 ? ceil(n / line->bucket) : 1;
    cost.latency = a.hops * line->alpha + buckets * a.messages * line->message;
    cost.wire = (a.side_by_side ? fmax(push, pull) : push + pull) * n;
    cost.sum = a.sum * n * line->gamma;
    if (codes && codec->push != 1) {
        cost.codec += n * (a.encode_push * codec->encode + a.decode_push * codec->decode);
    }
    if (codes && codec->pull > 0 && codec->pull != 1) {
        cost.codec += n * (a.encode_pull * codec->encode + a.decode_pull * codec->decode);
    }
    return cost;
}

feddc_cost feddc_cost_tree(uint32_t p, uint32_t group, double n, const feddc_cost_line *below,
                           const feddc_cost_line *above, const feddc_cost_codec *codec) {
    const uint32_t groups = group > 0 ? p / group : 0;
    feddc_cost cost = feddc_cost_exchange(FEDDC_COST_OWNERS, group, n, below, codec);
    const feddc_cost upper = feddc_cost_exchange(FEDDC_COST_OWNERS, groups, n, above, codec);
    cost.latency += upper.latency;
    cost.wire += upper.wire;
    cost.sum += upper.sum / (group > 0 ? group : 1); /* each worker of a group sums a part */
    cost.codec += upper.codec / (group > 0 ? group : 1);
    return cost;
}

double feddc_cost_communication(const feddc_cost *cost) {
    return cost->latency + cost->wire + cost->sum;
}

double feddc_cost_ssgd(const feddc_cost_step *s) {
    return s->tau + s->phi;
}

double feddc_cost_odsgd(const feddc_cost_step *s) {
    return fmax(s->tau, s->phi);
}

double feddc_cost_bitsgd(const feddc_cost_step *s) {
    return s->tau + s->delta + s->psi;
}

double feddc_cost_cdsgd_exchange(const feddc_cost_step *s, uint64_t i) {
    return s->k > 0 && i % s->k == 0 ? s->phi : s->delta + s->psi;
}

double feddc_cost_cdsgd_at(const feddc_cost_step *s, uint64_t i) {
    return fmax(s->tau, feddc_cost_cdsgd_exchange(s, i));
}

double feddc_cost_cdsgd(const feddc_cost_step *s) {
    /* for k = 1 this value is multiplied by 0 below */
    const double coded = feddc_cost_cdsgd_at(s, 1);
    return s->k == 0 ? coded : ((s->k - 1) * coded + feddc_cost_cdsgd_at(s, 0)) / s->k;
}

double feddc_cost_saved_odsgd(const feddc_cost_step *s, uint64_t i) {
    return feddc_cost_odsgd(s) - feddc_cost_cdsgd_at(s, i);
}

double feddc_cost_saved_bitsgd(const feddc_cost_step *s, uint64_t i) {
    return feddc_cost_bitsgd(s) - feddc_cost_cdsgd_at(s, i);
}

double feddc_cost_exposed(const double *ready, const double *wire, size_t buckets, double end) {
    double done = 0;
    for (size_t b = 0; b < buckets; b++) {
        done = fmax(done, ready[b]) + wire[b];
    }
    return fmax(0, done - end);
}

double feddc_cost_layered(double tau, double exchange, uint32_t buckets) {
    double ready[MOST_BUCKETS], wire[MOST_BUCKETS];
    const uint32_t count = buckets < 1 ? 1 : buckets < MOST_BUCKETS ? buckets : MOST_BUCKETS;
    for (uint32_t b = 0; b < count; b++) {
        ready[b] = tau * (1 + 2.0 * (b + 1) / count) / 3;
        wire[b] = exchange / count;
    }
    return tau + feddc_cost_exposed(ready, wire, count, tau);
}

double feddc_cost_act(const feddc_cost_step *s, const feddc_act *act, uint32_t buckets) {
    const double exchange = act->plain ? s->phi : s->delta + s->psi;
    if (!act->exchange) {
        return s->tau;
    }
    if (act->behind > 0) {
        return fmax(s->tau, exchange);
    }
    return buckets > 0 ? feddc_cost_layered(s->tau, exchange, buckets) : s->tau + exchange;
}

double feddc_cost_sync(const feddc_cost_step *s, const feddc_sync *sync, uint32_t steps,
                       uint32_t buckets) {
    double all = 0;
    for (uint32_t t = 0; t < steps; t++) {
        const feddc_act act = feddc_sync_act(sync, t);
        all += feddc_cost_act(s, &act, buckets);
    }
    return steps > 0 ? all / steps : 0;
}

static uint32_t next_workers(const feddc_cost_inputs *in, uint32_t p) {
    if (p < in->high) {
        return p + 1;
    }
    uint32_t next = 2;
    while (next <= p) {
        next *= 2;
    }
    return next <= MOST_WORKERS ? next : 0;
}

static double bucket_of(const feddc_cost_inputs *in) {
    return in->bucket > 0 ? in->bucket : BUCKET;
}

static feddc_cost_line line_of(const feddc_cost_inputs *in) {
    return (feddc_cost_line){.alpha = in->latency,
                             .beta = 8e-6 / in->mbit,
                             .gamma = in->sum_rate > 0 ? 1 / in->sum_rate : 0,
                             .message = in->message,
                             .bucket = bucket_of(in)};
}

static feddc_cost_codec codec_of(const feddc_cost_inputs *in) {
    feddc_cost_codec codec = {.push = in->push, .pull = in->pull};
    if (in->nic_rate > 0) {
        codec.nic = 1 / in->nic_rate;
        return codec;
    }
    codec.encode = in->encode_rate > 0 ? 1 / in->encode_rate : 0;
    codec.decode = in->decode_rate > 0 ? 1 / in->decode_rate : 0;
    return codec;
}

static void write_exchange(const feddc_cost_inputs *in, uint32_t p, fed_writer *out) {
    const double n = 4 * in->values;
    const feddc_cost_line line = line_of(in);
    const feddc_cost_codec codec = codec_of(in);
    fed_write_printf(out, "%7u", p);
    for (int coded = 0; coded < 2; coded++) {
        for (unsigned way = 0; way < ways; way++) {
            const feddc_cost c =
                feddc_cost_exchange((feddc_cost_way)way, p, n, &line, coded ? &codec : NULL);
            if (coded && way == FEDDC_COST_RING && in->no_ring) {
                fed_write_printf(out, " %9s", "-");
            } else {
                fed_write_printf(out, " %9.2f", 1e3 * (feddc_cost_communication(&c) + c.codec));
            }
        }
        fed_write_printf(out, "%s", coded ? "\n" : " |");
    }
}

static feddc_cost_step step_of(const feddc_cost_inputs *in, uint32_t p) {
    const double n = 4 * in->values;
    const feddc_cost_line line = line_of(in);
    const feddc_cost_codec codec = codec_of(in);
    const feddc_cost plain = feddc_cost_exchange(FEDDC_COST_OWNERS, p, n, &line, NULL);
    const feddc_cost coded = feddc_cost_exchange(FEDDC_COST_OWNERS, p, n, &line, &codec);
    return (feddc_cost_step){in->tau, feddc_cost_communication(&plain), coded.codec,
                             feddc_cost_communication(&coded), in->k};
}

static void write_step(const feddc_cost_inputs *in, uint32_t p, fed_writer *out) {
    const feddc_cost_step s = step_of(in, p);
    const uint32_t buckets = (uint32_t)fmin(MOST_BUCKETS, ceil(4 * in->values / bucket_of(in)));
    const double ssgd = feddc_cost_ssgd(&s), cdsgd = feddc_cost_cdsgd(&s);
    fed_write_printf(out, "%7u %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f", p, 1e3 * ssgd,
                     1e3 * feddc_cost_layered(s.tau, s.phi, buckets), 1e3 * feddc_cost_odsgd(&s),
                     1e3 * feddc_cost_bitsgd(&s),
                     1e3 * feddc_cost_layered(s.tau, s.delta + s.psi, buckets), 1e3 * cdsgd);
    fed_write_printf(out, " %9.1f %9.1f\n", p * s.tau / ssgd, p * s.tau / cdsgd);
}

void feddc_cost_tables(const feddc_cost_inputs *in, fed_writer *out) {
    const uint32_t low = in->low > 1 ? in->low : 2;
    fed_write_printf(out,
                     "One exchange of %.0f values at %g Mbit/s, ms (INCEPTIONN, section VIII-D)\n\n"
                     "%7s %-49s | %s (%.1fx pushes, %.1fx pulls)\nworkers",
                     in->values, in->mbit, "", "float32", in->codec, in->push, in->pull);
    for (int coded = 0; coded < 2; coded++) {
        for (unsigned way = 0; way < ways; way++) {
            fed_write_printf(out, " %9s", feddc_cost_way_name((feddc_cost_way)way));
        }
        fed_write_printf(out, "%s", coded ? "\n" : " |");
    }
    for (uint32_t p = low; p != 0; p = next_workers(in, p)) {
        write_exchange(in, p, out);
    }
    fed_write_printf(out,
                     "\nOne step with %.2f ms of forward and backward pass, exchanges by owners, ms"
                     " (CD-SGD, equations 2 to 7)\n\n%7s %9s %9s %9s %9s %9s   k=%-5u %s\n"
                     "%7s %9s %9s %9s %9s %9s %9s %9s %9s\n",
                     1e3 * in->tau, "", "", "layered", "", "", "layered", in->k, "times one worker",
                     "workers", "ssgd", "ssgd", "odsgd", "bitsgd", "bitsgd", "cdsgd", "ssgd",
                     "cdsgd");
    for (uint32_t p = low; p != 0; p = next_workers(in, p)) {
        write_step(in, p, out);
    }
}
