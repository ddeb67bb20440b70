/* SPDX-License-Identifier: Apache-2.0 */
/* What makes an activation and narrows it, or narrows what is there, of the plugin float8: blocks
 * are made by the functions of the ops that make them, in the dtype that would be stored, and
 * narrowed while they are near. So the bits are the same, and what is between is never written. */

typedef enum narrow_kind { NARROW_NORM, NARROW_SILU, NARROW_GIVEN } narrow_kind;

typedef struct narrowing {
    const weft_call *call;
    narrow_kind kind;
    bool by_rows;
    int sum; /* 1: result 0 is a sum that is normed */
    int64_t count, width;
    weft_dtype dtype; /* of what is narrowed */
    const weft_tensor *q;
} narrowing;

static narrowing narrowing_of(const weft_call *call, narrow_kind kind, int sum, bool by_rows)
{
    const weft_tensor *x = sum ? &call->outs[0] : &call->ins[0];
    narrowing j = {call, kind, by_rows, sum, weft_tensor_count(x), width_of(x), x->dtype, NULL};
    if (kind != NARROW_NORM && !by_rows)
        j.width = CPU_BLOCK; /* any cut will do */
    j.q = &call->outs[sum];
    return j;
}

static weft_tensor tensor_from(const weft_tensor *t, int64_t at)
{
    weft_tensor moved = *t;
    moved.data = (char *)t->data + at * (int64_t)weft_dtype_size(t->dtype);
    return moved;
}

/* Elements [at, at + n) of what is narrowed, into y, or where they lie; e: the first one's place in
 * its row. */
static weft_tensor make_block(const narrowing *j, int64_t at, int64_t e, int64_t n, moments m,
                              weft_tensor y)
{
    const weft_call *call = j->call;
    const weft_tensor x = tensor_from(j->sum ? &call->outs[0] : &call->ins[0], at);
    if (j->kind == NARROW_GIVEN)
        return x;
    const weft_tensor ins[] = {
        x, tensor_from(&call->ins[1 + j->sum], j->kind == NARROW_SILU ? at : e)};
    weft_call make = *call;
    make.ins = ins;
    make.outs = &y;
    make.accumulate = false;
    if (j->kind == NARROW_SILU)
        silu_mul_block(&make, 0, n);
    else
        norm_row(&make, 0, n, m, false);
    return y;
}

/* Returns the largest magnitude, as bits: larger ones are larger, and a NaN is the largest. */
static CPU_ONCE uint32_t narrow_block(const weft_tensor *y, int64_t n, float scale, bool e5m2,
                                      uint8_t *out)
{
    float buffer[CPU_BLOCK];
    const float *p = load(y, 0, n, buffer);
    uint32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(p[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
#pragma omp simd
    for (int64_t i = 0; i < (out ? n : 0); i++) /* an infinity becomes a NaN */
        out[i] = weft_f32_to_f8(fabsf(p[i]) == INFINITY ? NAN : p[i] * scale, e5m2);
    return most;
}

/* Of one row; without out: its largest magnitude alone. */
static uint32_t narrow_blocks(const narrowing *j, int64_t row, moments m, float scale, uint8_t *out)
{
    float buffer[CPU_BLOCK];
    const weft_tensor room = {.data = buffer, .dtype = j->dtype};
    const int64_t from = row * j->width, width = least(j->width, j->count - from);
    uint32_t most = 0;
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        const int64_t n = least(CPU_BLOCK, width - e);
        const weft_tensor y = make_block(j, from + e, e, n, m, room);
        const uint32_t bits =
            narrow_block(&y, n, scale, j->q->dtype == WEFT_F8E5M2, out ? out + from + e : NULL);
        most = bits > most ? bits : most;
    }
    return most;
}

static uint32_t narrow_row(const narrowing *j, int64_t row, moments m)
{
    float scale;
    if (j->by_rows) {
        scale = weft_f8_scale_of((double)from_bits(narrow_blocks(j, row, m, 0.0f, NULL)),
                                 j->q->dtype, weft_call_int(j->call, "power_of_two") != 0, 0);
        ((float *)j->q[1].data)[row] = scale;
    } else {
        scale = ((const float *)j->call->ins[j->call->n_ins - 1].data)[0];
    }
    return narrow_blocks(j, row, m, scale, j->q->data);
}

/* Rows from one on, whose moments are found at once. */
static uint32_t narrow_group(const narrowing *j, int64_t row, int64_t n)
{
    const weft_tensor *x = j->sum ? &j->call->outs[0] : &j->call->ins[0];
    moments m[NORM_GROUP] = {{0.0f, 0.0f}};
    uint32_t most = 0;
    for (int64_t r = 0; r < n && j->sum; r++)
        add_row_to(j->call, row + r, j->width);
    if (j->kind == NARROW_NORM)
        group_moments(x, row, n, j->width, (float)weft_call_real(j->call, "eps"), false, m);
    for (int64_t r = 0; r < n; r++) {
        const uint32_t bits = narrow_row(j, row + r, m[r]);
        most = bits > most ? bits : most;
    }
    return most;
}

static weft_status narrow(const weft_call *call, narrow_kind kind, int sum, bool by_rows)
{
    const narrowing j = narrowing_of(call, kind, sum, by_rows);
    const int64_t rows = j.width > 0 ? (j.count + j.width - 1) / j.width : 0,
                  group = kind == NARROW_NORM ? group_of(j.width, false) : 1;
    uint32_t most = 0;
#pragma omp parallel for schedule(static) num_threads(team(call, 2 * j.count)) reduction(max : most)
    for (int64_t row = 0; row < rows; row += group) {
        const uint32_t bits = narrow_group(&j, row, least(group, rows - row));
        most = bits > most ? bits : most;
    }
    if (!by_rows && call->n_outs > sum + 1)
        memcpy(j.q[1].data, &most, sizeof most);
    return WEFT_OK;
}

#define NARROW(op, kind, sum, by_rows)                                                             \
    static weft_status launch_float8_##op(const weft_call *call, weft_error *err)                  \
    {                                                                                              \
        (void)err;                                                                                 \
        return narrow(call, kind, sum, by_rows);                                                   \
    }
NARROW(rms_norm, NARROW_NORM, 0, false)
NARROW(rms_norm_amax, NARROW_NORM, 0, false)
NARROW(rms_norm_rows, NARROW_NORM, 0, true)
NARROW(add_rms_norm, NARROW_NORM, 1, false)
NARROW(add_rms_norm_amax, NARROW_NORM, 1, false)
NARROW(add_rms_norm_rows, NARROW_NORM, 1, true)
NARROW(silu_mul, NARROW_SILU, 0, false)
NARROW(silu_mul_amax, NARROW_SILU, 0, false)
NARROW(silu_mul_rows, NARROW_SILU, 0, true)
NARROW(quantise_amax, NARROW_GIVEN, 0, false)
NARROW(quantise_rows, NARROW_GIVEN, 0, true)
#undef NARROW

/* ---- both gradients of silu_mul, each by its scale ---- */

static void narrow_gradients(const weft_call *call, int64_t at, int64_t n, uint32_t most[2])
{
    float room[2][CPU_BLOCK];
    weft_tensor ins[3], made[2];
    weft_call make = *call;
    for (int i = 0; i < 3; i++)
        ins[i] = tensor_from(&call->ins[i], at);
    for (int i = 0; i < 2; i++)
        made[i] = (weft_tensor){.data = room[i], .dtype = call->ins[0].dtype};
    make.ins = ins;
    make.outs = made;
    make.accumulate = false;
    silu_mul_dx_block(&make, 0, n);
    for (int i = 0; i < 2; i++) {
        const weft_tensor *q = &call->outs[2 * i];
        most[i] = narrow_block(&made[i], n, ((const float *)call->ins[3 + i].data)[0],
                               q->dtype == WEFT_F8E5M2, (uint8_t *)q->data + at);
    }
}

static weft_status launch_float8_silu_mul_dx_amax(const weft_call *call, weft_error *err)
{
    const int64_t count = weft_tensor_count(&call->ins[0]);
    uint32_t gate = 0, up = 0;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, 4 * count)) reduction(max         \
                                                                                       : gate, up)
    for (int64_t at = 0; at < count; at += CPU_BLOCK) {
        uint32_t most[2];
        narrow_gradients(call, at, least(CPU_BLOCK, count - at), most);
        gate = most[0] > gate ? most[0] : gate;
        up = most[1] > up ? most[1] : up;
    }
    memcpy(call->outs[1].data, &gate, sizeof gate);
    memcpy(call->outs[3].data, &up, sizeof up);
    return WEFT_OK;
}
