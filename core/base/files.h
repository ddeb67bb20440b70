/* SPDX-License-Identifier: Apache-2.0 */
/* Files, and what the system says of them as errors. Internal to core and lib/io. */
#ifndef WEFT_BASE_FILES_H
#define WEFT_BASE_FILES_H

#include <weft/base.h>

/* "PATH: cannot WHAT: " and the reason in errno. A path that does not exist, is of the wrong kind
 * or may not be used is the user's to put right (WEFT_ERR_INPUT), all else WEFT_ERR_IO. */
weft_status weft_fail_errno(weft_error *err, const char *path, const char *what);
/* The same with a hint behind the reason. */
weft_status weft_fail_errno_hint(weft_error *err, const char *path, const char *what,
                                 const char *hint);
/* Reads to the end, whatever size the file claims to have (pipes and /proc say 0), or a little
 * beyond `most` bytes. */
weft_status weft_read_all(int fd, const char *path, size_t most, weft_text *text, weft_error *err);

#endif
