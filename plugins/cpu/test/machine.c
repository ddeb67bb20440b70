/* SPDX-License-Identifier: Apache-2.0 */
/* How trials run the kernels of the cpu plugin: those in vectors for every instruction set of this
 * CPU, attention with products of bf16, too, with several thread counts to the same bits; products
 * with f32 and bf16 in hardware and several thread counts, each of which repeats itself. */
#include "cpu.h"
#include "trial.h"

#include <string.h>

enum { PRODUCT_THREADS = 3 };

/* Behind the instruction sets: what attention reads in bf16 is multiplied as it is. */
enum { BY_DOTS = CPU_ISA_AVX512 + 1, BY_AMX };

static bool is_bf16_attention(const trial *t, int i)
{
    bool attention =
        strcmp(t->launcher, "attention") == 0 || strcmp(t->launcher, "attention_dx") == 0;
    return attention && t->ins[0].dtype == WEFT_BF16 &&
           ((i == BY_DOTS && cpu_has_bf16_dots()) || (i == BY_AMX && cpu_may_use_amx()));
}

static const char *variant(const trial *t, int i)
{
    static const char *const products[] = {"f32 products", "bf16 products"};
    if (!t->product)
        return i <= (int)cpu_isa_get()   ? cpu_isa_name((cpu_isa)i)
               : is_bf16_attention(t, i) ? (i == BY_AMX ? "products by AMX" : "products of bf16")
                                         : NULL;
    i /= PRODUCT_THREADS;
    return i <= (cpu_can_bf16() ? 1 : 0) ? products[i] : NULL;
}

static int repeats(const trial *t)
{
    return t->product ? 2 : 3;
}

static int threads_of(const trial *t, int variant_number, int repeat)
{
    static const int threads[] = {1, 2, 7};
    return t->product ? 1 + variant_number % PRODUCT_THREADS : threads[repeat];
}

/* All threads take part, however little there is to do. */
static void address(const trial *t, int variant_number, int repeat, weft_call *call)
{
    static _Thread_local weft_queue queue;
    bool bf16 =
        t->product ? variant_number / PRODUCT_THREADS : is_bf16_attention(t, variant_number);
    queue = (weft_queue){.threads = threads_of(t, variant_number, repeat),
                         .products = bf16 ? CPU_PRODUCTS_BF16 : CPU_PRODUCTS_F32,
                         .amx = bf16 && (t->product ? cpu_may_use_amx() : variant_number == BY_AMX),
                         .grain = 1};
    call->queue = &queue;
    call->threads = queue.threads;
}

static cpu_launch *vector_launch(const cpu_launchers *table, const char *op)
{
#define FIND(name)                                                                                 \
    if (strcmp(op, #name) == 0)                                                                    \
        return table->name;
    CPU_VECTOR_OPS(FIND)
#undef FIND
    return NULL;
}

static weft_status launch(const trial *t, int variant_number, int repeat, const weft_call *call,
                          weft_error *err)
{
    cpu_isa isa = t->product ? CPU_ISA_AVX512 : (cpu_isa)variant_number;
    cpu_launch *by_isa = is_bf16_attention(t, variant_number)
                             ? NULL
                             : vector_launch(cpu_launchers_get(isa), t->launcher);
    (void)repeat;
    return (by_isa ? by_isa : t->kernel->launch)(call, err);
}

/* Weights and their gradients become operands in bf16. */
static double rounding(const trial *t, int variant_number)
{
    return is_bf16_attention(t, variant_number) ? 0x1p-8 : 0.0;
}

extern const weft_op *const f8_ops[];
static const weft_op *const *const ops[] = {f8_ops, NULL};

const trial_machine machine = {.kernels = cpu_kernels,
                               .alignment = 64,
                               .ops = ops,
                               .variant = variant,
                               .repeats = repeats,
                               .repeated = "the thread count or the run",
                               .address = address,
                               .launch = launch,
                               .rounding = rounding};
