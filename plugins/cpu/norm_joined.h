/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm with what stands beside it: by the rows of norm.h, so the bits are the same, but each
 * row is read once, while it is near. */

/* r = x + d of one row, rounded as add does. */
static void add_row_to(const weft_call *call, int64_t row, int64_t width)
{
    float x[CPU_BLOCK], d[CPU_BLOCK], r[CPU_BLOCK];
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e), at = row * width + e;
        const float *px = load(&call->ins[0], at, n, x), *pd = load(&call->ins[1], at, n, d);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            r[i] = px[i] + pd[i];
        store(&call->outs[0], at, n, r, false);
    }
}

/* x, d, w -> r = x + d, y = norm of r */
static weft_status launch_add_rms_norm(const weft_call *call, weft_error *err)
{
    const norm_lines lines = norm_lines_of(&call->ins[0], NORM_RMS);
    const int64_t group = group_of(lines.width, false);
    const weft_tensor normed[] = {call->outs[0], call->ins[2]};
    float eps = (float)weft_call_real(call, "eps");
    weft_call norm = *call;
    (void)err;
    norm.ins = normed;
    norm.outs = call->outs + 1;
#pragma omp parallel for schedule(static) num_threads(team(call, 2 * lines.n * lines.width))
    for (int64_t row = 0; row < lines.n; row += group) {
        const int64_t n = least(group, lines.n - row);
        moments m[NORM_GROUP];
        for (int64_t r = 0; r < n; r++)
            add_row_to(call, row + r, lines.width);
        group_moments(&normed[0], row, n, lines.width, eps, false, m);
        for (int64_t r = 0; r < n; r++)
            norm_row(&norm, row + r, lines.width, m[r], false);
    }
    return WEFT_OK;
}

/* x, w, dy -> dx, dw, in the parts of dw */
static weft_status launch_rms_norm_dx_dw(const weft_call *call, weft_error *err)
{
    weft_status s = cpu_check_workspace(call, cpu_rows_workspace(call), err);
    if (s)
        return s;
    const norm_lines lines = norm_lines_of(&call->ins[2], NORM_RMS);
    const weft_tensor of_dw[] = {call->ins[0], call->ins[2]};
    int64_t rows = lines.n, width = lines.width, parts = least(rows, CPU_PARTS),
            group = group_of(width, false);
    float eps = (float)weft_call_real(call, "eps");
    double *sums = call->workspace;
    weft_call dw = *call;
    dw.ins = of_dw;
    dw.outs = call->outs + 1;
    dw.accumulate = false;
#pragma omp parallel for schedule(static) num_threads(team(call, 2 * rows * width))
    for (int64_t part = 0; part < parts; part++) {
        memset(sums + part * width, 0, (size_t)width * sizeof *sums);
        const int64_t end = (part + 1) * rows / parts;
        for (int64_t row = part * rows / parts; row < end; row += group) {
            const int64_t n = least(group, end - row);
            moments m[NORM_GROUP];
            group_moments(&call->ins[0], row, n, width, eps, false, m);
            for (int64_t r = 0; r < n; r++) {
                add_dw_row(&dw, row + r, width, m[r], sums + part * width);
                norm_dx_row(call, row + r, width, m[r], false);
            }
        }
    }
    add_parts(&dw, parts, width);
    return WEFT_OK;
}
