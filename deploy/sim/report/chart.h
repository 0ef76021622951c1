/* Plots as SVG, for a page, whose style sheet (report.c) has their colours. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CHART_H
#define FEDSIM_CHART_H

#include "deploy/sim/report/axis.h"
#include "fed/bytes.h"

enum { SIM_COLOURS = 7, SIM_DASHES = 3 }; /* styles beyond the colours are dashed */

typedef struct sim_series {
    const char *label; /* one or two words, at its end; NULL: none */
    const char *title; /* shown while a pointer rests on it */
    size_t style;      /* its colour and dashes */
    const double *x, *y;
    size_t count; /* points; one that is NAN, or not on the axis, is left out */
} sim_series;

typedef struct sim_chart {
    const char *title;   /* what y is */
    const char *against; /* what x is, in the title */
    const char *x_name;  /* what x is, beside its axis */
    sim_unit x_unit, y_unit;
    bool x_log, y_log; /* where the values allow it */
    const sim_series *series;
    size_t count;
} sim_chart;

void sim_chart_draw(const sim_chart *chart, fed_writer *w);

/** A map of fractions from 0 to 1, row after row: columns x rows. */
typedef struct sim_map {
    const char *title, *x_name, *y_name;
    double columns_to, rows_to; /* what the last column and row are, counted from 1 */
    const double *share;
    size_t columns, rows;
} sim_map;

void sim_map_draw(const sim_map *map, fed_writer *w);

/** A table of colours, with a text in each cell. */
typedef struct sim_heat {
    const char *title, *x_name, *y_name;
    const char *const *x_label, *const *y_label;
    const double *value; /* [rows][columns]; NAN: none */
    size_t columns, rows;
} sim_heat;

/** Values are accuracies, shown as percentages. Colours follow the logarithm of 1 - accuracy, so
 * that one bad cell does not make all others alike. */
void sim_heat_draw(const sim_heat *heat, fed_writer *w);

/** Write text with the characters escaped that have a meaning in HTML. */
void sim_write_escaped(fed_writer *w, const char *text);

#endif
