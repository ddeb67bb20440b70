/* SPDX-License-Identifier: Apache-2.0 */
/* The secret that the ranks of one run share. */
#ifndef WEFT_LIB_NET_TOKEN_H
#define WEFT_LIB_NET_TOKEN_H

#include "execute/control.h"

/* What WEFT_TOKEN or the file that WEFT_TOKEN_FILE names holds; where neither is set, the user's
 * own weft/token in XDG_CONFIG_HOME or ~/.config; "" if there is none. A file that others can read,
 * or could have written, is refused. */
weft_status weft_token_read(char **out, weft_error *err);
/* Overwrites WEFT_TOKEN in this process's environment and takes it out: neither what this process
 * starts nor a core dump has it then. */
void weft_token_forget(void);
/* Overwrites it; it lies where no core dump shows it. NULL is fine. */
void weft_token_destroy(char *token);
/* Over TCP anybody can come, so a token that cannot be guessed is due. */
weft_status weft_token_check(const weft_join *join, weft_error *err);

#endif
