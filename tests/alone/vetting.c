/* SPDX-License-Identifier: Apache-2.0 */
/* How a program vets that has nothing of lib: not at all, and so under no lock. */
#include "host/vetting.h"

static weft_status identify(const char *path, weft_where where, weft_file_id *id, weft_error *err)
{
    (void)path;
    (void)where;
    (void)err;
    *id = (weft_file_id){.sha256 = "?"};
    return WEFT_OK;
}

static weft_status open_locks(const weft_params *weft, weft_locks **locks, weft_error *err)
{
    *locks = NULL;
    if (weft && *weft_params_text(weft, "lock"))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(weft, "lock"),
                         "this program vets nothing; leave the lock out");
    return WEFT_OK;
}

const weft_vetting weft_program_vetting = {.identify = identify, .open = open_locks};
