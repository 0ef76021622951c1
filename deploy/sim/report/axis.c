/* The axis of a plot: its range, its unit, and ticks at round values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/axis.h"

#include <math.h>
#include <stdio.h>

typedef struct unit_word {
    double scale;
    const char *word;
} unit_word;

static const unit_word byte_words[] = {{1, "B"},    {1e3, "KB"},  {1e6, "MB"},
                                       {1e9, "GB"}, {1e12, "TB"}, {1e15, "PB"}};
static const unit_word time_words[] = {{1, "s"}, {60, "min"}, {3600, "h"}, {86400, "days"}};

static void pick_word(sim_axis *axis, const unit_word *words, size_t count) {
    size_t k = 0;
    while (k + 1 < count && axis->high >= 2 * words[k + 1].scale) {
        k++;
    }
    axis->scale = words[k].scale;
    axis->word = words[k].word;
}

static void pick_unit(sim_axis *axis) {
    axis->scale = axis->unit == SIM_PERCENT ? 0.01 : 1;
    axis->word = axis->unit == SIM_PERCENT ? "%" : "";
    if (axis->unit == SIM_BYTES) {
        pick_word(axis, byte_words, sizeof byte_words / sizeof byte_words[0]);
    } else if (axis->unit == SIM_SECONDS) {
        pick_word(axis, time_words, sizeof time_words / sizeof time_words[0]);
    }
}

static void add_tick(sim_axis *axis, double value) {
    if (axis->tick_count < SIM_TICKS) {
        axis->tick[axis->tick_count++] = value;
    }
}

/** Return a step between ticks: 1, 2 or 5 times a power of ten, for about five steps. */
static double round_step(double range) {
    const double raw = range / 5, power = pow(10, floor(log10(raw)));
    const double digit = raw / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void add_linear_ticks(sim_axis *axis) {
    const double step = round_step((axis->high - axis->low) / axis->scale) * axis->scale;
    const double first = ceil(axis->low / step - 1e-9);
    for (int k = 0; (first + k) * step <= axis->high + 1e-9 * step; k++) {
        add_tick(axis, (first + k) * step);
    }
}

/** Add ticks at powers of ten. On an axis of less than two decades, add ticks at 2 and 5 times the
 * powers. On an axis of more than seven decades, leave out some powers. */
static void add_log_ticks(sim_axis *axis) {
    const double low = axis->low / axis->scale, high = axis->high / axis->scale;
    const double decades = log10(high / low);
    const int every = (int)ceil(decades / 7), last = (int)floor(log10(high));
    static const double digits[] = {1, 2, 5};
    for (int k = (int)floor(log10(low)); k <= last; k += every) {
        for (size_t d = 0; d < (decades < 2 ? 3U : 1U); d++) {
            const double value = digits[d] * pow(10, k);
            if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) {
                add_tick(axis, value * axis->scale);
            }
        }
    }
}

/** Widen the range around the values. A linear axis begins at 0 if the values come near 0. An axis
 * of percentages is not widened beyond 100. */
static void widen(sim_axis *axis) {
    if (axis->log) {
        axis->low *= 0.9;
        axis->high *= 1.1;
        return;
    }
    if (!(axis->high > axis->low)) {
        const double half = axis->low != 0 ? 0.1 * fabs(axis->low) : 0.5;
        axis->low -= half;
        axis->high += half;
    }
    const double room = 0.04 * (axis->high - axis->low);
    const bool from_zero = axis->low >= 0 && axis->low <= 0.35 * axis->high;
    axis->low = from_zero ? 0 : axis->low - room;
    axis->high = axis->unit == SIM_PERCENT && axis->high <= 1 ? fmin(1, axis->high + room)
                                                              : axis->high + room;
}

void sim_axis_fit(sim_axis *axis, sim_unit unit, double least, double most, bool log) {
    const bool some = isfinite(least) && isfinite(most);
    *axis = (sim_axis){.unit = unit,
                       .low = some ? least : 0,
                       .high = some ? most : 1,
                       .log = log && some && least > 0};
    widen(axis);
    pick_unit(axis);
    if (axis->log) {
        add_log_ticks(axis);
    }
    if (axis->tick_count < 2) { /* a short logarithmic axis may have no round value but one */
        axis->tick_count = 0;
        add_linear_ticks(axis);
    }
}

double sim_axis_place(const sim_axis *axis, double value) {
    const double share = axis->log ? log(value / axis->low) / log(axis->high / axis->low)
                                   : (value - axis->low) / (axis->high - axis->low);
    return axis->from + share * (axis->to - axis->from);
}

bool sim_axis_takes(const sim_axis *axis, double value) {
    return isfinite(value) && (!axis->log || value > 0);
}

const char *sim_axis_text(const sim_axis *axis, double value, char dst[24]) {
    snprintf(dst, 24, "%.6g", fabs(value) < 1e-12 * axis->high ? 0 : value / axis->scale);
    return dst;
}
