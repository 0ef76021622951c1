/* Plots as SVG, for an HTML page. The page's style sheet in report.c has their colours. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_CHART_H
#define FEDSIM_CHART_H

#include "deploy/sim/report/axis.h"
#include "fed/bytes.h"

enum { SIM_COLOURS = 7, SIM_DASHES = 3 };

typedef struct sim_series {
    const char *label; /* one or two words at the line's end; NULL: none */
    const char *title; /* shown while the mouse rests on the line; NULL: none */
    size_t style;      /* colour: style % SIM_COLOURS; dashes: style / SIM_COLOURS % SIM_DASHES */
    const double *x, *y;
    const double *low, *high; /* the edges of a band around y; NULL: none */
    size_t count; /* points; a point that is NAN, or that an axis can't show, is left out */
} sim_series;

typedef struct sim_chart {
    const char *title;   /* name of y */
    const char *against; /* name of x, used in the title */
    const char *x_name;  /* name of x, beside its axis */
    sim_unit x_unit, y_unit;
    bool x_log, y_log; /* logarithmic; y only if all values are above 0 */
    const sim_series *series;
    size_t count;
} sim_chart;

void sim_chart_draw(const sim_chart *chart, fed_writer *w);

/** A map of fractions, share[rows][columns], each from 0 to 1. */
typedef struct sim_map {
    const char *title, *x_name, *y_name;
    double columns_to,
        rows_to; /* the last column's and row's number on the axis, which begins at 1 */
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

/** Write text for HTML: escape <, >, & and ", and leave out most control characters. */
void sim_write_escaped(fed_writer *w, const char *text);

#endif
