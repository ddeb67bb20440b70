/* SPDX-License-Identifier: Apache-2.0 */
/* The command's own INI: what is there though nobody lists it. It gives way to the user's. */
#ifndef WEFT_LIB_CONSOLE_BUILT_IN_H
#define WEFT_LIB_CONSOLE_BUILT_IN_H

#define WEFT_BUILT_IN "built-in.ini" /* in messages */

extern const char weft_built_in[];

/* The plugin that spreads any run over ranks, for advice. */
#define WEFT_SPREAD "fsdp"

#endif
