/* SPDX-License-Identifier: Apache-2.0 */
#include "standard_ops.h"

#include <string.h>

#include <weft/plugin.h>

extern const weft_plugin ops_LTX_plugin;

enum { MOST_OPS = 128, MOST_TABLES = 32 };

const weft_op *const *standard_ops(void)
{
    static const weft_op *all[MOST_OPS];
    const weft_op *const *const tables[] = {weft_core_ops(), ops_LTX_plugin.ops};
    int n = 0;
    for (int t = 0; t < 2; t++)
        for (int i = 0; tables[t][i] && n < MOST_OPS - 1; i++)
            all[n++] = tables[t][i];
    return all;
}

const weft_op *standard_op(const char *name)
{
    for (const weft_op *const *op = standard_ops(); *op; op++)
        if (strcmp((*op)->name, name) == 0)
            return *op;
    return NULL;
}

weft_status standard_ops_init(weft_ops *ops, const weft_op *const *const *more,
                              const char *const *names, int n_more, weft_error *err)
{
    const weft_op *const *tables[MOST_TABLES] = {ops_LTX_plugin.ops};
    const char *by[MOST_TABLES] = {"ops"};
    if (n_more >= MOST_TABLES)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%d tables of ops", n_more);
    for (int i = 0; i < n_more; i++) {
        tables[i + 1] = more[i];
        by[i + 1] = names ? names[i] : NULL;
    }
    return weft_ops_init(ops, tables, by, n_more + 1, err);
}
