/* SPDX-License-Identifier: Apache-2.0 */
/* How trials run the kernels of the cuda plugin: on the emulator, in several orders of threads to
 * the same bits; products by a cuBLASLt that is the host, on GPUs of several kinds. */
#include "blas.h"
#include "fake.h"
#include "trial.h"

#include <stdlib.h>
#include <string.h>

extern const weft_op *const adamw_ops[], *const tp_ops[];
extern const weft_op f8_op_amax, f8_op_scale, f8_op_quantise, f8_op_history, f8_op_linear,
    f8_op_linear_rows, f8_op_linear_dx, f8_op_linear_dw;

static const weft_op *const f8_ops[] = {&f8_op_amax,      &f8_op_scale,     &f8_op_quantise,
                                        &f8_op_history,   &f8_op_linear,    &f8_op_linear_rows,
                                        &f8_op_linear_dx, &f8_op_linear_dw, NULL};

static const char *const gpus[] = {"8", "9", "10", NULL}; /* what there is in 8 bits differs */

static bool is_f8_product(const trial *t)
{
    return t->product && strncmp(t->op->name, "float8_", strlen("float8_")) == 0;
}

static const char *variant(const trial *t, int i)
{
    static const char *const names[] = {"compute capability 8", "9", "10", NULL};
    return is_f8_product(t) ? names[i] : i == 0 ? "on the host" : NULL;
}

static int repeats(const trial *t)
{
    const char *whole = getenv("WEFT_LONG");
    (void)t;
    return whole && *whole ? 3 : 2;
}

static void address(const trial *t, int variant_number, int repeat, weft_call *call)
{
    static cuda_products products = {.blas = {
#define NAME(function) .function = function,
                                         CUDA_BLAS_FUNCTIONS(NAME)
#undef NAME
                                     }};
    static weft_queue queue;
    if (!products.handle)
        cublasLtCreate(&products.handle);
    queue = (weft_queue){.driver = fake_driver(),
                         .functions = fake_functions(),
                         .products = &products,
                         .stream = fake_stream()};
    setenv("WEFT_FAKE_CUDA_MAJOR", gpus[is_f8_product(t) ? variant_number : 1], 1);
    fake_set_order((uint64_t)repeat);
    call->queue = &queue;
}

static weft_status launch(const trial *t, int variant_number, int repeat, const weft_call *call,
                          weft_error *err)
{
    (void)variant_number, (void)repeat;
    return t->kernel->launch(call, err);
}

static const weft_op *const *const ops[] = {adamw_ops, tp_ops, f8_ops, NULL};

const trial_machine machine = {.kernels = cuda_kernels,
                               .ops = ops,
                               .variant = variant,
                               .repeats = repeats,
                               .repeated = "the order of threads",
                               .slow = true,
                               .address = address,
                               .launch = launch};
