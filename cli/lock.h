/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_CLI_LOCK_H
#define WEFT_CLI_LOCK_H

#include <weft/base.h>

/* Takes the lock of a run folder, which exists; *fd holds it. Refused if another run has it: the
 * error names it. */
weft_status weft_cli_lock(const char *dir, int *fd, weft_error *err);
/* -1 is fine. */
void weft_cli_unlock(int *fd);

#endif
