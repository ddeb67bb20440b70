/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm, layer_norm, head_norm and their gradients. An rms_norm is a layer_norm whose mean is
 * held at zero, a head_norm an rms_norm of every head. */

typedef enum norm_kind { NORM_RMS, NORM_LAYER, NORM_HEADS } norm_kind;

/* What is normed by itself. */
typedef struct norm_lines {
    int64_t n, width;
} norm_lines;

static norm_lines norm_lines_of(const weft_tensor *x, norm_kind kind)
{
    const int64_t width = kind == NORM_HEADS ? x->grain[x->n_dims - 1] : width_of(x);
    return (norm_lines){width > 0 ? rows_of(x) * (width_of(x) / width) : 0, width};
}

typedef struct moments {
    float mean, r; /* r = 1 / sqrt(variance + eps) */
} moments;

static moments row_moments(const weft_tensor *x, int64_t row, int64_t width, float eps,
                           bool centred)
{
    float buffer[CPU_BLOCK];
    double sum = 0.0, squares = 0.0;
    moments m = {0.0f, 0.0f};
    for (int64_t e = 0; centred && e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e);
        const float *p = load(x, row * width + e, n, buffer);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += p[i];
        sum += (double)part;
    }
    m.mean = centred ? (float)(sum / (double)width) : 0.0f;
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e);
        const float *p = load(x, row * width + e, n, buffer);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += (p[i] - m.mean) * (p[i] - m.mean);
        squares += (double)part;
    }
    m.r = (float)(1.0 / sqrt(squares / (double)width + (double)eps));
    return m;
}

/* Of a narrow line the root takes longer than all else, so several lines' are drawn at once. */
enum { NORM_GROUP = 8 };

static int64_t group_of(int64_t width, bool centred)
{
    return !centred && width <= CPU_BLOCK ? NORM_GROUP : 1;
}

/* Of n rows, a group at most: the bits of row_moments. */
static CPU_ONCE void group_moments(const weft_tensor *x, int64_t row, int64_t n, int64_t width,
                                   float eps, bool centred, moments m[NORM_GROUP])
{
    float buffer[CPU_BLOCK];
    double squares[NORM_GROUP] = {0.0};
    if (group_of(width, centred) == 1) {
        m[0] = row_moments(x, row, width, eps, centred);
        return;
    }
    for (int64_t r = 0; r < n; r++) {
        const float *p = load(x, (row + r) * width, width, buffer);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < width; i++)
            part += p[i] * p[i];
        squares[r] = (double)part;
    }
#pragma omp simd
    for (int r = 0; r < NORM_GROUP; r++)
        squares[r] = 1.0 / sqrt(squares[r] / (double)width + (double)eps);
    for (int r = 0; r < NORM_GROUP; r++)
        m[r] = (moments){0.0f, (float)squares[r]};
}

static CPU_ONCE void norm_row(const weft_call *call, int64_t row, int64_t width, moments m,
                              bool centred)
{
    float x[CPU_BLOCK], w[CPU_BLOCK], bias[CPU_BLOCK], y[CPU_BLOCK];
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e);
        const float *px = load(&call->ins[0], row * width + e, n, x),
                    *pw = load(&call->ins[1], e, n, w);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = (px[i] - m.mean) * m.r * pw[i];
        if (centred) {
            const float *pb = load(&call->ins[2], e, n, bias);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] += pb[i];
        }
        store(&call->outs[0], row * width + e, n, y, call->accumulate);
    }
}

static weft_status norm(const weft_call *call, norm_kind kind)
{
    const norm_lines lines = norm_lines_of(&call->ins[0], kind);
    const int64_t group = group_of(lines.width, kind == NORM_LAYER);
    float eps = (float)weft_call_real(call, "eps");
#pragma omp parallel for schedule(static) num_threads(team(call, lines.n *lines.width))
    for (int64_t row = 0; row < lines.n; row += group) {
        const int64_t n = least(group, lines.n - row);
        moments m[NORM_GROUP];
        group_moments(&call->ins[0], row, n, lines.width, eps, kind == NORM_LAYER, m);
        for (int64_t r = 0; r < n; r++)
            norm_row(call, row + r, lines.width, m[r], kind == NORM_LAYER);
    }
    return WEFT_OK;
}

static weft_status launch_rms_norm(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm(call, NORM_RMS);
}

static weft_status launch_layer_norm(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm(call, NORM_LAYER);
}

static weft_status launch_head_norm(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm(call, NORM_HEADS);
}

/* ---- x, w, dy -> r (g - mean(g) - x^ mean(g x^)), g = dy w; mean(g) only if centred ---- */

static CPU_ONCE void norm_dx_row(const weft_call *call, int64_t row, int64_t width, moments m,
                                 bool centred)
{
    float x[CPU_BLOCK], w[CPU_BLOCK], dy[CPU_BLOCK], dx[CPU_BLOCK];
    double g_sum = 0.0, gx_sum = 0.0;
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e), at = row * width + e;
        const float *px = load(&call->ins[0], at, n, x), *pw = load(&call->ins[1], e, n, w),
                    *pd = load(&call->ins[2], at, n, dy);
        float g_part = 0.0f, gx_part = 0.0f;
#pragma omp simd reduction(+ : g_part, gx_part)
        for (int64_t i = 0; i < n; i++) {
            float g = pd[i] * pw[i];
            g_part += g;
            gx_part += g * ((px[i] - m.mean) * m.r);
        }
        g_sum += (double)g_part;
        gx_sum += (double)gx_part;
    }
    float g_mean = centred ? (float)(g_sum / (double)width) : 0.0f,
          gx_mean = (float)(gx_sum / (double)width);
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e), at = row * width + e;
        const float *px = load(&call->ins[0], at, n, x), *pw = load(&call->ins[1], e, n, w),
                    *pd = load(&call->ins[2], at, n, dy);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = m.r * (pd[i] * pw[i] - g_mean - (px[i] - m.mean) * m.r * gx_mean);
        store(&call->outs[0], at, n, dx, call->accumulate);
    }
}

static weft_status norm_dx(const weft_call *call, norm_kind kind)
{
    const norm_lines lines = norm_lines_of(&call->ins[2], kind);
    const int64_t group = group_of(lines.width, kind == NORM_LAYER);
    float eps = (float)weft_call_real(call, "eps");
#pragma omp parallel for schedule(static) num_threads(team(call, lines.n *lines.width))
    for (int64_t row = 0; row < lines.n; row += group) {
        const int64_t n = least(group, lines.n - row);
        moments m[NORM_GROUP];
        group_moments(&call->ins[0], row, n, lines.width, eps, kind == NORM_LAYER, m);
        for (int64_t r = 0; r < n; r++)
            norm_dx_row(call, row + r, lines.width, m[r], kind == NORM_LAYER);
    }
    return WEFT_OK;
}

static weft_status launch_rms_norm_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm_dx(call, NORM_RMS);
}

static weft_status launch_layer_norm_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm_dx(call, NORM_LAYER);
}

static weft_status launch_head_norm_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return norm_dx(call, NORM_HEADS);
}

/* ---- sums over rows: CPU_PARTS fixed parts in f64 in the workspace, then together in order ----
 */

static void add_parts_block(const weft_call *call, int64_t parts, int64_t width, int64_t at,
                            int64_t n)
{
    const double *sums = (const double *)call->workspace + at;
    double sum[CPU_BLOCK] = {0.0};
    float y[CPU_BLOCK];
    for (int64_t part = 0; part < parts; part++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += sums[part * width + i];
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)sum[i];
    store(&call->outs[0], at, n, y, call->accumulate);
}

/* outs[0][e] = (or +=) the sum of all parts. */
static void add_parts(const weft_call *call, int64_t parts, int64_t width)
{
#pragma omp parallel for schedule(static) num_threads(team(call, parts *width))
    for (int64_t i = 0; i < blocks_of(width); i++)
        add_parts_block(call, parts, width, i * CPU_BLOCK, least(CPU_BLOCK, width - i * CPU_BLOCK));
}

static CPU_ONCE void add_dw_row(const weft_call *call, int64_t row, int64_t width, moments m,
                                double *sum)
{
    float x[CPU_BLOCK], dy[CPU_BLOCK];
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e), at = row * width + e;
        const float *px = load(&call->ins[0], at, n, x), *pd = load(&call->ins[1], at, n, dy);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[e + i] += (double)(pd[i] * ((px[i] - m.mean) * m.r));
    }
}

static weft_status norm_dw(const weft_call *call, norm_kind kind, weft_error *err)
{
    weft_status s = cpu_check_workspace(call, cpu_rows_workspace(call), err);
    if (s)
        return s;
    const norm_lines lines = norm_lines_of(&call->ins[1], kind);
    int64_t rows = lines.n, width = lines.width, parts = least(rows, CPU_PARTS),
            group = group_of(width, kind == NORM_LAYER);
    float eps = (float)weft_call_real(call, "eps");
    double *sums = call->workspace;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t part = 0; part < parts; part++) {
        memset(sums + part * width, 0, (size_t)width * sizeof *sums);
        const int64_t end = (part + 1) * rows / parts;
        for (int64_t row = part * rows / parts; row < end; row += group) {
            const int64_t n = least(group, end - row);
            moments m[NORM_GROUP];
            group_moments(&call->ins[0], row, n, width, eps, kind == NORM_LAYER, m);
            for (int64_t r = 0; r < n; r++)
                add_dw_row(call, row + r, width, m[r], sums + part * width);
        }
    }
    add_parts(call, parts, width);
    return WEFT_OK;
}

static weft_status launch_rms_norm_dw(const weft_call *call, weft_error *err)
{
    return norm_dw(call, NORM_RMS, err);
}

static weft_status launch_layer_norm_dw(const weft_call *call, weft_error *err)
{
    return norm_dw(call, NORM_LAYER, err);
}

static weft_status launch_head_norm_dw(const weft_call *call, weft_error *err)
{
    return norm_dw(call, NORM_HEADS, err);
}

static void add_row(const weft_tensor *x, int64_t row, int64_t width, double *sum)
{
    float buffer[CPU_BLOCK];
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e);
        const float *p = load(x, row * width + e, n, buffer);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[e + i] += (double)p[i];
    }
}

static weft_status launch_bias_dw(const weft_call *call, weft_error *err)
{
    int64_t rows = rows_of(&call->ins[0]), width = width_of(&call->ins[0]),
            parts = least(rows, CPU_PARTS);
    double *sums = call->workspace;
    weft_status s = cpu_check_workspace(call, cpu_rows_workspace(call), err);
    if (s)
        return s;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t part = 0; part < parts; part++) {
        memset(sums + part * width, 0, (size_t)width * sizeof *sums);
        for (int64_t row = part * rows / parts; row < (part + 1) * rows / parts; row++)
            add_row(&call->ins[0], row, width, sums + part * width);
    }
    add_parts(call, parts, width);
    return WEFT_OK;
}
