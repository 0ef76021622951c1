/* Grids: one run for each combination of the alternatives that a scenario's values have. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_GRID_H
#define FEDSIM_GRID_H

#include "deploy/sim/scenario/scenario.h"

/*
 * `codec_up = sbc:p=0.1 | sbc:p=0.01` has two alternatives, `seed = 1..3` three; together they make
 * six cells. In `strategy,learning_rate = fedavg,0.05 | fedadam,0.01` two keys vary together, and
 * make two cells; only the last key's values may have commas. A model's description (`model = input
 * ...`) contains `|` itself and is one value. To compare models, give their names or @FILE.
 */

enum { SIM_GRID_LIMIT = 4096 };

typedef struct sim_cell {
    sim_scenario scenario; /* without alternatives */
    /* the run's directory, such as "codec_up=sbc:p=0.1,seed=1"; "": the only cell */
    char name[256];
} sim_cell;

typedef struct sim_grid {
    sim_cell *cells; /* the last key that varies changes fastest */
    size_t count;
} sim_grid;

/** Make all cells of a scenario. FED_EINVAL: an alternative is empty, a range descends, there are
 * too many cells, or names are too long or equal. */
fed_status sim_grid_expand(const sim_scenario *s, sim_grid *grid, fed_error *err) FED_CHECKED;
void sim_grid_free(sim_grid *grid);

#endif
