/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels take besides their operands. Of a value that is cut unevenly ranks hold parts of
 * other extents, and buffers have room for the largest. So have workspaces: then all ranks of a
 * stage keep everything at the same offsets, and a transport may rely on that. */
#include "compile/program/compiler.h"
#include "host/enter.h"

#include <string.h>

static int64_t ask(const weft_compiler *c, const weft_kernel *k, const weft_call *call)
{
    if (!k || !k->workspace)
        return 0;
    const weft_entry entry = weft_enter_op(weft_kernels_owner(c->options->kernels, k), "workspace",
                                           call->op->name, NULL);
    const size_t bytes = k->workspace(call);
    const bool absurd = (uint64_t)bytes >> 50;
    if (absurd)
        weft_fail(c->err, WEFT_ERR_PLUGIN, WEFT_NOWHERE,
                  "plugin '%s': kernel %s of op %s asks for %zu bytes of workspace",
                  weft_blame_get().plugin, k->name, k->op, bytes);
    weft_leave(&entry, WEFT_OK);
    return absurd ? INT64_MAX : (int64_t)bytes;
}

/* As the rank with the largest part holds it. Returns whether that is more than t says. */
static bool enlarge(const weft_compiler *c, const weft_value *v, weft_tensor *t)
{
    static const int origin[WEFT_MAX_AXES];
    bool larger = false;
    for (int d = 0; d < v->n_dims; d++) {
        weft_span s = weft_layout_span(&c->g->config.mesh, v->layout, &v->dims[d], d, origin);
        larger = larger || s.chunk > t->size[d];
        t->size[d] = s.chunk;
        t->lo[d] = 0;
    }
    return larger;
}

weft_status weft_compile_workspace(weft_compiler *c, const weft_instruction *in, int64_t *bytes)
{
    const weft_kernels *kernels = c->options->kernels;
    const int n = in->n_ins + in->n_outs;
    weft_call call = weft_instruction_call(in, kernels);
    bool larger = false;
    *bytes = ask(c, in->kernel, &call);
    weft_tensor *nominal = weft_alloc(((size_t)n + 1) * sizeof *nominal);
    if (!nominal)
        return weft_fail_memory(c->err);
    memcpy(nominal, in->tensors, (size_t)n * sizeof *nominal);
    for (int i = 0; i < n; i++)
        larger |= enlarge(c, i < in->n_ins ? in->node->ins[i] : in->node->outs[i - in->n_ins],
                          &nominal[i]);
    call.ins = nominal;
    call.outs = nominal + in->n_ins;
    int64_t most = larger ? ask(c, weft_kernels_find(kernels, &call), &call) : 0;
    *bytes = most > *bytes ? most : *bytes;
    weft_free(nominal);
    return *bytes == INT64_MAX ? WEFT_ERR_PLUGIN : WEFT_OK;
}
