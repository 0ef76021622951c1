/* The table of devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "fedserver/stores/sql/sql_calls.h"
#include "fedserver/stores/sql/sql_rows.h"

#define RECORD fedserver_device
static const fedserver_column identity[] = {DEVICE_IDENTITY(COLUMN, )};
static const fedserver_column device_state[] = {DEVICE_STATE(COLUMN, )};
#undef RECORD

fed_status fedserver_sql_device_add(void *db, fedserver_device *device, fed_error *err) {
    fedserver_value values[COUNT(identity) + COUNT(device_state)];
    BIND(identity, device, values);
    BIND(device_state, device, &values[COUNT(identity)]);
    fedserver_written written;
    FED_TRY(
        fedserver_sql_write(db, FEDSERVER_SQL_DEVICE_ADD, values, COUNT(values), &written, err));
    assert(written.id != 0); /* S13 in docs/durability.md: the new row has an id. */
    device->id = written.id;
    return FED_OK;
}

fed_status fedserver_sql_device_put(void *db, const fedserver_device *device, fed_error *err) {
    assert(device->id != 0); /* S13 in docs/durability.md: device_add has made the device's row. */
    fedserver_value values[COUNT(device_state) + 1] = {[COUNT(device_state)] = INT(device->id)};
    BIND(device_state, device, values);
    return fedserver_sql_write(db, FEDSERVER_SQL_DEVICE_PUT, values, COUNT(values), NULL, err);
}

/* Devices with a lease are also rows of the table `leases`, where a starting coordinator finds
 * them. An index over `devices` would have to change with every counted update. */
fed_status fedserver_sql_device_lease(void *db, const fedserver_device *device, fed_error *err) {
    /* S3 in docs/durability.md: a lease belongs to one task. */
    assert(device->lease != 0 && device->lease_task != 0);
    FED_TRY(fedserver_sql_device_put(db, device, err));
    return WRITE(LEASE_NOTE, INT(device->lease_task), INT(device->lease_round), INT(device->id));
}

/* Read a device from the columns DEVICE_MEMBERS. Returns the number of the next column. */
static int device_read(const fedserver_sql_row *row, fedserver_device *device) {
    *device = (fedserver_device){.id = fedserver_sql_row_int(row, 0),
                                 .change = fedserver_sql_row_int(row, 1)};
    return READ_INTO(device_state, row, READ_INTO(identity, row, 2, device), device);
}

fed_status fedserver_sql_device_revoke(void *db, int64_t device, int64_t now_ms, fed_error *err) {
    return WRITE(DEVICE_REVOKE, INT(device), INT(now_ms));
}

fed_status fedserver_sql_device_name(void *db, int64_t device, const uint8_t *fingerprint,
                                     fed_error *err) {
    return WRITE(DEVICE_NAME, INT(device), BLOB(fingerprint, FED_SHA256_SIZE));
}

fed_status fedserver_sql_device_rename(void *db, int64_t device, const char *name, fed_error *err) {
    return WRITE(DEVICE_RENAME, INT(device), TEXT(name));
}

fed_status fedserver_sql_device_renew(void *db, int64_t device, int64_t expires_ms,
                                      fed_error *err) {
    return WRITE(DEVICE_RENEW, INT(device), INT(expires_ms));
}

fed_status fedserver_sql_device_find(void *db, const uint8_t *fingerprint, fedserver_device *device,
                                     fed_error *err) {
    fedserver_sql_row row;
    bool found;
    FED_TRY(FIRST(DEVICE_FIND, &row, &found, BLOB(fingerprint, FED_SHA256_SIZE)));
    if (!found) {
        return fed_fail(err, FED_ENOTFOUND, "no device has that fingerprint");
    }
    device_read(&row, device);
    /* S13 in docs/durability.md: a device is found by its key's SHA-256. */
    assert(memcmp(device->fingerprint, fingerprint, FED_SHA256_SIZE) == 0);
    fedserver_sql_row_end(&row);
    return FED_OK;
}

/* Visit the devices of these rows. If the rows have a further column, that column says when the
 * device declined a task. */
static fed_status visit_each(fedserver_sql_row *row, fedserver_device_visit visit, void *user,
                             fed_error *err) {
    bool more;
    FED_TRY(fedserver_sql_row_next(row, &more, err));
    while (more) {
        fedserver_device device;
        const int end = device_read(row, &device);
        device.declined_ms = end < row->engine->columns(row) ? fedserver_sql_row_int(row, end) : 0;
        fed_status status = visit(user, &device, err);
        FED_TRY(fedserver_sql_row_after(row, status, &more, err));
    }
    return FED_OK;
}

typedef struct device_page {
    fedserver_device_visit visit;
    void *user;
    int64_t last;
    uint32_t count;
} device_page;

static fed_status visit_page(void *user, const fedserver_device *device, fed_error *err) {
    device_page *page = user;
    assert(device->id > page->last); /* D6 in docs/durability.md: ids grow, so the loop ends. */
    page->last = device->id;
    page->count++;
    return page->visit(page->user, device, err);
}

/* Read the devices in pages, because an engine may hold a statement's whole result in memory. */
fed_status fedserver_sql_device_each(void *db, fedserver_device_visit visit, void *user,
                                     fed_error *err) {
    enum { PAGE = 4096 };
    device_page page = {.visit = visit, .user = user, .last = INT64_MIN, .count = PAGE};
    while (page.count == PAGE) {
        fedserver_sql_row row;
        page.count = 0;
        FED_TRY(READ(DEVICE_EACH, &row, INT(page.last), INT(PAGE)));
        FED_TRY(visit_each(&row, visit_page, &page, err));
    }
    return FED_OK;
}

fed_status fedserver_sql_device_changes(void *db, int64_t after, fedserver_device_visit visit,
                                        void *user, fed_error *err) {
    fedserver_sql_row row;
    FED_TRY(READ(DEVICE_CHANGES, &row, INT(after)));
    return visit_each(&row, visit, user, err);
}

fed_status fedserver_sql_device_newest(void *db, int64_t *change, fed_error *err) {
    return fedserver_sql_count(db, FEDSERVER_SQL_DEVICE_NEWEST, NO_VALUES, change, err);
}

fed_status fedserver_sql_device_leased(void *db, uint64_t task, uint32_t round,
                                       fedserver_device_visit visit, void *user, fed_error *err) {
    fedserver_sql_row row;
    FED_TRY(READ(DEVICE_LEASED, &row, INT(task), INT(round)));
    return visit_each(&row, visit, user, err);
}

fed_status fedserver_sql_device_page(void *db, uint64_t task, int64_t after, uint32_t limit,
                                     fedserver_device_visit visit, void *user, fed_error *err) {
    fedserver_sql_row row;
    FED_TRY(READ(DEVICE_PAGE, &row, INT(task), INT(after), INT(limit)));
    return visit_each(&row, visit, user, err);
}

fed_status fedserver_sql_device_count(void *db, uint64_t *count, fed_error *err) {
    int64_t found;
    FED_TRY(fedserver_sql_count(db, FEDSERVER_SQL_DEVICE_COUNT, NO_VALUES, &found, err));
    *count = (uint64_t)found;
    return FED_OK;
}
