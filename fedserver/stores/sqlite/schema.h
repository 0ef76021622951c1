/* The tables of server.db, and the SQL that upgrades older versions (layouts) of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQLITE_SCHEMA_H
#define FEDSERVER_STORES_SQLITE_SCHEMA_H

#define FEDSERVER_SCHEMA_ID      0x46656453 /* "FedS": marks a database as the coordinator's */
#define FEDSERVER_SCHEMA_VERSION 17
#define FEDSERVER_SCHEMA_0_1_0   7
#define FEDSERVER_SCHEMA_TEXT    9 /* from this version on a task is one text (task/task_text.h) */

/* The updates of open rounds, since version 4. A body lies in the row's `body`, or from `start` on
 * in the round's segment file. `guard` is the body's XXH3-64, and NULL for a body that an older
 * release stored. */
#define FEDSERVER_SCHEMA_UPDATES_4                                                                 \
    "CREATE TABLE updates (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks,"        \
    " round INTEGER NOT NULL, device INTEGER NOT NULL REFERENCES devices,"                         \
    " lease INTEGER NOT NULL UNIQUE, len INTEGER NOT NULL, guard INTEGER, start INTEGER,"          \
    " body BLOB, CHECK ((body IS NULL) <> (start IS NULL))) STRICT;"
/* Updates that have arrived in part, since version 5: bytes of a message from `start` on. */
#define FEDSERVER_SCHEMA_PIECES                                                                    \
    "CREATE TABLE pieces (device INTEGER NOT NULL REFERENCES devices, start INTEGER NOT NULL,"     \
    " lease INTEGER NOT NULL, digest INTEGER NOT NULL, total INTEGER NOT NULL,"                    \
    " bytes BLOB NOT NULL, PRIMARY KEY (device, start)) STRICT;"

/* Phases: a task's settings from a round on, in versions 6 to 8. */
#define FEDSERVER_SCHEMA_PHASES                                                                    \
    "CREATE TABLE phases (task INTEGER NOT NULL REFERENCES tasks, round INTEGER NOT NULL,"         \
    " codec_up TEXT NOT NULL, codec_down TEXT NOT NULL, local_steps INTEGER NOT NULL,"             \
    " batch INTEGER NOT NULL, optimizer TEXT NOT NULL, learning_rate REAL NOT NULL,"               \
    " PRIMARY KEY (task, round)) STRICT, WITHOUT ROWID;"

#define FEDSERVER_SCHEMA_KEYFRAMES                                                                 \
    "CREATE TABLE keyframes (task INTEGER NOT NULL REFERENCES tasks, version INTEGER NOT NULL,"    \
    " digest INTEGER NOT NULL, weights BLOB NOT NULL, PRIMARY KEY (task, version)) STRICT;"

/* The devices that can't serve a task, with their reasons, since version 8. */
#define FEDSERVER_SCHEMA_DECLINES                                                                  \
    "CREATE TABLE declines (task INTEGER NOT NULL REFERENCES tasks,"                               \
    " device INTEGER NOT NULL REFERENCES devices, reason TEXT NOT NULL,"                           \
    " at_ms INTEGER NOT NULL, PRIMARY KEY (task, device)) STRICT, WITHOUT ROWID;"

/* Links, sessions and bearer tokens of the front, since version 8. */
#define FEDSERVER_SCHEMA_PASSES                                                                    \
    "CREATE TABLE passes (hash BLOB PRIMARY KEY, kind INTEGER NOT NULL,"                           \
    " expires_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;"

#define FEDSERVER_SCHEMA_AUDIT                                                                     \
    "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL,"            \
    " event TEXT NOT NULL, detail TEXT NOT NULL) STRICT;"

/* An index that finds the devices whose identity changed, since version 11. */
#define FEDSERVER_SCHEMA_CHANGES "CREATE INDEX devices_change ON devices (change);"

/* Custom metrics of devices, since version 12. Rows of device 0 sum up a round's updates. */
#define FEDSERVER_SCHEMA_OWN                                                                       \
    "CREATE TABLE own_metrics (task INTEGER NOT NULL REFERENCES tasks, version INTEGER NOT NULL,"  \
    " device INTEGER NOT NULL, name TEXT NOT NULL, reports INTEGER NOT NULL,"                      \
    " samples INTEGER NOT NULL, mean REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL,"      \
    " PRIMARY KEY (task, version, device, name)) STRICT, WITHOUT ROWID;"

/* Since version 13: whether a keyframe names a blob. */
#define FEDSERVER_SCHEMA_KEYFRAMES_13                                                              \
    "ALTER TABLE keyframes ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;"

/* An index that finds the deltas that name a blob, since version 13. */
#define FEDSERVER_SCHEMA_KEPT                                                                      \
    "CREATE INDEX deltas_kept ON deltas (task, digest) WHERE digest IS NOT NULL;"

/* Devices with a lease that may still hold, since version 14. The device's row in `devices` says
 * whether it does. */
#define FEDSERVER_SCHEMA_LEASES                                                                    \
    "CREATE TABLE leases (task INTEGER NOT NULL, round INTEGER NOT NULL, device INTEGER NOT NULL," \
    " PRIMARY KEY (task, round, device)) STRICT, WITHOUT ROWID;"

/* Since version 15 a loss may be missing: NULL. */
#define FEDSERVER_SCHEMA_ROUNDS_15                                                                 \
    "CREATE TABLE rounds (task INTEGER NOT NULL REFERENCES tasks, number INTEGER NOT NULL,"        \
    " attempts INTEGER NOT NULL, opened_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"        \
    " committed_ms INTEGER NOT NULL, updates INTEGER NOT NULL, samples INTEGER NOT NULL,"          \
    " loss REAL, update_bytes INTEGER NOT NULL, delta_bytes INTEGER NOT NULL,"                     \
    " heaviest INTEGER NOT NULL DEFAULT 0, heaviest_share REAL NOT NULL DEFAULT 0,"                \
    " furthest INTEGER NOT NULL DEFAULT 0, furthest_norm REAL NOT NULL DEFAULT 0,"                 \
    " own_dropped INTEGER NOT NULL DEFAULT 0, closing_ms INTEGER NOT NULL DEFAULT 0,"              \
    " PRIMARY KEY (task, number)) STRICT, WITHOUT ROWID;"
#define FEDSERVER_SCHEMA_ROUNDS_COLUMNS                                                            \
    "task, number, attempts, opened_ms, deadline_ms, committed_ms, updates, samples, loss,"        \
    " update_bytes, delta_bytes, heaviest, heaviest_share, furthest, furthest_norm, own_dropped,"  \
    " closing_ms"
#define FEDSERVER_SCHEMA_METRICS_15                                                                \
    "CREATE TABLE metrics (task INTEGER NOT NULL REFERENCES tasks, version INTEGER NOT NULL,"      \
    " device INTEGER NOT NULL REFERENCES devices, samples INTEGER NOT NULL,"                       \
    " correct INTEGER NOT NULL, loss REAL,"                                                        \
    " PRIMARY KEY (task, version, device)) STRICT, WITHOUT ROWID;"

/* Since version 16 a task's model may name a layout (fed/layout_reference.h). */
#define FEDSERVER_SCHEMA_LAYOUTS                                                                   \
    "CREATE TABLE model_layouts (task INTEGER PRIMARY KEY REFERENCES tasks, bytes BLOB NOT NULL)"  \
    " STRICT;"

/* Since version 17 a task may be private (docs/protocol.md#private-tasks). Of a row's set and key,
 * NULL stands for zeros. In `ledger`, device 0 marks the ledger of a copy. A copy's tasks have
 * another `generation`. */
#define FEDSERVER_SCHEMA_PRIVATE                                                                   \
    "ALTER TABLE tasks ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;"                          \
    "ALTER TABLE rounds ADD COLUMN clip REAL NOT NULL DEFAULT 0;"                                  \
    "ALTER TABLE rounds ADD COLUMN sigma2 REAL NOT NULL DEFAULT 0;"                                \
    "ALTER TABLE rounds ADD COLUMN rho REAL NOT NULL DEFAULT 0;"                                   \
    "ALTER TABLE rounds ADD COLUMN set_digest BLOB;"                                               \
    "ALTER TABLE rounds ADD COLUMN noise_key BLOB;"                                                \
    "CREATE TABLE ledger (task INTEGER NOT NULL REFERENCES tasks, device INTEGER NOT NULL,"        \
    " taken INTEGER NOT NULL, last_round INTEGER NOT NULL, PRIMARY KEY (task, device))"            \
    " STRICT, WITHOUT ROWID;"                                                                      \
    "CREATE TABLE outliers (task INTEGER NOT NULL REFERENCES tasks, device INTEGER NOT NULL,"      \
    " rounds INTEGER NOT NULL, worst INTEGER NOT NULL, expected REAL NOT NULL,"                    \
    " last_worst INTEGER NOT NULL, PRIMARY KEY (task, device)) STRICT, WITHOUT ROWID;"             \
    "CREATE TABLE openings (task INTEGER NOT NULL REFERENCES tasks, round INTEGER NOT NULL,"       \
    " masks BLOB NOT NULL, refusal TEXT NOT NULL DEFAULT '', PRIMARY KEY (task, round)) STRICT;"

/*
 * The tables of a new server.db.
 *
 * Since version 13 the bytes of a model may lie in files (blobs.h), named by their digest. Then
 * `kept` is 1, weights are empty, residual and state are NULL. The columns digest, residual_guard
 * and state_guard name the files. A delta with a digest has `len` bytes in a file, and an empty
 * part.
 *
 * 64-bit leases, digests and seeds are kept bit for bit in SQLite's signed integers. Times are Unix
 * milliseconds. The elements are scripts that run one after the other, because C compilers need not
 * accept longer strings.
 */
#define FEDSERVER_SCHEMA                                                                           \
    {                                                                                              \
        "CREATE TABLE tokens (hash BLOB PRIMARY KEY, expires_ms INTEGER NOT NULL,"                 \
        " used_ms INTEGER, role INTEGER NOT NULL DEFAULT 0, tag TEXT NOT NULL DEFAULT '',"         \
        " name TEXT NOT NULL DEFAULT '', made_ms INTEGER NOT NULL DEFAULT 0,"                      \
        " withdrawn_ms INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;"                         \
        "CREATE TABLE devices (id INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL UNIQUE,"          \
        " enrolled_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"                              \
        " lease INTEGER NOT NULL DEFAULT 0, lease_task INTEGER NOT NULL DEFAULT 0,"                \
        " lease_round INTEGER NOT NULL DEFAULT 0, lease_attempt INTEGER NOT NULL DEFAULT 0,"       \
        " counted_lease INTEGER NOT NULL DEFAULT 0, evaluated_task INTEGER NOT NULL DEFAULT 0,"    \
        " evaluated_version INTEGER NOT NULL DEFAULT 0,"                                           \
        " revoked_ms INTEGER NOT NULL DEFAULT 0, lease_deadline_ms INTEGER NOT NULL DEFAULT 0,"    \
        " samples INTEGER NOT NULL DEFAULT 0, role INTEGER NOT NULL DEFAULT 0,"                    \
        " tag TEXT NOT NULL DEFAULT '', counted_digest INTEGER NOT NULL DEFAULT 0,"                \
        " cloned_ms INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL DEFAULT '',"                    \
        " seen_ms INTEGER NOT NULL DEFAULT 0, software TEXT NOT NULL DEFAULT '',"                  \
        " counted INTEGER NOT NULL DEFAULT 0, late INTEGER NOT NULL DEFAULT 0,"                    \
        " refused INTEGER NOT NULL DEFAULT 0, authority INTEGER NOT NULL DEFAULT 0,"               \
        " computes_on TEXT NOT NULL DEFAULT '', change INTEGER NOT NULL DEFAULT 0) "               \
        "STRICT;" FEDSERVER_SCHEMA_CHANGES,                                                        \
            "CREATE TABLE tasks (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL,"        \
            " state INTEGER NOT NULL, queued_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL,"    \
            " finished_ms INTEGER NOT NULL, position INTEGER NOT NULL DEFAULT 0) STRICT;"          \
            "CREATE TABLE models (task INTEGER PRIMARY KEY REFERENCES tasks, version INTEGER NOT " \
            "NULL,"                                                                                \
            " digest INTEGER NOT NULL, weights BLOB NOT NULL, residual BLOB, state BLOB,"          \
            " residual_guard INTEGER, state_guard INTEGER, kept INTEGER NOT NULL DEFAULT 0) "      \
            "STRICT;"                                                                              \
            "CREATE TABLE deltas (task INTEGER NOT NULL REFERENCES tasks, version INTEGER NOT "    \
            "NULL,"                                                                                \
            " part BLOB NOT NULL, digest INTEGER, len INTEGER,"                                    \
            " PRIMARY KEY (task, version)) STRICT;" FEDSERVER_SCHEMA_KEPT                          \
                FEDSERVER_SCHEMA_ROUNDS_15,                                                        \
            FEDSERVER_SCHEMA_UPDATES_4 FEDSERVER_SCHEMA_METRICS_15,                                \
            FEDSERVER_SCHEMA_PIECES FEDSERVER_SCHEMA_KEYFRAMES FEDSERVER_SCHEMA_KEYFRAMES_13       \
                FEDSERVER_SCHEMA_DECLINES FEDSERVER_SCHEMA_PASSES FEDSERVER_SCHEMA_AUDIT           \
                    FEDSERVER_SCHEMA_OWN FEDSERVER_SCHEMA_LEASES FEDSERVER_SCHEMA_LAYOUTS,         \
            FEDSERVER_SCHEMA_PRIVATE,                                                              \
    }

/* FEDSERVER_MIGRATIONS[k] upgrades version k + 1 to k + 2. Only append entries; never change
 * one. */
#define FEDSERVER_MIGRATIONS                                                                       \
    {                                                                                              \
        "ALTER TABLE devices ADD COLUMN revoked_ms INTEGER NOT NULL DEFAULT 0;",                   \
            "ALTER TABLE tokens ADD COLUMN role INTEGER NOT NULL DEFAULT 0;"                       \
            "ALTER TABLE tokens ADD COLUMN tag TEXT NOT NULL DEFAULT '';"                          \
            "ALTER TABLE devices ADD COLUMN lease_deadline_ms INTEGER NOT NULL DEFAULT 0;"         \
            "ALTER TABLE devices ADD COLUMN samples INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE devices ADD COLUMN role INTEGER NOT NULL DEFAULT 0;"                      \
            "ALTER TABLE devices ADD COLUMN tag TEXT NOT NULL DEFAULT '';"                         \
            "ALTER TABLE tasks ADD COLUMN strategy TEXT NOT NULL DEFAULT 'fedavg';"                \
            "ALTER TABLE tasks ADD COLUMN staleness INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE tasks ADD COLUMN selection INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE tasks ADD COLUMN tag TEXT NOT NULL DEFAULT '';"                           \
            "ALTER TABLE models ADD COLUMN state BLOB;"                                            \
            "UPDATE devices SET role = 1 WHERE evaluated_task != 0;",                              \
            "ALTER TABLE updates RENAME TO updates_by_device;" FEDSERVER_SCHEMA_UPDATES_4          \
            "INSERT INTO updates (id, task, round, device, lease, len, body)"                      \
            " SELECT u.id, d.lease_task, d.lease_round, d.id, d.counted_lease, length(u.body),"    \
            " u.body FROM updates_by_device u JOIN devices d ON d.id = u.device;"                  \
            "DROP TABLE updates_by_device;",                                                       \
            FEDSERVER_SCHEMA_PIECES, FEDSERVER_SCHEMA_PHASES, FEDSERVER_SCHEMA_KEYFRAMES,          \
            FEDSERVER_SCHEMA_AUDIT FEDSERVER_SCHEMA_DECLINES                                       \
            "ALTER TABLE tokens ADD COLUMN name TEXT NOT NULL DEFAULT '';"                         \
            "ALTER TABLE tokens ADD COLUMN made_ms INTEGER NOT NULL DEFAULT 0;"                    \
            "ALTER TABLE tokens ADD COLUMN withdrawn_ms INTEGER NOT NULL DEFAULT 0;"               \
            "ALTER TABLE devices ADD COLUMN name TEXT NOT NULL DEFAULT '';"                        \
            "ALTER TABLE devices ADD COLUMN seen_ms INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE devices ADD COLUMN software TEXT NOT NULL DEFAULT '';"                    \
            "ALTER TABLE devices ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE devices ADD COLUMN late INTEGER NOT NULL DEFAULT 0;"                      \
            "ALTER TABLE devices ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE devices ADD COLUMN counted_digest INTEGER NOT NULL DEFAULT 0;"            \
            "ALTER TABLE devices ADD COLUMN cloned_ms INTEGER NOT NULL DEFAULT 0;"                 \
            "ALTER TABLE devices ADD COLUMN authority INTEGER NOT NULL DEFAULT 0;"                 \
            "ALTER TABLE tasks ADD COLUMN device_share REAL NOT NULL DEFAULT 1;"                   \
            "ALTER TABLE rounds ADD COLUMN heaviest INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE rounds ADD COLUMN heaviest_share REAL NOT NULL DEFAULT 0;"                \
            "ALTER TABLE rounds ADD COLUMN furthest INTEGER NOT NULL DEFAULT 0;"                   \
            "ALTER TABLE rounds ADD COLUMN furthest_norm REAL NOT NULL DEFAULT 0;"                 \
            "ALTER TABLE models ADD COLUMN residual_guard INTEGER;"                                \
            "ALTER TABLE models ADD COLUMN state_guard INTEGER;"                                   \
            "UPDATE models SET residual_guard = fed_guard(residual),"                              \
            " state_guard = fed_guard(state);"                                                     \
            "UPDATE devices SET counted_digest = coalesce((SELECT u.guard FROM updates u"          \
            " WHERE u.lease = devices.counted_lease), 0);" FEDSERVER_SCHEMA_PASSES                 \
            "ALTER TABLE tasks ADD COLUMN position INTEGER NOT NULL DEFAULT 0;"                    \
            "UPDATE tasks SET position = id;",                                                     \
            "ALTER TABLE tasks ADD COLUMN text TEXT NOT NULL DEFAULT '';",                         \
            "ALTER TABLE devices ADD COLUMN computes_on TEXT NOT NULL DEFAULT '';",                \
            "ALTER TABLE devices ADD COLUMN change INTEGER NOT NULL DEFAULT "                      \
            "0;" FEDSERVER_SCHEMA_CHANGES,                                                         \
            FEDSERVER_SCHEMA_OWN                                                                   \
            "ALTER TABLE rounds ADD COLUMN own_dropped INTEGER NOT NULL DEFAULT 0;",               \
            "ALTER TABLE models ADD COLUMN kept INTEGER NOT NULL DEFAULT "                         \
            "0;" FEDSERVER_SCHEMA_KEYFRAMES_13 "ALTER TABLE deltas ADD COLUMN digest INTEGER;"     \
            "ALTER TABLE deltas ADD COLUMN len INTEGER;"                                           \
            "ALTER TABLE rounds ADD COLUMN closing_ms INTEGER NOT NULL DEFAULT 0;"                 \
            "UPDATE updates SET round = (SELECT max(number) FROM rounds r"                         \
            " WHERE r.task = updates.task) WHERE start IS NULL AND round <>"                       \
            " (SELECT max(number) FROM rounds r WHERE r.task = "                                   \
            "updates.task);" FEDSERVER_SCHEMA_KEPT,                                                \
            FEDSERVER_SCHEMA_LEASES                                                                \
            "INSERT INTO leases SELECT lease_task, lease_round, d.id FROM devices d JOIN tasks t"  \
            " ON t.id = lease_task WHERE t.state NOT IN (2, 4) AND lease <> counted_lease;",       \
            "ALTER TABLE rounds RENAME TO rounds_14;" FEDSERVER_SCHEMA_ROUNDS_15                   \
            "INSERT INTO rounds (" FEDSERVER_SCHEMA_ROUNDS_COLUMNS                                 \
            ") SELECT " FEDSERVER_SCHEMA_ROUNDS_COLUMNS " FROM rounds_14; DROP TABLE rounds_14;"   \
            "ALTER TABLE metrics RENAME TO metrics_14;" FEDSERVER_SCHEMA_METRICS_15                \
            "INSERT INTO metrics (task, version, device, samples, correct, loss)"                  \
            " SELECT task, version, device, samples, correct, loss FROM metrics_14;"               \
            "DROP TABLE metrics_14;",                                                              \
            FEDSERVER_SCHEMA_LAYOUTS, FEDSERVER_SCHEMA_PRIVATE,                                    \
    }

#endif
