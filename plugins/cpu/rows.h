/* SPDX-License-Identifier: Apache-2.0 */
/* embedding, embedding_dw, take, chunk, unchunk: rows that move; sum and count_valid: numbers of
 * all elements. */

/* Copies row `from` of x to row `to` of the result, or zeros if from is negative. */
static void move_row(const weft_call *call, const weft_tensor *x, int64_t from, int64_t to,
                     int64_t width)
{
    const float zeros[CPU_BLOCK] = {0.0f};
    float buffer[CPU_BLOCK];
    for (int64_t e = 0; e < width; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - e);
        store(&call->outs[0], to * width + e, n,
              from < 0 ? zeros : load(x, from * width + e, n, buffer), call->accumulate);
    }
}

static weft_status launch_embedding(const weft_call *call, weft_error *err)
{
    const weft_tensor *table = &call->ins[1];
    const int32_t *ids = ints(&call->ins[0]);
    int64_t tokens = weft_tensor_count(&call->ins[0]), width = table->size[1];
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, tokens *width))
    for (int64_t t = 0; t < tokens; t++) {
        int64_t row = ids[t] - table->lo[0];
        move_row(call, table, row < table->size[0] ? row : -1, t, width);
    }
    return WEFT_OK;
}

/* Every thread owns columns, so a table row is summed in the order of the tokens whatever the
 * thread count. */
static void embedding_dw_columns(const weft_call *call, int64_t lo, int64_t hi)
{
    const weft_tensor *dy = &call->ins[1], *out = &call->outs[0];
    const int32_t *ids = ints(&call->ins[0]);
    int64_t tokens = weft_tensor_count(&call->ins[0]), width = out->size[1];
    float buffer[CPU_BLOCK];
    for (int64_t v = 0; !call->accumulate && v < out->size[0]; v++)
        memset((float *)out->data + v * width + lo, 0, (size_t)(hi - lo) * sizeof(float));
    for (int64_t t = 0; t < tokens; t++) {
        int64_t row = ids[t] - out->lo[0];
        if (row < 0 || row >= out->size[0])
            continue;
        for (int64_t e = lo; e < hi; e += CPU_BLOCK) {
            int64_t n = least(CPU_BLOCK, hi - e);
            store(out, row * width + e, n, load(dy, t * width + e, n, buffer), true);
        }
    }
}

static weft_status launch_embedding_dw(const weft_call *call, weft_error *err)
{
    int64_t width = call->outs[0].size[1], grains = (width + 15) / 16;
    int threads = team(call, weft_tensor_count(&call->outs[0]));
    (void)err;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int i = 0; i < threads; i++)
        embedding_dw_columns(call, least(width, i * grains / threads * 16),
                             least(width, (i + 1) * grains / threads * 16));
    return WEFT_OK;
}

static weft_status launch_take(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    (void)err;
    for (int64_t b = 0; b < x->size[0]; b++) {
        int64_t s = ints(&call->ins[1])[b];
        move_row(call, x, s >= 0 && s < x->size[1] ? b * x->size[1] + s : -1, b, x->size[2]);
    }
    return WEFT_OK;
}

/* ---- chunk: part i holds the places p with p mod n = i ---- */

/* Copies part `part` of n to (or from) the whole; both hold runs of `run` bytes, `places` of them
 * in a part. */
static void move_part(char *whole, char *parts, int64_t runs, int64_t run, int n, int part,
                      bool to_parts)
{
    for (int64_t i = 0; i < runs; i++) {
        char *w = whole + (i * n + part) * run, *p = parts + i * run;
        memcpy(to_parts ? p : w, to_parts ? w : p, (size_t)run);
    }
}

static weft_status move_parts(const weft_call *call, const weft_tensor *whole,
                              const weft_tensor *parts, int n, bool to_parts, weft_error *err)
{
    int64_t dim = weft_call_int(call, "dim"), run = (int64_t)weft_dtype_size(whole->dtype),
            runs = parts[0].size[dim];
    for (int d = 0; d < whole->n_dims; d++) {
        runs *= d < dim ? whole->size[d] : 1;
        run *= d > dim ? whole->size[d] : 1;
    }
    for (int i = 0; i < n; i++)
        if (whole->size[dim] != n * parts[i].size[dim] || whole->lo[dim] != n * parts[i].lo[dim])
            return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "%s: a shard of places %lld to %lld cannot be cut into %d equal parts",
                             call->op->name, (long long)whole->lo[dim],
                             (long long)(whole->lo[dim] + whole->size[dim]), n);
    if (runs * run == 0)
        return WEFT_OK;
#pragma omp parallel for schedule(static) num_threads(team(call, runs *run *n / 4))
    for (int i = 0; i < n; i++)
        move_part(whole->data, parts[i].data, runs, run, n, i, to_parts);
    return WEFT_OK;
}

static weft_status launch_chunk(const weft_call *call, weft_error *err)
{
    return move_parts(call, &call->ins[0], call->outs, call->n_outs, true, err);
}

static weft_status launch_unchunk(const weft_call *call, weft_error *err)
{
    return move_parts(call, &call->outs[0], call->ins, call->n_ins, false, err);
}

/* ---- sums ---- */

enum { SUM_PARTS = 256 };

static double sum_part(const weft_tensor *x, int64_t lo, int64_t hi)
{
    float buffer[CPU_BLOCK];
    double sum = 0.0;
    for (int64_t at = lo; at < hi; at += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, hi - at);
        const float *p = load(x, at, n, buffer);
        double part = 0.0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += (double)p[i];
        sum += part;
    }
    return sum;
}

static void put_number(const weft_call *call, double x)
{
    const weft_tensor *t = &call->outs[0];
    weft_tensor_set(t, 0, call->accumulate ? weft_tensor_get(t, 0) + x : x);
}

static weft_status launch_sum(const weft_call *call, weft_error *err)
{
    int64_t count = weft_tensor_count(&call->ins[0]);
    double parts[SUM_PARTS], sum = 0.0;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, count))
    for (int64_t i = 0; i < SUM_PARTS; i++)
        parts[i] = sum_part(&call->ins[0], i * count / SUM_PARTS, (i + 1) * count / SUM_PARTS);
    for (int i = 0; i < SUM_PARTS; i++)
        sum += parts[i];
    put_number(call, sum);
    return WEFT_OK;
}

static weft_status launch_count_valid(const weft_call *call, weft_error *err)
{
    const int32_t *labels = ints(&call->ins[0]);
    int64_t count = weft_tensor_count(&call->ins[0]), valid = 0;
    (void)err;
#pragma omp parallel for simd schedule(static) reduction(+ : valid) num_threads(team(call, count))
    for (int64_t i = 0; i < count; i++)
        valid += labels[i] >= 0;
    put_number(call, (double)valid);
    return WEFT_OK;
}
