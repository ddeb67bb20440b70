/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the device "cpu", in f32 and bf16. Every element is one sum in one order, whatever
 * the number of threads. */
#include "cpu.h"

#include <math.h>

/* ---- silu ---- */

static weft_status launch_silu(const weft_call *call, weft_error *err)
{
    const int64_t n = weft_tensor_count(&call->outs[0]), blocks = (n + BLOCK - 1) / BLOCK;
    const bool backward = call->n_ins > 1;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, n))
    for (int64_t b = 0; b < blocks; b++) {
        float room[BLOCK], room2[BLOCK], y[BLOCK];
        const int64_t at = b * BLOCK, k = least(BLOCK, n - at);
        const float *x = load(&call->ins[0], at, k, room),
                    *dy = backward ? load(&call->ins[1], at, k, room2) : NULL;
        for (int64_t i = 0; i < k; i++) {
            const float s = 1 / (1 + expf(-x[i]));
            y[i] = backward ? dy[i] * s * (1 + x[i] * (1 - s)) : x[i] * s;
        }
        store(call, at, k, y);
    }
    return WEFT_OK;
}

/* ---- modulate ---- */

typedef struct stats {
    float mean, factor;
} stats;

static stats stats_of(const weft_tensor *x, int64_t row, int64_t width, double eps)
{
    float room[BLOCK];
    double sum = 0, squares = 0;
    EACH_BLOCK(from, n, width)
    {
        const float *v = load(x, row * width + from, n, room);
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += v[i];
        sum += (double)part;
    }
    const float mean = (float)(sum / (double)width);
    EACH_BLOCK(from, n, width)
    {
        const float *v = load(x, row * width + from, n, room);
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += (v[i] - mean) * (v[i] - mean);
        squares += (double)part;
    }
    return (stats){mean, (float)(1 / sqrt(squares / (double)width + eps))};
}

static weft_status launch_modulate(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *m = &call->ins[1];
    const int64_t places = x->size[1], width = x->size[2], slots = m->size[1],
                  shift = weft_call_int(call, "shift") * width,
                  scale = weft_call_int(call, "scale") * width;
    const double eps = weft_call_real(call, "eps");
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, weft_tensor_count(x)))
    for (int64_t row = 0; row < x->size[0] * places; row++) {
        float room[3][BLOCK], y[BLOCK];
        const stats s = stats_of(x, row, width, eps);
        const int64_t of_sample = row / places * slots;
        EACH_BLOCK(from, n, width)
        {
            const float *v = load(x, row * width + from, n, room[0]),
                        *a = load(m, of_sample + scale + from, n, room[1]),
                        *b = load(m, of_sample + shift + from, n, room[2]);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] = (v[i] - s.mean) * s.factor * (1 + a[i]) + b[i];
            store(call, row * width + from, n, y);
        }
    }
    return WEFT_OK;
}

static weft_status launch_modulate_dx(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *m = &call->ins[1], *dy = &call->ins[2];
    const int64_t places = x->size[1], width = x->size[2], slots = m->size[1],
                  scale = weft_call_int(call, "scale") * width;
    const double eps = weft_call_real(call, "eps");
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, 2 * weft_tensor_count(x)))
    for (int64_t row = 0; row < x->size[0] * places; row++) {
        float room[3][BLOCK], y[BLOCK];
        const stats s = stats_of(x, row, width, eps);
        const int64_t of_sample = row / places * slots + scale;
        double sum = 0, along = 0;
        EACH_BLOCK(from, n, width)
        {
            const float *v = load(x, row * width + from, n, room[0]),
                        *a = load(m, of_sample + from, n, room[1]),
                        *d = load(dy, row * width + from, n, room[2]);
            float part = 0, part2 = 0;
#pragma omp simd reduction(+ : part, part2)
            for (int64_t i = 0; i < n; i++) {
                part += d[i] * (1 + a[i]);
                part2 += d[i] * (1 + a[i]) * (v[i] - s.mean) * s.factor;
            }
            sum += (double)part;
            along += (double)part2;
        }
        const float mean = (float)(sum / (double)width), slope = (float)(along / (double)width);
        EACH_BLOCK(from, n, width)
        {
            const float *v = load(x, row * width + from, n, room[0]),
                        *a = load(m, of_sample + from, n, room[1]),
                        *d = load(dy, row * width + from, n, room[2]);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] = s.factor * (d[i] * (1 + a[i]) - mean - (v[i] - s.mean) * s.factor * slope);
            store(call, row * width + from, n, y);
        }
    }
    return WEFT_OK;
}

/* Sums of a slot of a sample, columns [from, from + n). */
static void put_column(const weft_call *call, int64_t b, int64_t slot, int64_t from, int64_t n,
                       const double *sums)
{
    float y[BLOCK];
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)sums[i];
    store(call, b * call->outs[0].size[1] + slot + from, n, y);
}

/* Slots that nobody reads. */
static void clear_slots(const weft_call *call, int64_t width, int64_t a, int64_t b)
{
    static const float zeros[BLOCK] = {0};
    const weft_tensor *y = &call->outs[0];
    for (int64_t row = 0; row < y->size[0]; row++)
        for (int64_t slot = 0; slot < y->size[1]; slot += width)
            for (int64_t from = 0; from < width && slot != a && slot != b && !call->accumulate;
                 from += BLOCK)
                store(call, row * y->size[1] + slot + from, least(BLOCK, width - from), zeros);
}

static size_t modulate_dm_workspace(const weft_call *call)
{
    return (size_t)(call->ins[0].size[0] * call->ins[0].size[1]) * sizeof(stats);
}

static weft_status launch_modulate_dm(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *dy = &call->ins[1];
    const int64_t places = x->size[1], width = x->size[2], rows = x->size[0] * places,
                  blocks = (width + BLOCK - 1) / BLOCK,
                  shift = weft_call_int(call, "shift") * width,
                  scale = weft_call_int(call, "scale") * width;
    const double eps = weft_call_real(call, "eps");
    stats *s = call->workspace;
    if (call->workspace_bytes < modulate_dm_workspace(call))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: it has %zu bytes of workspace, and needs %zu", call->op->name,
                         call->workspace_bytes, modulate_dm_workspace(call));
    const int threads = threads_of(call, 2 * weft_tensor_count(x));
    clear_slots(call, width, shift, scale);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t row = 0; row < rows; row++)
        s[row] = stats_of(x, row, width, eps);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t task = 0; task < x->size[0] * blocks; task++) {
        const int64_t b = task / blocks, from = task % blocks * BLOCK,
                      n = least(BLOCK, width - from);
        float room[2][BLOCK];
        double shifts[BLOCK] = {0}, scales[BLOCK] = {0};
        for (int64_t row = b * places; row < (b + 1) * places; row++) {
            const float *v = load(x, row * width + from, n, room[0]),
                        *d = load(dy, row * width + from, n, room[1]);
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                shifts[i] += (double)d[i];
                scales[i] += (double)(d[i] * (v[i] - s[row].mean) * s[row].factor);
            }
        }
        put_column(call, b, shift, from, n, shifts);
        put_column(call, b, scale, from, n, scales);
    }
    return WEFT_OK;
}

/* ---- gates ---- */

static weft_status launch_gate(const weft_call *call, weft_error *err)
{
    const bool adds = call->n_ins > 2;
    const weft_tensor *y = &call->ins[adds], *m = &call->ins[adds + 1];
    const int64_t places = y->size[1], width = y->size[2], slots = m->size[1],
                  gate = weft_call_int(call, "gate") * width;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, weft_tensor_count(y)))
    for (int64_t row = 0; row < y->size[0] * places; row++) {
        float room[3][BLOCK], z[BLOCK];
        EACH_BLOCK(from, n, width)
        {
            const float *v = load(y, row * width + from, n, room[0]),
                        *g = load(m, row / places * slots + gate + from, n, room[1]),
                        *x = adds ? load(&call->ins[0], row * width + from, n, room[2]) : NULL;
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                z[i] = (x ? x[i] : 0) + v[i] * g[i];
            store(call, row * width + from, n, z);
        }
    }
    return WEFT_OK;
}

static weft_status launch_gate_dm(const weft_call *call, weft_error *err)
{
    const weft_tensor *y = &call->ins[0], *dy = &call->ins[1];
    const int64_t places = y->size[1], width = y->size[2], blocks = (width + BLOCK - 1) / BLOCK,
                  gate = weft_call_int(call, "gate") * width;
    (void)err;
    clear_slots(call, width, gate, gate);
#pragma omp parallel for schedule(static) num_threads(threads_of(call, weft_tensor_count(y)))
    for (int64_t task = 0; task < y->size[0] * blocks; task++) {
        const int64_t b = task / blocks, from = task % blocks * BLOCK,
                      n = least(BLOCK, width - from);
        float room[2][BLOCK];
        double sums[BLOCK] = {0};
        for (int64_t row = b * places; row < (b + 1) * places; row++) {
            const float *v = load(y, row * width + from, n, room[0]),
                        *d = load(dy, row * width + from, n, room[1]);
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                sums[i] += (double)(v[i] * d[i]);
        }
        put_column(call, b, gate, from, n, sums);
    }
    return WEFT_OK;
}

/* ---- sequences: rows are moved as bytes ---- */

static bool moves_rows(const weft_call *call)
{
    for (int i = 0; i < call->n_ins; i++)
        if (call->ins[i].dtype != call->outs[0].dtype)
            return false;
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i].dtype != call->outs[0].dtype)
            return false;
    return true;
}

/* Rows of `all` are those of a and of b by turns; NULL: that one's are passed over, or zeros. */
static void move_rows(const weft_call *call, const weft_tensor *a, const weft_tensor *b,
                      const weft_tensor *all, diffusion_turns t, bool back)
{
    const int64_t unit = t.text + t.image, width = all->size[2],
                  turns = all->size[0] * (all->size[1] / unit);
    const size_t one = weft_dtype_size(all->dtype) * (size_t)width;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, weft_tensor_count(all)))
    for (int64_t n = 0; n < turns; n++)
        for (int part = 0; part < 2; part++) {
            const weft_tensor *of = part ? b : a;
            const int64_t rows = part ? t.image : t.text;
            char *there = (char *)all->data + (size_t)(n * unit + (part ? t.text : 0)) * one,
                 *here = of ? (char *)of->data + (size_t)(n * rows) * one : NULL;
            if (back && here)
                memcpy(here, there, (size_t)rows * one);
            else if (!back && here)
                memcpy(there, here, (size_t)rows * one);
            else if (!back)
                memset(there, 0, (size_t)rows * one);
        }
}

static bool is_whole(const weft_tensor *all, diffusion_turns t)
{
    const int64_t unit = t.text + t.image;
    return unit > 0 && all->size[1] % unit == 0 && all->lo[1] % unit == 0;
}

static weft_status launch_turns(const weft_call *call, weft_error *err)
{
    const bool in = call->n_ins == 2, out = call->n_outs == 2,
               spread = strcmp(call->op->name, "put_image") == 0;
    const weft_tensor *all = in || spread ? &call->outs[0] : &call->ins[0],
                      *b = in       ? &call->ins[1]
                           : out    ? &call->outs[1]
                           : spread ? &call->ins[0]
                                    : &call->outs[0],
                      *a = in    ? &call->ins[0]
                           : out ? &call->outs[0]
                                 : NULL;
    const diffusion_turns t =
        diffusion_turns_of(weft_call_int(call, "text"), weft_call_int(call, "image"));
    if (!is_whole(all, t) || b->size[1] * (t.text + t.image) != all->size[1] * t.image)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: a shard of %lld places is none of whole turns", call->op->name,
                         (long long)all->size[1]);
    move_rows(call, a, b, all, t, !in && !spread);
    return WEFT_OK;
}

/* ---- rotary positions ---- */

static bool turns_heads(const weft_call *call)
{
    return call->ins[0].grain[2] <= MOST_HEAD;
}

static weft_status launch_turn(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    const int64_t d = x->grain[2], places = x->size[1], width = x->size[2];
    const float sign = strcmp(call->op->name, "turn_dx") == 0 ? -1 : 1;
    const diffusion_picture p = diffusion_picture_of(call);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(threads_of(call, 2 * weft_tensor_count(x)))
    for (int64_t place = 0; place < places; place++) {
        float c[MOST_HEAD / 2], s[MOST_HEAD / 2], room[MOST_HEAD], y[MOST_HEAD];
        for (int64_t i = 0; i < d / 2; i++) {
            const double a = diffusion_angle(&p, diffusion_int(&call->ins[1], place), i);
            c[i] = (float)cos(a);
            s[i] = sign * (float)sin(a);
        }
        for (int64_t b = 0; b < x->size[0]; b++)
            for (int64_t h = 0; h < width; h += d) {
                const int64_t at = (b * places + place) * width + h;
                const float *v = load(x, at, d, room);
                for (int64_t i = 0; i < d / 2; i++) {
                    y[2 * i] = c[i] * v[2 * i] - s[i] * v[2 * i + 1];
                    y[2 * i + 1] = s[i] * v[2 * i] + c[i] * v[2 * i + 1];
                }
                store(call, at, d, y);
            }
    }
    return WEFT_OK;
}

#define KERNEL(op_, types_, launch_)                                                               \
    {                                                                                              \
        .op = #op_, .device = "cpu", .name = #op_ "_rows", .priority = 10, .accumulates = true,    \
        .types = types_, .launch = launch_                                                         \
    }
#define TURNS(op_)                                                                                 \
    {                                                                                              \
        .op = #op_, .device = "cpu", .name = #op_ "_rows", .priority = 10, .accepts = moves_rows,  \
        .launch = launch_turns                                                                     \
    }
const weft_kernel diffusion_kernels[] = {
    KERNEL(draw_noise, "**i>h", diffusion_launch_noise),
    KERNEL(flow_mix, "hhh>h", diffusion_launch_mix),
    KERNEL(flow_error, "hhh*>h", diffusion_launch_error),
    KERNEL(flow_error_dx, "hhh*h>h", diffusion_launch_error_dx),
    KERNEL(silu, "h>h", launch_silu),
    KERNEL(silu_dx, "h>h", launch_silu),
    KERNEL(modulate, "h>h", launch_modulate),
    KERNEL(modulate_dx, "h>h", launch_modulate_dx),
    {.op = "modulate_dm",
     .device = "cpu",
     .name = "modulate_dm_columns",
     .priority = 10,
     .accumulates = true,
     .types = "h>h",
     .workspace = modulate_dm_workspace,
     .launch = launch_modulate_dm},
    KERNEL(gate_add, "h>h", launch_gate),
    KERNEL(gate, "h>h", launch_gate),
    KERNEL(gate_dm, "h>h", launch_gate_dm),
    TURNS(interleave),
    TURNS(separate),
    TURNS(take_image),
    TURNS(put_image),
    {.op = "turn",
     .device = "cpu",
     .name = "turn_rows",
     .priority = 10,
     .accumulates = true,
     .types = "hi>h",
     .accepts = turns_heads,
     .launch = launch_turn},
    {.op = "turn_dx",
     .device = "cpu",
     .name = "turn_dx_rows",
     .priority = 10,
     .accumulates = true,
     .types = "hi>h",
     .accepts = turns_heads,
     .launch = launch_turn},
    {.op = NULL},
};
