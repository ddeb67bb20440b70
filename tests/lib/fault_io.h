/* SPDX-License-Identifier: Apache-2.0 */
/* A file system in memory behind weft_io that knows what would survive a crash, and can crash or
 * refuse at any call.
 *
 * What lasts: a file's bytes once the file was fsynced; a name (of a new, renamed or removed file
 * or folder) once its folder was fsynced (a rename from one folder to another: the one it went to).
 * Paths begin at the root, with or without a slash. Thread-safe. */
#ifndef FAULT_IO_H
#define FAULT_IO_H

#include <weft/store.h>

typedef struct fault_fs fault_fs;

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_CRASH, /* the n-th call and all after it do nothing and fail with EIO, until the reboot */
    FAULT_ERROR, /* the n-th call alone does nothing and fails (close does close; EINTR: rename and
                    its like, which know none, succeed) */
    FAULT_REFUSE, /* from the n-th call on, all that would change something fail (ENOSPC, EROFS);
                     removing works, but for EROFS */
    FAULT_SHORT,  /* the n-th call, if it reads or writes, moves half of its bytes */
} fault_kind;

/* An empty root. Its own memory does not count as weft's. */
fault_fs *fault_fs_create(void);
void fault_fs_destroy(fault_fs *fs);
const weft_io *fault_fs_io(fault_fs *fs);
/* From now on; n: 1 is the next call. Counts calls anew. error: for ERROR and REFUSE. */
void fault_fs_arm(fault_fs *fs, fault_kind kind, long n, int error);
/* Calls since it was armed (or made, or booted). */
long fault_fs_calls(fault_fs *fs);
/* Whether the n-th call has come. */
bool fault_fs_fired(fault_fs *fs);
/* What lasts is all there is now; no file is open, nothing is armed. seed 0: everything else is
 * lost. Else, by the seed: each change of a name that was not flushed happened or did not, and each
 * block of bytes that was not flushed is as before, as written, zeros or garbage. */
void fault_fs_reboot(fault_fs *fs, uint64_t seed);
/* All there is now lasts. */
void fault_fs_sync_all(fault_fs *fs);
/* File descriptors not closed. */
int fault_fs_open_files(fault_fs *fs);

#endif
