/* The tables of server.db, and how older ones become them. */
#ifndef FEDSERVER_STORES_SQLITE_SCHEMA_H
#define FEDSERVER_STORES_SQLITE_SCHEMA_H

#define FEDSERVER_SCHEMA_ID      0x46656453 /* "FedS": says whose database it is */
#define FEDSERVER_SCHEMA_VERSION 3

/* 64-bit leases, digests and seeds are kept in SQLite's signed integers, bit for bit. Times are
 * Unix milliseconds. A model's row is apart from its task's so that looking at tasks reads no blob.
 */
#define FEDSERVER_SCHEMA                                                                           \
    "CREATE TABLE tokens (hash BLOB PRIMARY KEY, expires_ms INTEGER NOT NULL,"                     \
    " used_ms INTEGER, role INTEGER NOT NULL DEFAULT 0, tag TEXT NOT NULL DEFAULT '')"             \
    " STRICT, WITHOUT ROWID;"                                                                      \
    "CREATE TABLE devices (id INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL UNIQUE,"              \
    " enrolled_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"                                  \
    " lease INTEGER NOT NULL DEFAULT 0, lease_task INTEGER NOT NULL DEFAULT 0,"                    \
    " lease_round INTEGER NOT NULL DEFAULT 0, lease_attempt INTEGER NOT NULL DEFAULT 0,"           \
    " counted_lease INTEGER NOT NULL DEFAULT 0, evaluated_task INTEGER NOT NULL DEFAULT 0,"        \
    " evaluated_version INTEGER NOT NULL DEFAULT 0,"                                               \
    " revoked_ms INTEGER NOT NULL DEFAULT 0, lease_deadline_ms INTEGER NOT NULL DEFAULT 0,"        \
    " samples INTEGER NOT NULL DEFAULT 0, role INTEGER NOT NULL DEFAULT 0,"                        \
    " tag TEXT NOT NULL DEFAULT '') STRICT;"                                                       \
    "CREATE TABLE tasks (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,"                \
    " model TEXT NOT NULL, codec_up TEXT NOT NULL, codec_down TEXT NOT NULL,"                      \
    " small_tensor INTEGER NOT NULL, local_steps INTEGER NOT NULL, batch INTEGER NOT NULL,"        \
    " optimizer TEXT NOT NULL, learning_rate REAL NOT NULL, seed INTEGER NOT NULL,"                \
    " rounds INTEGER NOT NULL, cohort INTEGER NOT NULL, goal INTEGER NOT NULL,"                    \
    " minimum INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, state INTEGER NOT NULL,"             \
    " queued_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL,"      \
    " strategy TEXT NOT NULL DEFAULT 'fedavg', staleness INTEGER NOT NULL DEFAULT 0,"              \
    " selection INTEGER NOT NULL DEFAULT 0, tag TEXT NOT NULL DEFAULT '') STRICT;"                 \
    "CREATE TABLE models (task INTEGER PRIMARY KEY REFERENCES tasks, version INTEGER NOT NULL,"    \
    " digest INTEGER NOT NULL, weights BLOB NOT NULL, residual BLOB, state BLOB) STRICT;"          \
    "CREATE TABLE deltas (task INTEGER NOT NULL REFERENCES tasks, version INTEGER NOT NULL,"       \
    " part BLOB NOT NULL, PRIMARY KEY (task, version)) STRICT;"                                    \
    "CREATE TABLE rounds (task INTEGER NOT NULL REFERENCES tasks, number INTEGER NOT NULL,"        \
    " attempts INTEGER NOT NULL, opened_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"        \
    " committed_ms INTEGER NOT NULL, updates INTEGER NOT NULL, samples INTEGER NOT NULL,"          \
    " loss REAL NOT NULL, update_bytes INTEGER NOT NULL, delta_bytes INTEGER NOT NULL,"            \
    " PRIMARY KEY (task, number)) STRICT, WITHOUT ROWID;"                                          \
    "CREATE TABLE updates (id INTEGER PRIMARY KEY,"                                                \
    " device INTEGER NOT NULL UNIQUE REFERENCES devices, body BLOB NOT NULL) STRICT;"              \
    "CREATE TABLE metrics (task INTEGER NOT NULL REFERENCES tasks, version INTEGER NOT NULL,"      \
    " device INTEGER NOT NULL REFERENCES devices, samples INTEGER NOT NULL,"                       \
    " correct INTEGER NOT NULL, loss REAL NOT NULL,"                                               \
    " PRIMARY KEY (task, version, device)) STRICT, WITHOUT ROWID;"

/* FEDSERVER_MIGRATIONS[k] turns version k + 1 into k + 2. Only ever added to. */
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
    }

#endif
