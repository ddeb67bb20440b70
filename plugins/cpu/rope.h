/* SPDX-License-Identifier: Apache-2.0 */
/* rope and rope_dx: pairs of every head turn by the cosines and sines of the row's position. */

/* What a row's heads are turned by. */
typedef struct rope_turn {
    int64_t d, first, n; /* elements of a head; from which on so many pairs turn */
    bool neighbours;
    float c[CPU_MAX_ROPE / 2], s[CPU_MAX_ROPE / 2];
} rope_turn;

static void rotate_halves(const rope_turn *t, const float *restrict x, float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < t->n; i++) {
        y[i] = x[i] * t->c[i] - x[t->n + i] * t->s[i];
        y[t->n + i] = x[i] * t->s[i] + x[t->n + i] * t->c[i];
    }
}

static void rotate_neighbours(const rope_turn *t, const float *restrict x, float *restrict y)
{
#pragma omp simd
    for (int64_t i = 0; i < t->n; i++) {
        y[2 * i] = x[2 * i] * t->c[i] - x[2 * i + 1] * t->s[i];
        y[2 * i + 1] = x[2 * i] * t->s[i] + x[2 * i + 1] * t->c[i];
    }
}

static void rotate_head(const weft_call *call, int64_t at, const rope_turn *t)
{
    float room[CPU_MAX_ROPE], y[CPU_MAX_ROPE];
    const float *x = load(&call->ins[0], at, t->d, room);
    const int64_t behind = t->first + 2 * t->n;
    memcpy(y, x, (size_t)t->first * sizeof *y);
    memcpy(y + behind, x + behind, (size_t)(t->d - behind) * sizeof *y);
    (t->neighbours ? rotate_neighbours : rotate_halves)(t, x + t->first, y + t->first);
    store(&call->outs[0], at, t->d, y, call->accumulate);
}

static weft_status rotate(const weft_call *call, float sign)
{
    const weft_tensor *x = &call->ins[0];
    const int64_t rows = rows_of(x), width = width_of(x), n = width_of(&call->ins[1]) / 2;
    const rope_turn all = {.d = x->grain[x->n_dims - 1],
                           .first = weft_call_int(call, "first"),
                           .n = n,
                           .neighbours = weft_call_int(call, "neighbours") != 0};
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t row = 0; row < rows; row++) {
        const float *turn = (const float *)call->ins[1].data + row * 2 * n;
        rope_turn t = all;
        memcpy(t.c, turn, (size_t)n * sizeof *turn);
        for (int64_t i = 0; i < n; i++)
            t.s[i] = sign * turn[n + i];
        for (int64_t at = row * width; at < (row + 1) * width; at += t.d)
            rotate_head(call, at, &t);
    }
    return WEFT_OK;
}

static weft_status launch_rope(const weft_call *call, weft_error *err)
{
    (void)err;
    return rotate(call, 1.0f);
}

static weft_status launch_rope_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return rotate(call, -1.0f);
}
