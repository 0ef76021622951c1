/* SQL that changes a coordinator's database into that of an earlier release. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FIRST_RELEASE_H
#define FED_FIRST_RELEASE_H

/* SQLite. From today's layout, run FED_LAYOUT_8, FED_LAYOUT_7, FED_FIRST_RELEASE in this order. */

/* Takes away what layout 17 has of private tasks. */
#define FED_NOT_PRIVATE                                                                            \
    "ALTER TABLE tasks DROP COLUMN generation;"                                                    \
    "DROP TABLE outliers; DROP TABLE openings; DROP TABLE ledger;"                                 \
    "ALTER TABLE rounds DROP COLUMN clip;"                                                         \
    "ALTER TABLE rounds DROP COLUMN sigma2; ALTER TABLE rounds DROP COLUMN rho;"                   \
    "ALTER TABLE rounds DROP COLUMN set_digest; ALTER TABLE rounds DROP COLUMN noise_key;"

/** From today's layout back to 16. No task may be private. */
#define FED_LAYOUT_16 "BEGIN;" FED_NOT_PRIVATE "PRAGMA user_version = 16; COMMIT;"

/** From layout 16 back to 15. No task may have a layout. */
#define FED_LAYOUT_15 "BEGIN; DROP TABLE model_layouts; PRAGMA user_version = 15; COMMIT;"

/** From layout 15 back to 14. */
#define FED_LAYOUT_14                                                                              \
    "BEGIN; ALTER TABLE rounds RENAME TO r; ALTER TABLE metrics RENAME TO m;"                      \
    "CREATE TABLE rounds (task INTEGER NOT NULL REFERENCES tasks, number INTEGER NOT NULL,"        \
    " attempts INTEGER NOT NULL, opened_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"        \
    " committed_ms INTEGER NOT NULL, updates INTEGER NOT NULL, samples INTEGER NOT NULL,"          \
    " loss REAL NOT NULL, update_bytes INTEGER NOT NULL, delta_bytes INTEGER NOT NULL,"            \
    " heaviest INTEGER NOT NULL DEFAULT 0, heaviest_share REAL NOT NULL DEFAULT 0,"                \
    " furthest INTEGER NOT NULL DEFAULT 0, furthest_norm REAL NOT NULL DEFAULT 0,"                 \
    " own_dropped INTEGER NOT NULL DEFAULT 0, closing_ms INTEGER NOT NULL DEFAULT 0,"              \
    " PRIMARY KEY (task, number)) STRICT, WITHOUT ROWID;"                                          \
    "CREATE TABLE metrics (task INTEGER NOT NULL REFERENCES tasks, version INTEGER NOT NULL,"      \
    " device INTEGER NOT NULL REFERENCES devices, samples INTEGER NOT NULL,"                       \
    " correct INTEGER NOT NULL, loss REAL NOT NULL,"                                               \
    " PRIMARY KEY (task, version, device)) STRICT, WITHOUT ROWID;"                                 \
    "INSERT INTO rounds SELECT * FROM r; INSERT INTO metrics SELECT * FROM m;"                     \
    "DROP TABLE r; DROP TABLE m; PRAGMA user_version = 14; COMMIT;"

/** From layout 14 back to 13. */
#define FED_LAYOUT_13 "BEGIN; DROP TABLE leases; PRAGMA user_version = 13; COMMIT;"

/** From today's layout back to 8. No model may lie in files of its own, and no round may be
 * closing. */
#define FED_LAYOUT_8                                                                               \
    "BEGIN;" FED_NOT_PRIVATE "DROP TABLE model_layouts;"                                           \
    "ALTER TABLE tasks ADD COLUMN name TEXT NOT NULL DEFAULT '';"                                  \
    "ALTER TABLE tasks ADD COLUMN model TEXT NOT NULL DEFAULT '';"                                 \
    "ALTER TABLE tasks ADD COLUMN codec_up TEXT NOT NULL DEFAULT '';"                              \
    "ALTER TABLE tasks ADD COLUMN codec_down TEXT NOT NULL DEFAULT '';"                            \
    "ALTER TABLE tasks ADD COLUMN small_tensor INTEGER NOT NULL DEFAULT 0;"                        \
    "ALTER TABLE tasks ADD COLUMN local_steps INTEGER NOT NULL DEFAULT 0;"                         \
    "ALTER TABLE tasks ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;"                               \
    "ALTER TABLE tasks ADD COLUMN optimizer TEXT NOT NULL DEFAULT '';"                             \
    "ALTER TABLE tasks ADD COLUMN learning_rate REAL NOT NULL DEFAULT 0;"                          \
    "ALTER TABLE tasks ADD COLUMN seed INTEGER NOT NULL DEFAULT 0;"                                \
    "ALTER TABLE tasks ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0;"                              \
    "ALTER TABLE tasks ADD COLUMN cohort INTEGER NOT NULL DEFAULT 0;"                              \
    "ALTER TABLE tasks ADD COLUMN goal INTEGER NOT NULL DEFAULT 0;"                                \
    "ALTER TABLE tasks ADD COLUMN minimum INTEGER NOT NULL DEFAULT 0;"                             \
    "ALTER TABLE tasks ADD COLUMN deadline_ms INTEGER NOT NULL DEFAULT 0;"                         \
    "ALTER TABLE tasks ADD COLUMN strategy TEXT NOT NULL DEFAULT 'fedavg';"                        \
    "ALTER TABLE tasks ADD COLUMN staleness INTEGER NOT NULL DEFAULT 0;"                           \
    "ALTER TABLE tasks ADD COLUMN selection INTEGER NOT NULL DEFAULT 0;"                           \
    "ALTER TABLE tasks ADD COLUMN tag TEXT NOT NULL DEFAULT '';"                                   \
    "ALTER TABLE tasks ADD COLUMN device_share REAL NOT NULL DEFAULT 1;"                           \
    "UPDATE tasks SET name = coalesce(json_extract(text, '$.name'), ''),"                          \
    "model = coalesce(json_extract(text, '$.model'), ''),"                                         \
    "codec_up = coalesce(json_extract(text, '$.codec_up'), ''),"                                   \
    "codec_down = coalesce(json_extract(text, '$.codec_down'), ''),"                               \
    "small_tensor = coalesce(json_extract(text, '$.small_tensor'), 0),"                            \
    "local_steps = coalesce(json_extract(text, '$.local_steps'), 0),"                              \
    "batch = coalesce(json_extract(text, '$.batch'), 0),"                                          \
    "optimizer = coalesce(json_extract(text, '$.optimizer'), ''),"                                 \
    "learning_rate = coalesce(json_extract(text, '$.learning_rate'), 0),"                          \
    "seed = coalesce(json_extract(text, '$.seed'), 0),"                                            \
    "rounds = coalesce(json_extract(text, '$.rounds'), 0),"                                        \
    "cohort = coalesce(json_extract(text, '$.cohort'), 0),"                                        \
    "goal = coalesce(json_extract(text, '$.goal'), 0),"                                            \
    "minimum = coalesce(json_extract(text, '$.minimum'), 0),"                                      \
    "deadline_ms = CAST(round(1000 * json_extract(text, '$.deadline_s')) AS INTEGER),"             \
    "strategy = coalesce(json_extract(text, '$.strategy'), 'fedavg'),"                             \
    "staleness = coalesce(json_extract(text, '$.staleness'), 0),"                                  \
    "selection = CASE json_extract(text, '$.selection') WHEN 'weighted' THEN 1 WHEN"               \
    " 'round_robin' THEN 2 ELSE 0 END,"                                                            \
    "tag = coalesce(json_extract(text, '$.tag'), ''),"                                             \
    "device_share = coalesce(json_extract(text, '$.device_share'), 1);"                            \
    "CREATE TABLE phases (task INTEGER NOT NULL REFERENCES tasks, round INTEGER NOT NULL,"         \
    "codec_up TEXT NOT NULL, codec_down TEXT NOT NULL, local_steps INTEGER NOT NULL,"              \
    "batch INTEGER NOT NULL, optimizer TEXT NOT NULL, learning_rate REAL NOT NULL,"                \
    "PRIMARY KEY (task, round)) STRICT, WITHOUT ROWID;"                                            \
    "INSERT INTO phases SELECT tasks.id, json_extract(value, '$.round'),"                          \
    " json_extract(value, '$.codec_up'), json_extract(value, '$.codec_down'),"                     \
    " json_extract(value, '$.local_steps'), json_extract(value, '$.batch'),"                       \
    " json_extract(value, '$.optimizer'), json_extract(value, '$.learning_rate')"                  \
    " FROM tasks, json_each(text, '$.phases');"                                                    \
    "ALTER TABLE tasks DROP COLUMN text;"                                                          \
    "DROP TABLE leases; DROP INDEX devices_change;"                                                \
    "ALTER TABLE devices DROP COLUMN change;"                                                      \
    "ALTER TABLE devices DROP COLUMN computes_on;"                                                 \
    "ALTER TABLE rounds DROP COLUMN own_dropped; DROP TABLE own_metrics;"                          \
    "DROP INDEX deltas_kept; ALTER TABLE deltas DROP COLUMN digest;"                               \
    "ALTER TABLE deltas DROP COLUMN len; ALTER TABLE models DROP COLUMN kept;"                     \
    "ALTER TABLE keyframes DROP COLUMN kept; ALTER TABLE rounds DROP COLUMN closing_ms;"           \
    "PRAGMA user_version = 8; COMMIT;"

#define FED_LAYOUT_7                                                                               \
    "BEGIN; DROP TABLE audit; DROP TABLE declines; DROP TABLE passes;"                             \
    "ALTER TABLE tokens DROP COLUMN name;"                                                         \
    "ALTER TABLE tokens DROP COLUMN made_ms;"                                                      \
    "ALTER TABLE tokens DROP COLUMN withdrawn_ms;"                                                 \
    "ALTER TABLE devices DROP COLUMN name;"                                                        \
    "ALTER TABLE devices DROP COLUMN seen_ms;"                                                     \
    "ALTER TABLE devices DROP COLUMN software;"                                                    \
    "ALTER TABLE devices DROP COLUMN counted;"                                                     \
    "ALTER TABLE devices DROP COLUMN late;"                                                        \
    "ALTER TABLE devices DROP COLUMN refused;"                                                     \
    "ALTER TABLE devices DROP COLUMN counted_digest;"                                              \
    "ALTER TABLE devices DROP COLUMN cloned_ms;"                                                   \
    "ALTER TABLE devices DROP COLUMN authority;"                                                   \
    "ALTER TABLE tasks DROP COLUMN device_share;"                                                  \
    "ALTER TABLE tasks DROP COLUMN position;"                                                      \
    "ALTER TABLE rounds DROP COLUMN heaviest;"                                                     \
    "ALTER TABLE rounds DROP COLUMN heaviest_share;"                                               \
    "ALTER TABLE rounds DROP COLUMN furthest;"                                                     \
    "ALTER TABLE rounds DROP COLUMN furthest_norm;"                                                \
    "ALTER TABLE models DROP COLUMN residual_guard;"                                               \
    "ALTER TABLE models DROP COLUMN state_guard;"                                                  \
    "PRAGMA user_version = 7; COMMIT;"

/** From layout 7 back to 1. No update may lie in a segment file. */
#define FED_FIRST_RELEASE                                                                          \
    "BEGIN; ALTER TABLE updates RENAME TO updates_by_lease;"                                       \
    "CREATE TABLE updates (id INTEGER PRIMARY KEY, device INTEGER NOT NULL UNIQUE"                 \
    " REFERENCES"                                                                                  \
    " devices, body BLOB NOT NULL) STRICT;"                                                        \
    "INSERT INTO updates SELECT id, device, body FROM updates_by_lease;"                           \
    "DROP TABLE updates_by_lease; DROP TABLE pieces; DROP TABLE phases; DROP TABLE"                \
    " keyframes;"                                                                                  \
    "ALTER TABLE devices DROP COLUMN revoked_ms;"                                                  \
    "ALTER TABLE devices DROP COLUMN lease_deadline_ms;"                                           \
    "ALTER TABLE devices DROP COLUMN samples;"                                                     \
    "ALTER TABLE devices DROP COLUMN role;"                                                        \
    "ALTER TABLE devices DROP COLUMN tag;"                                                         \
    "ALTER TABLE tokens DROP COLUMN role;"                                                         \
    "ALTER TABLE tokens DROP COLUMN tag;"                                                          \
    "ALTER TABLE tasks DROP COLUMN strategy;"                                                      \
    "ALTER TABLE tasks DROP COLUMN staleness;"                                                     \
    "ALTER TABLE tasks DROP COLUMN selection;"                                                     \
    "ALTER TABLE tasks DROP COLUMN tag;"                                                           \
    "ALTER TABLE models DROP COLUMN state;"                                                        \
    "PRAGMA user_version = 1; COMMIT;"

/* PostgreSQL. Run these in this order, from today's layout on. */

#define FED_PG_LAYOUT_5                                                                            \
    "DROP TABLE fedserver.outliers; DROP TABLE fedserver.openings; DROP TABLE fedserver.ledger;"   \
    "ALTER TABLE fedserver.tasks DROP COLUMN generation;"                                          \
    "ALTER TABLE fedserver.rounds DROP COLUMN clip,"                                               \
    " DROP COLUMN sigma2, DROP COLUMN rho, DROP COLUMN set_digest, DROP COLUMN noise_key;"         \
    "UPDATE fedserver.layout SET version = 5;"

#define FED_PG_LAYOUT_4                                                                            \
    "DROP TABLE fedserver.model_layouts; UPDATE fedserver.layout SET version = 4;"

#define FED_PG_LAYOUT_3                                                                            \
    "ALTER TABLE fedserver.rounds ALTER loss SET NOT NULL;"                                        \
    "ALTER TABLE fedserver.metrics ALTER loss SET NOT NULL;"                                       \
    "UPDATE fedserver.layout SET version = 3;"

#define FED_PG_LAYOUT_2                                                                            \
    "DROP TABLE fedserver.leader; ALTER TABLE fedserver.revision DROP COLUMN term;"                \
    "UPDATE fedserver.layout SET version = 2;"

#define FED_PG_LAYOUT_1 "DROP TABLE fedserver.leases; UPDATE fedserver.layout SET version = 1;"

#endif
