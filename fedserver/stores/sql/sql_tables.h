/* Lists the columns whose values are members of C records. From one list the SQL text, the binding
 * and the reading are made. Other columns are handled by the code of their statement. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORES_SQL_SQL_TABLES_H
#define FEDSERVER_STORES_SQL_SQL_TABLES_H

/*
 * A list is a macro with parameters C and S. C(type, name, member) is a column. Its type is INT (a
 * member of 4 or 8 bytes), REAL (float or double; NaN is SQL's NULL), TEXT (char[]) or BLOB
 * (uint8_t[], exactly as long as the column's bytes). S stands between two columns: a comma in a
 * string for SQL, nothing for C.
 */

/* clang-format off */
#define TOKEN_MADE(C, S)            /* written by token_add */                                     \
    C(INT, expires_ms, expires_ms)  S                                                              \
    C(INT, role, role)              S                                                              \
    C(TEXT, tag, tag)               S                                                              \
    C(TEXT, name, name)             S                                                              \
    C(INT, made_ms, made_ms)
#define TOKEN_ENDED(C, S)           /* written by token_use and token_withdraw */                  \
    C(INT, used_ms, used_ms)        S                                                              \
    C(INT, withdrawn_ms, withdrawn_ms)

#define PASS_MADE(C, S)             /* written by pass_add */                                      \
    C(INT, kind, kind)              S                                                              \
    C(INT, expires_ms, expires_ms)
#define PASS_ENDED(C, S)            /* written by pass_use */                                      \
    C(INT, used_ms, used_ms)

#define DEVICE_IDENTITY(C, S)       /* written by device_add */             \
    C(BLOB, fingerprint, fingerprint)               S                                              \
    C(INT, enrolled_ms, enrolled_ms)                S                                              \
    C(INT, expires_ms, expires_ms)                  S                                              \
    C(INT, role, role)                              S                                              \
    C(TEXT, tag, tag)                               S                                              \
    C(TEXT, name, name)                             S                                              \
    C(INT, revoked_ms, revoked_ms)
#define DEVICE_STATE(C, S)          /* written by device_add and device_put */                     \
    C(INT, lease, lease)                            S                                              \
    C(INT, lease_task, lease_task)                  S                                              \
    C(INT, lease_round, lease_round)                S                                              \
    C(INT, lease_attempt, lease_attempt)            S                                              \
    C(INT, lease_deadline_ms, lease_deadline_ms)    S                                              \
    C(INT, counted_lease, counted_lease)            S                                              \
    C(INT, counted_digest, counted_digest)          S                                              \
    C(INT, evaluated_task, evaluated_task)          S                                              \
    C(INT, evaluated_version, evaluated_version)    S                                              \
    C(INT, samples, samples)                        S                                              \
    C(INT, cloned_ms, cloned_ms)                    S                                              \
    C(TEXT, software, software)                     S                                              \
    C(TEXT, computes_on, computes_on)               S                                              \
    C(INT, seen_ms, seen_ms)                        S                                              \
    C(INT, counted, counted)                        S                                              \
    C(INT, late, late)                              S                                              \
    C(INT, refused, refused)                        S                                              \
    C(INT, authority, authority)

#define ROUND_COLUMNS(C, S)                                                                        \
    C(INT, number, number)                          S                                              \
    C(INT, attempts, attempts)                      S                                              \
    C(INT, opened_ms, opened_ms)                    S                                              \
    C(INT, deadline_ms, deadline_ms)                S                                              \
    C(INT, committed_ms, committed_ms)              S                                              \
    C(INT, closing_ms, closing_ms)                  S                                              \
    C(INT, updates, updates)                        S                                              \
    C(INT, samples, samples)                        S                                              \
    C(REAL, loss, loss)                             S                                              \
    C(INT, update_bytes, update_bytes)              S                                              \
    C(INT, delta_bytes, delta_bytes)                S                                              \
    C(INT, heaviest, heaviest.device)               S                                              \
    C(REAL, heaviest_share, heaviest.amount)        S                                              \
    C(INT, furthest, furthest.device)               S                                              \
    C(REAL, furthest_norm, furthest.amount)         S                                              \
    C(INT, own_dropped, own_dropped)                S                                              \
    C(REAL, clip, clip)                             S                                              \
    C(REAL, sigma2, sigma2)                         S                                              \
    C(REAL, rho, rho)                               S                                              \
    C(BLOB, set_digest, set_digest)                 S                                              \
    C(BLOB, noise_key, noise_key)

#define METRIC_COLUMNS(C, S)                                                                       \
    C(INT, task, task)              S                                                              \
    C(INT, version, version)        S                                                              \
    C(INT, samples, samples)        S                                                              \
    C(INT, correct, correct)        S                                                              \
    C(REAL, loss, loss)

#define OWN_COLUMNS(C, S)                                                                          \
    C(TEXT, name, name)             S                                                              \
    C(INT, reports, reports)        S                                                              \
    C(INT, samples, samples)        S                                                              \
    C(REAL, mean, mean)             S                                                              \
    C(REAL, least, least)           S                                                              \
    C(REAL, most, most)

#define UPDATE_COLUMNS(C, S)                                                                       \
    C(INT, task, task)              S                                                              \
    C(INT, round, round)            S                                                              \
    C(INT, device, device)          S                                                              \
    C(INT, lease, lease)

#define PIECE_COLUMNS(C, S)                                                                        \
    C(INT, lease, lease)            S                                                              \
    C(INT, digest, digest)          S                                                              \
    C(INT, total, total)            S                                                              \
    C(INT, start, offset)

#define AUDIT_COLUMNS(C, S)                                                                        \
    C(INT, at_ms, at_ms)            S                                                              \
    C(TEXT, event, event)           S                                                              \
    C(TEXT, detail, detail)
/* clang-format on */

/* Turn a list into SQL text. For columns a and b: NAMES gives "a, b", MARKS "?, ?", SETS "a = ?, b
 * = ?", NEWS "a = excluded.a, b = excluded.b", NAMES_OF_R "r.a, r.b". */
#define COLUMN_NAME(type, name, member) #name
#define COLUMN_MARK(type, name, member) "?"
#define COLUMN_SET(type, name, member)  #name " = ?"
#define COLUMN_NEW(type, name, member)  #name " = excluded." #name
#define COLUMN_OF_R(type, name, member) "r." #name
#define NAMES(list)                     list(COLUMN_NAME, ", ")
#define MARKS(list)                     list(COLUMN_MARK, ", ")
#define SETS(list)                      list(COLUMN_SET, ", ")
#define NEWS(list)                      list(COLUMN_NEW, ", ")
#define NAMES_OF_R(list)                list(COLUMN_OF_R, ", ")

#define DEVICE_MEMBERS "id, change, " NAMES(DEVICE_IDENTITY) ", " NAMES(DEVICE_STATE)

#endif
