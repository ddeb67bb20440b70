/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the plugin float8, values in 8 bits with scales: by matrix instructions for them
 * where cuBLASLt has such a product for this GPU, else widened to bf16, as [float8] emulate allows.
 */
#include "blas.h"

#include <string.h>

/* The contracted dim of either operand lies last (on Hopper there is no other product in 8 bits),
 * and this is a multiple of it, and of a row of c. */
enum { MULTIPLE = 16 };

/* What lies where in the workspace, in bytes: numbers to multiply by, operands as they are
 * multiplied, cuBLASLt's own. */
typedef struct room {
    size_t a_scale, b_scale, a, b, own, all;
} room;

typedef struct f8_prepared {
    cuda_matmul *matmul;
    cuda_product given;
    bool narrow; /* in 8 bits */
    room room;
} f8_prepared;

static size_t align(size_t bytes)
{
    return (bytes + CUDA_PRODUCT_ALIGNMENT - 1) / CUDA_PRODUCT_ALIGNMENT * CUDA_PRODUCT_ALIGNMENT;
}

static room room_of(size_t a_scale, size_t b_scale, size_t a, size_t b)
{
    room r = {.b_scale = align(a_scale)};
    r.a = r.b_scale + align(b_scale);
    r.b = r.a + align(a);
    r.own = r.b + align(b);
    r.all = r.own + CUDA_PRODUCT_WORKSPACE;
    return r;
}

/* ---- in 8 bits ---- */

/* The product that is asked of cuBLASLt. Sums over tokens, whose operands are turned both, may have
 * any number of terms: zeros are added. */
static cuda_product narrow_of(const weft_call *call)
{
    cuda_product p = cuda_product_of(call);
    bool rows = call->ins[2].n_dims || call->ins[3].n_dims;
    if (p.turn_a && !p.turn_b)
        p.k = (p.k + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    p.turn_a = false;
    p.turn_b = true;
    p.scaling = rows ? CUDA_SCALED_ROWS : CUDA_SCALED;
    return p;
}

static int kind_of(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call);
    return p.turn_a ? CUDA_DW : p.turn_b ? CUDA_FORWARD : CUDA_DX;
}

static bool is_narrow(const cuda_product *p)
{
    return p->k % MULTIPLE == 0 && p->n % MULTIPLE == 0 &&
           (p->a == WEFT_F8E4M3 || p->b == WEFT_F8E4M3);
}

static room narrow_room(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call), q = narrow_of(call);
    bool rows = q.scaling == CUDA_SCALED_ROWS;
    return room_of((rows ? (size_t)q.m : 1) * sizeof(float),
                   (rows ? (size_t)q.n : 1) * sizeof(float), p.turn_a ? (size_t)(q.m * q.k) : 0,
                   p.turn_b ? 0 : (size_t)(q.n * q.k));
}

static weft_status turn(const weft_call *call, const weft_tensor *t, int64_t rows, int64_t width,
                        int64_t pitch, void *out, weft_error *err)
{
    cuda_f8_args a = {.in = t->data, .out = out, .rows = rows, .width = width, .pitch = pitch};
    return cuda_launch_grid(
        call->queue, CUDA_KERNEL_f8_turn, &a,
        (const int64_t[]){(pitch + 63) / 64, cuda_row_blocks((width + 63) / 64), 1}, 0, err);
}

static weft_status launch_narrow(const weft_call *call, const f8_prepared *f, weft_error *err)
{
    const cuda_product p = f->given, *q = &f->matmul->product;
    const weft_tensor *in = call->ins;
    char *work = call->workspace;
    bool rows = q->scaling == CUDA_SCALED_ROWS;
    const cuda_f8_inverse_args inverse = {.a = in[2].data,
                                          .b = in[3].data,
                                          .a_out = (float *)(void *)work,
                                          .b_out = (float *)(void *)(work + f->room.b_scale),
                                          .a_n = rows ? q->m : 1,
                                          .b_n = rows ? q->n : 1,
                                          .a_step = in[2].n_dims != 0,
                                          .b_step = in[3].n_dims != 0};
    const cuda_operands o = {.a = p.turn_a ? work + f->room.a : in[0].data,
                             .b = p.turn_b ? in[1].data : work + f->room.b,
                             .c = call->outs[0].data,
                             .workspace = work + f->room.own,
                             .a_scale = inverse.a_out,
                             .b_scale = inverse.b_out};
    weft_status s = cuda_launch(call->queue, CUDA_KERNEL_f8_inverse, &inverse,
                                cuda_chunk_blocks(8 * (inverse.a_n + inverse.b_n)), err);
    if (!s && p.turn_a)
        s = turn(call, &in[0], p.k, p.m, q->k, work + f->room.a, err);
    if (!s && !p.turn_b)
        s = turn(call, &in[1], p.k, p.n, q->k, work + f->room.b, err);
    return s ? s : cuda_matmul_launch(f->matmul, call->queue, &o, err);
}

/* ---- widened ---- */

static room wide_room(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call);
    return room_of(0, 0, 2 * (size_t)(p.m * p.k), 2 * (size_t)(p.k * p.n));
}

/* `rows`: the operand's first dims are those that its scales are of. */
static weft_status widen(const weft_call *call, int i, bool rows, void *out, weft_error *err)
{
    const weft_tensor *in = &call->ins[i], *scale = &call->ins[2 + i];
    int64_t n = weft_tensor_count(in), of_scale = weft_tensor_count(scale);
    bool many = scale->n_dims != 0;
    cuda_f8_args a = {.in = in->data,
                      .out = out,
                      .scale = scale->data,
                      .width = !many  ? n
                               : rows ? n / of_scale
                                      : of_scale,
                      .e5m2 = in->dtype == WEFT_F8E5M2,
                      .by_row = many && rows,
                      .by_column = many && !rows};
    a.rows = n / a.width;
    return cuda_launch(call->queue, CUDA_KERNEL_f8_widen, &a, cuda_chunk_blocks(n), err);
}

static weft_status launch_wide(const weft_call *call, const f8_prepared *f, weft_error *err)
{
    const cuda_product p = f->given;
    char *work = call->workspace;
    const cuda_operands o = {.a = work + f->room.a,
                             .b = work + f->room.b,
                             .c = call->outs[0].data,
                             .workspace = work + f->room.own};
    weft_status s = widen(call, 0, !p.turn_a, work + f->room.a, err);
    s = s ? s : widen(call, 1, p.turn_b, work + f->room.b, err);
    return s ? s : cuda_matmul_launch(f->matmul, call->queue, &o, err);
}

/* ---- calls ---- */

static bool is_operand(weft_dtype dtype)
{
    return dtype == WEFT_F8E4M3 || dtype == WEFT_F8E5M2;
}

static bool emulates(const weft_call *call, const char *how)
{
    return strcmp(weft_call_text(call, "emulate"), how) == 0;
}

bool cuda_f8_product_accepts(const weft_call *call)
{
    const weft_tensor *in = call->ins;
    cuda_product p = cuda_product_of(call);
    return is_operand(in[0].dtype) && is_operand(in[1].dtype) && in[2].dtype == WEFT_F32 &&
           in[3].dtype == WEFT_F32 && (p.c == WEFT_BF16 || p.c == WEFT_F32) &&
           cuda_product_fits(&p);
}

/* For either way, where only the GPU will tell which it is. */
size_t cuda_f8_product_workspace(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call);
    size_t narrow = emulates(call, "yes") ? 0 : narrow_room(call).all;
    size_t wide = emulates(call, "no") ? 0 : wide_room(call).all;
    return cuda_product_is_empty(&p) ? 0 : narrow > wide ? narrow : wide;
}

/* On the GPU that is planned for. */
static bool goes_narrow(const weft_call *call)
{
    const cuda_product p = narrow_of(call);
    const weft_queue *q = call->queue;
    return q && !emulates(call, "yes") && is_narrow(&p) &&
           (p.scaling == CUDA_SCALED_ROWS ? q->narrow_rows : q->narrow);
}

/* Numbers to multiply by are made of the scales, then what must be turned is, then both are
 * multiplied. */
static weft_kernel_work narrow_work(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call), q = narrow_of(call);
    const bool rows = q.scaling == CUDA_SCALED_ROWS;
    const double scales = 4.0 * (rows ? (double)(q.m + q.n) : 2),
                 given = 4.0 * (double)(weft_tensor_count(&call->ins[2]) +
                                        weft_tensor_count(&call->ins[3])),
                 a = (double)q.m * (double)q.k, b = (double)q.n * (double)q.k;
    weft_kernel_work w = {.launches = 2, .before = given + scales, .dtype = WEFT_F8E4M3};
    if (p.turn_a)
        w.before += (double)p.m * (double)p.k + a;
    if (!p.turn_b)
        w.before += (double)p.n * (double)p.k + b;
    w.bytes = w.before + scales + a + b;
    w.launches += p.turn_a + !p.turn_b;
    return w;
}

/* Both are widened, each a kernel, and multiplied. */
static weft_kernel_work wide_work(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call);
    const double given =
        4.0 * (double)(weft_tensor_count(&call->ins[2]) + weft_tensor_count(&call->ins[3]));
    const double elements = (double)p.k * (double)(p.m + p.n);
    return (weft_kernel_work){.launches = 3,
                              .bytes = given + 5 * elements,
                              .before = given + 3 * elements,
                              .dtype = WEFT_BF16};
}

weft_kernel_work cuda_f8_product_work(const weft_call *call)
{
    const cuda_product p = cuda_product_of(call);
    const double result = (double)p.m * (double)p.n * (double)weft_dtype_size((weft_dtype)p.c);
    if (cuda_product_is_empty(&p))
        return (weft_kernel_work){
            .launches = 1, .bytes = call->accumulate ? 0 : result, .dtype = WEFT_F32};
    weft_kernel_work w = goes_narrow(call) ? narrow_work(call) : wide_work(call);
    w.bytes += result * (call->accumulate ? 2 : 1);
    return w;
}

size_t cuda_f8_product_loads(const weft_call *call)
{
    cuda_product p = cuda_product_of(call);
    if (!call->queue || !call->queue->loads || cuda_product_is_empty(&p))
        return 0;
    if (goes_narrow(call))
        p = narrow_of(call);
    else
        p.a = p.b = WEFT_BF16;
    return cuda_product_scratch(&p);
}

static weft_status refuse(const weft_call *call, const cuda_product *p, weft_error *err)
{
    weft_text text = {0};
    cuda_product_print(p, &text);
    weft_status s = weft_fail(
        err, WEFT_ERR_INPUT, WEFT_NOWHERE,
        "[float8] emulate = no: %s, %s, cannot be multiplied in 8 bits here: %s; set emulate = "
        "auto, or leave the linear as it is by [float8] filter",
        call->op->name, text.data ? text.data : "",
        is_narrow(p) ? "cuBLASLt has no such product for this GPU"
                     : "rows and sums must be multiples of 16 on every rank");
    weft_text_release(&text);
    return s;
}

/* As prepare finds it, as far as it is known. */
weft_status cuda_f8_product_check(const weft_call *call, weft_error *err)
{
    const cuda_product p = cuda_product_of(call), q = narrow_of(call);
    const bool known = call->queue && call->queue->planned;
    if (!emulates(call, "no") || cuda_product_is_empty(&p) ||
        (is_narrow(&q) && (!known || goes_narrow(call))))
        return WEFT_OK;
    return refuse(call, &q, err);
}

/* The first of each kind. */
static void note_wide(cuda_products *products, const cuda_product *p, int kind)
{
    static const char *const kinds[] = {"forward", "of activations' gradients",
                                        "of weights' gradients"};
    weft_text text = {0};
    cuda_product_print(p, &text);
    if (!products->wide[kind]++ && products->log)
        weft_log_print(products->log, WEFT_LOG_INFO,
                       "float8: %s (%s) cannot be multiplied in 8 bits here; such values are "
                       "widened to bf16",
                       text.data ? text.data : "a product", kinds[kind]);
    weft_text_release(&text);
}

void cuda_f8_products_tell(const cuda_products *products)
{
    const int *wide = products->wide, n = wide[0] + wide[1] + wide[2];
    if (n && products->log)
        weft_log_print(products->log, WEFT_LOG_WARN,
                       "float8: %d kinds of products are multiplied in 8 bits, %d are widened to "
                       "bf16, which costs more than bf16 does: %d forward, %d of activations' "
                       "gradients, %d of weights' gradients",
                       products->narrow, n, wide[CUDA_FORWARD], wide[CUDA_DX], wide[CUDA_DW]);
}

int cuda_f8_products_count(const cuda_products *products, weft_report *list)
{
    static const char *const names[] = {"float8.narrow", "float8.widened_forward",
                                        "float8.widened_dx", "float8.widened_dw"};
    const int n[] = {products->narrow, products->wide[CUDA_FORWARD], products->wide[CUDA_DX],
                     products->wide[CUDA_DW]};
    for (int i = 0; i < 4; i++)
        list[i] = (weft_report){names[i], n[i]};
    return n[0] + n[1] + n[2] + n[3] ? 4 : 0;
}

static weft_status prepare(const weft_call *call, cuda_products *products, f8_prepared *f,
                           weft_error *err)
{
    cuda_product p = narrow_of(call), wide = cuda_product_of(call);
    weft_status s = WEFT_OK;
    f->given = wide;
    p.fast = products->fast && kind_of(call) == CUDA_FORWARD;
    wide.a = wide.b = WEFT_BF16;
    if (!emulates(call, "yes") && is_narrow(&p))
        s = cuda_matmul_create(products, &p, &f->matmul, err);
    f->narrow = f->matmul != NULL;
    products->narrow += f->narrow;
    f->room = f->narrow ? narrow_room(call) : wide_room(call);
    if (s || f->narrow)
        return s;
    if (emulates(call, "no"))
        return refuse(call, &p, err);
    if (!emulates(call, "yes"))
        note_wide(products, &p, kind_of(call));
    s = cuda_matmul_create(products, &wide, &f->matmul, err);
    return s || f->matmul ? s : cuda_product_none(&wide, call->op->name, err);
}

/* The state is an f8_prepared; NULL: there is no term. */
weft_status cuda_f8_product_prepare(const weft_call *call, void **state, weft_error *err)
{
    const cuda_product p = cuda_product_of(call);
    cuda_products *products;
    weft_status s = cuda_product_open(call, &products, err);
    if (s || cuda_product_is_empty(&p))
        return s;
    f8_prepared *f = weft_alloc_zero(1, sizeof *f);
    if (!f)
        return weft_fail_memory(err);
    s = prepare(call, products, f, err);
    if (s)
        cuda_f8_product_release(f);
    else
        *state = f;
    return s;
}

void cuda_f8_product_release(void *state)
{
    f8_prepared *f = state;
    if (f)
        cuda_matmul_destroy(f->matmul);
    weft_free(f);
}

weft_status cuda_f8_product_launch(const weft_call *call, weft_error *err)
{
    const f8_prepared *f = call->state;
    if (!f)
        return cuda_product_clear(call, err);
    weft_status s = cuda_check_workspace(call, f->room.all, err);
    return s ? s : (f->narrow ? launch_narrow : launch_wide)(call, f, err);
}
