/* A coordinator's database made into one of the first release. */
#ifndef FED_FIRST_RELEASE_H
#define FED_FIRST_RELEASE_H

/** SQL that takes away what has been added since. The open round's updates stay: by device, as they
 * were then; so none of their bodies may lie in a segment file. */
#define FED_FIRST_RELEASE                                                                          \
    "BEGIN; ALTER TABLE updates RENAME TO updates_by_lease;"                                       \
    "CREATE TABLE updates (id INTEGER PRIMARY KEY, device INTEGER NOT NULL UNIQUE REFERENCES"      \
    " devices, body BLOB NOT NULL) STRICT;"                                                        \
    "INSERT INTO updates SELECT id, device, body FROM updates_by_lease;"                           \
    "DROP TABLE updates_by_lease; DROP TABLE pieces; DROP TABLE phases; DROP TABLE keyframes;"     \
    "DROP TABLE audit; DROP TABLE declines;"                                                       \
    "DROP TABLE passes;"                                                                           \
    "ALTER TABLE devices DROP COLUMN revoked_ms;"                                                  \
    "ALTER TABLE devices DROP COLUMN lease_deadline_ms;"                                           \
    "ALTER TABLE devices DROP COLUMN samples; ALTER TABLE devices DROP COLUMN role;"               \
    "ALTER TABLE tasks DROP COLUMN device_share; ALTER TABLE rounds DROP COLUMN heaviest;"         \
    "ALTER TABLE rounds DROP COLUMN heaviest_share; ALTER TABLE rounds DROP COLUMN furthest;"      \
    "ALTER TABLE rounds DROP COLUMN furthest_norm;"                                                \
    "ALTER TABLE devices DROP COLUMN counted_digest; ALTER TABLE devices DROP COLUMN cloned_ms;"   \
    "ALTER TABLE devices DROP COLUMN tag; ALTER TABLE tokens DROP COLUMN role;"                    \
    "ALTER TABLE tokens DROP COLUMN tag; ALTER TABLE tasks DROP COLUMN strategy;"                  \
    "ALTER TABLE tasks DROP COLUMN staleness; ALTER TABLE tasks DROP COLUMN selection;"            \
    "ALTER TABLE tasks DROP COLUMN tag; ALTER TABLE tasks DROP COLUMN position;"                   \
    "ALTER TABLE models DROP COLUMN residual_guard; ALTER "                                        \
    "TABLE models DROP COLUMN state_guard; ALTER TABLE models DROP COLUMN state;"                  \
    "ALTER TABLE tokens DROP COLUMN name; ALTER TABLE tokens DROP COLUMN made_ms;"                 \
    "ALTER TABLE tokens DROP COLUMN withdrawn_ms; ALTER TABLE devices DROP COLUMN name;"           \
    "ALTER TABLE devices DROP COLUMN seen_ms; ALTER TABLE devices DROP COLUMN software;"           \
    "ALTER TABLE devices DROP COLUMN counted; ALTER TABLE devices DROP COLUMN late;"               \
    "ALTER TABLE devices DROP COLUMN refused; ALTER TABLE devices DROP COLUMN authority;"          \
    "PRAGMA user_version = 1; COMMIT;"

#endif
