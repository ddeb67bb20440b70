/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled only where plugins are linked into the program: tells libltdl of them before anybody
 * asks it for one. */
#include <ltdl.h>

static void __attribute__((constructor)) register_builtin_plugins(void)
{
    LTDL_SET_PRELOADED_SYMBOLS();
}
