/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/base.h>

static _Thread_local weft_blame current;

weft_blame weft_blame_set(weft_blame now)
{
    weft_blame before = current;
    current = now;
    return before;
}

weft_blame weft_blame_get(void)
{
    return current;
}
