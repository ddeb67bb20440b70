/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says of files, as errors. Internal to core/base and lib/io. */
#ifndef WEFT_BASE_FILES_H
#define WEFT_BASE_FILES_H

#include <weft/base.h>

/* "PATH: cannot WHAT: " and the reason in errno. A path that does not exist, is of the wrong kind
 * or may not be used is the user's to put right (WEFT_ERR_INPUT), all else WEFT_ERR_IO. */
weft_status weft_fail_errno(weft_error *err, const char *path, const char *what);
/* The same with a hint behind the reason. */
weft_status weft_fail_errno_hint(weft_error *err, const char *path, const char *what,
                                 const char *hint);

#endif
