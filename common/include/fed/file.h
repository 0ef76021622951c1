/* Files: read or map one whole, replace one atomically. */
#ifndef FED_FILE_H
#define FED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/** Say what could not be done with path, from errno: "can't VERB PATH: reason". FED_ENOTFOUND,
 * FED_ENOSPC a full disk, else FED_EIO. */
fed_status fed_file_fail(fed_error *err, const char *verb, const char *path);

/** Read a whole file of at most `limit` bytes into memory with a NUL behind it (not counted in
 * *len). Owner: the caller, free(). Errors name the path and the reason: FED_ENOTFOUND, FED_ERANGE
 * more than limit, FED_EIO, FED_ENOMEM. */
fed_status fed_file_read(const char *path, size_t limit, uint8_t **data, size_t *len,
                         fed_error *err) FED_CHECKED;

/**
 * Map a plain file of at most `limit` bytes, read-only: pages are read when they are touched, and
 * all processes that map it share them. *data is never NULL, also where *len is 0. The file must
 * not shrink while it is mapped: touching what is gone ends the program (SIGBUS); to replace it,
 * write another one and rename. Errors: as fed_file_read's; FED_EIO also for what is not a plain
 * file. Owner: fed_file_unmap.
 */
fed_status fed_file_map(const char *path, size_t limit, const uint8_t **data, size_t *len,
                        fed_error *err) FED_CHECKED;
void fed_file_unmap(const uint8_t *data, size_t len);

/**
 * Replace a file: after success the new bytes are on disk and survive power loss; after failure, or
 * a crash at any instant, the old file is as it was (temp file beside it, write, fsync, rename,
 * fsync of the directory). Only when that last fsync fails is the new file there and yet not sure
 * to stay. mode: permission bits, such as 0600 for a key. Errors, all naming the path: FED_ENOSPC a
 * full disk, FED_ENOTFOUND no such directory, FED_EIO. A crash may leave the temp file,
 * PATH.new-XXXXXX, which nothing needs (fed_dir_tidy).
 */
fed_status fed_file_replace(const char *path, const void *data, size_t len, unsigned mode,
                            fed_error *err) FED_CHECKED;

/** A file being replaced piece by piece, for what is too large to be in memory twice. Its fields
 * are for fed/file.h's functions only. */
typedef struct fed_file {
    char path[4096], temp[4096];
    int fd, directory;
} fed_file;

/** fed_file_replace in steps: create, put as often as needed, then commit or abandon, once. Until a
 * commit succeeds the old file is as it was. Errors: as above; after one of put or commit nothing
 * is left but to abandon, which commit does itself. */
fed_status fed_file_create(const char *path, unsigned mode, fed_file *file,
                           fed_error *err) FED_CHECKED;
fed_status fed_file_put(fed_file *file, const void *data, size_t len, fed_error *err) FED_CHECKED;
fed_status fed_file_commit(fed_file *file, fed_error *err) FED_CHECKED;
void fed_file_abandon(fed_file *file);

/** Rename a file so that its bytes and its new name survive power loss. On failure it is removed.
 */
fed_status fed_file_move(const char *from, const char *to, fed_error *err) FED_CHECKED;

/** Put floats, little-endian whatever the machine.   x float32[n] */
fed_status fed_file_put_floats(fed_file *file, const float *x, size_t n,
                               fed_error *err) FED_CHECKED;

/** Make a directory and its missing parents, so that their names survive power loss. One that is
 * there already is fine; a file of that name is FED_EEXIST. */
fed_status fed_dir_make(const char *path, unsigned mode, fed_error *err) FED_CHECKED;

/** Make the name of a file or directory survive power loss: fsync of the directory that holds it.
 */
fed_status fed_name_sync(const char *path, fed_error *err) FED_CHECKED;

/** Remove the temp files that crashes have left in a directory, PATH.new-XXXXXX. Nobody else may be
 * replacing files there. What can't be removed stays, until another time. */
void fed_dir_tidy(const char *directory);

FED_API_END

#endif
