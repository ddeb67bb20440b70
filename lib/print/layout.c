/* SPDX-License-Identifier: Apache-2.0 */
/* A layout as text. */
#include <weft/mesh.h>

void weft_layout_print(const weft_mesh *mesh, weft_layout l, int n_dims, const weft_dim *dims,
                       bool with_sizes, weft_text *text)
{
    weft_text_add(text, "[");
    for (int d = 0; d < n_dims; d++) {
        int list[WEFT_MAX_AXES], n = weft_layout_list(l, d, list);
        weft_text_print(text, "%s%s", d ? ", " : "", dims[d].name);
        for (int i = 0; i < n; i++)
            weft_text_print(text, "/%s%s", mesh->axis[list[i]].name,
                            weft_layout_fine(l, list[i]) && dims[d].grain > 1 ? "!" : "");
        if (with_sizes && dims[d].grain > 1)
            weft_text_print(text, " %lld*%lld", (long long)(dims[d].size / dims[d].grain),
                            (long long)dims[d].grain);
        else if (with_sizes)
            weft_text_print(text, " %lld", (long long)dims[d].size);
    }
    weft_text_add(text, "]");
    for (int a = 0; a < mesh->n_axes; a++) {
        if (weft_layout_open(l, a))
            weft_text_print(text, " %s+%s", weft_layout_open(l, a) == WEFT_OPEN_MAX ? "max" : "",
                            mesh->axis[a].name);
        if (weft_layout_at(l, a) >= 0)
            weft_text_print(text, " @%s=%d", mesh->axis[a].name, weft_layout_at(l, a));
    }
}
