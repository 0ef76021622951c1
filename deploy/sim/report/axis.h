/* The axis of a plot: it turns values into positions, and has ticks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_AXIS_H
#define FEDSIM_AXIS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum sim_unit { SIM_PLAIN, SIM_PERCENT, SIM_BYTES, SIM_SECONDS } sim_unit;

enum { SIM_TICKS = 16 };

typedef struct sim_axis {
    sim_unit unit;
    bool log;
    double low, high;
    double from, to;  /* positions of low and high */
    double scale;     /* a tick shows value / scale */
    const char *word; /* the unit of scale: "MB", "min", "%"; "": none */
    double tick[SIM_TICKS];
    size_t tick_count;
} sim_axis;

/** Make an axis for values from least to most; NAN: no values. It is logarithmic if `log` is true
 * and least is above 0. */
void sim_axis_fit(sim_axis *axis, sim_unit unit, double least, double most, bool log);
double sim_axis_place(const sim_axis *axis, double value);
bool sim_axis_takes(const sim_axis *axis, double value);
const char *sim_axis_text(const sim_axis *axis, double value, char dst[24]);

#endif
