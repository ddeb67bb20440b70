/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_CLI_LOCK_H
#define WEFT_CLI_LOCK_H

#include <weft/base.h>

/* Takes the lock of a run folder, which exists; *fd holds it. If another run has it, *fd is
 * WEFT_LOCK_BUSY, and the error, which time may cure, names it. */
enum { WEFT_LOCK_BUSY = -2 };
weft_status weft_cli_lock(const char *dir, int *fd, weft_error *err);
/* Writes into the lock who holds it. A run that makes no step leaves the file as it is. */
weft_status weft_cli_lock_sign(const char *dir, int fd, weft_error *err);
/* Of a lock that is held, in a folder that is new: nothing came of it, and none of both is left. */
void weft_cli_lock_withdraw(const char *dir);
/* What is negative is fine. */
void weft_cli_unlock(int *fd);

#endif
