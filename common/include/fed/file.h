/* Files: read or map a whole file, replace a file atomically. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_FILE_H
#define FED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/** Make an error from errno: "can't VERB PATH: reason". Returns FED_ENOTFOUND, FED_ENOSPC for a
 * full disk, or FED_EIO. */
fed_status fed_file_fail(fed_error *err, const char *verb, const char *path);

/** Read a whole file of at most limit bytes into memory. A NUL follows, which *len does not count.
 * The caller frees *data with free(). Errors name the path and the reason: FED_ENOTFOUND,
 * FED_ERANGE if the file is larger than limit, FED_EIO, FED_ENOMEM. */
fed_status fed_file_read(const char *path, size_t limit, uint8_t **data, size_t *len,
                         fed_error *err) FED_CHECKED;

/**
 * Convert a text that a person has written to the form that the parsers read. UTF-8's byte order
 * mark is removed, and a line that ends with CR LF or CR ends with '\n'. Works in place: *len
 * becomes the new length, and the bytes after it 0. `path` names the text in the message.
 * Errors: FED_EFORMAT: the text is in UTF-16. It is unchanged.
 */
fed_status fed_text_clean(const char *path, char *text, size_t *len, fed_error *err) FED_CHECKED;

/** Would fed_text_clean leave the text as it is? */
bool fed_text_is_clean(const char *text, size_t len);

/** Read a file as fed_file_read does, then convert the text as fed_text_clean does. Errors: as
 * both. */
fed_status fed_file_read_text(const char *path, size_t limit, char **text, size_t *len,
                              fed_error *err) FED_CHECKED;

/** Read the first word of a text, such as a token. Blanks and line ends before it do not count.
 * word: char[cap], terminated. Errors: as fed_file_read_text; FED_EFORMAT if the text has no word;
 * FED_ERANGE if the whole text takes cap bytes or more. */
fed_status fed_file_read_word(const char *path, char *word, size_t cap, fed_error *err) FED_CHECKED;

/**
 * Map a plain file of at most `limit` bytes, read-only. Pages are read when they are touched, and
 * all processes that map the file share them. *data is never NULL, even if *len is 0. The file must
 * not shrink while it is mapped: touching a missing page ends the program (SIGBUS). To replace a
 * mapped file, write another file and rename it. Unmap with fed_file_unmap.
 * Errors: as fed_file_read; FED_EIO also if path is not a plain file.
 */
fed_status fed_file_map(const char *path, size_t limit, const uint8_t **data, size_t *len,
                        fed_error *err) FED_CHECKED;
void fed_file_unmap(const uint8_t *data, size_t len);

/**
 * Replace a file: write a temporary file beside it, fsync it, rename it, fsync the directory.
 * After success the new bytes survive power loss. After a crash at any instant the whole old file
 * or the whole new one is there. After a failure the old file is unchanged. One exception: if the
 * last fsync fails, the new file is there, but may not survive. mode: permission bits, such as
 * 0600 for a key, with or without FED_FILE_OUTPUT, or FED_FILE_SHARED. Errors: FED_EINVAL the path
 * is too long; with the path: FED_ENOSPC for a full disk, FED_ENOTFOUND for a missing directory,
 * FED_EIO. A crash may leave the temporary file PATH.new-XXXXXX; fed_dir_tidy removes it.
 */
fed_status fed_file_replace(const char *path, const void *data, size_t len, unsigned mode,
                            fed_error *err) FED_CHECKED;

/**
 * A mode for a file in a folder that several users share, such as a coordinator's: the file gets
 * the folder's owner and group, as far as the system lets the caller give it away. Its mode is
 * 0660 if it got the folder's group and that group may write there, else 0600, whatever the umask
 * is.
 */
enum { FED_FILE_SHARED = 1 << 16 };

/**
 * A flag beside the permission bits, for a file that a person names as an output. Of a symbolic
 * link the target is replaced, and the link stays. What is not a plain file, such as a device, a
 * pipe or /dev/stdout, is opened and written. Do not use it in a folder where another user could
 * put a link in the program's way.
 */
enum { FED_FILE_OUTPUT = 1 << 17 };

/** Open a file as open(2) does with these flags. If they have O_CREAT and there is no such file,
 * the new file gets owner, group and mode as for FED_FILE_SHARED. Returns -1 and sets errno on
 * failure. */
int fed_file_open_shared(const char *path, int flags);

/** A file that is being replaced in pieces, for contents too large to be in memory twice. Only the
 * functions of fed/file.h use its fields. */
typedef struct fed_file {
    char path[4096], temp[4096]; /* temp "": the bytes go straight to `path` */
    int fd, directory;
} fed_file;

/** Replace a file as fed_file_replace does, in several calls: create; put, as often as needed; then
 * commit or abandon, once. Until a commit succeeds the old file is unchanged. Errors: as
 * fed_file_replace. After a failed put or sync call fed_file_abandon; a failed commit has done so
 * already. */
fed_status fed_file_create(const char *path, unsigned mode, fed_file *file,
                           fed_error *err) FED_CHECKED;
fed_status fed_file_put(fed_file *file, const void *data, size_t len, fed_error *err) FED_CHECKED;
/** Write to the disk what was put so far. Syncing a large file piece by piece lets other programs
 * use the disk in between. */
fed_status fed_file_sync(fed_file *file, fed_error *err) FED_CHECKED;
fed_status fed_file_commit(fed_file *file, fed_error *err) FED_CHECKED;
void fed_file_abandon(fed_file *file);

/** Rename a file so that its bytes and its new name survive power loss. If the sync of its bytes or
 * the rename fails, the file is removed. */
fed_status fed_file_move(const char *from, const char *to, fed_error *err) FED_CHECKED;

/** Put floats into the file, little-endian on every machine. x: float32[n]. */
fed_status fed_file_put_floats(fed_file *file, const float *x, size_t n,
                               fed_error *err) FED_CHECKED;

/** Make a directory and its missing parents, so that their names survive power loss. FED_OK if the
 * directory exists already; FED_EEXIST if a file has the name. */
fed_status fed_dir_make(const char *path, unsigned mode, fed_error *err) FED_CHECKED;

/** Make the name of a file or directory survive power loss: fsync the directory that holds it. */
fed_status fed_name_sync(const char *path, fed_error *err) FED_CHECKED;

/** Remove temporary files PATH.new-XXXXXX that crashes have left in a directory. No other process
 * may be replacing files there. Files that can't be removed stay. */
void fed_dir_tidy(const char *directory);

FED_API_END

#endif
