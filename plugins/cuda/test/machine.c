/* SPDX-License-Identifier: Apache-2.0 */
/* How trials run the kernels of the cuda plugin: on the emulator, in several orders of threads to
 * the same bits; products by a cuBLASLt that is the host, on GPUs of several kinds; attention of
 * bf16 by our own kernels, and by a cuDNN that is the host, with our kernels around it. With
 * FIND_RACES in shuffled orders alone, and with all their accesses to memory looked at. */
#include "machine.h"
#include "blas.h"
#include "dnn.h"
#include "fake.h"
#include "fake_driver.h"
#ifdef FIND_RACES
#include "races.h"
#endif
#include "trial.h"

#include "compile/graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const gpus[] = {"8", "9", "10", NULL}; /* what there is in 8 bits differs */

static bool is_f8_product(const trial *t)
{
    return t->product && strncmp(t->op->name, "float8_", strlen("float8_")) == 0;
}

static bool is_by_dnn(const trial *t, int variant_number)
{
    return variant_number == 1 && t->ins[0].dtype == WEFT_BF16 &&
           (strcmp(t->op->name, "attention") == 0 || strcmp(t->op->name, "attention_dx") == 0);
}

static const char *variant(const trial *t, int i)
{
    static const char *const names[] = {"compute capability 8", "9", "10", NULL};
    return is_f8_product(t) ? names[i] : i == 0 ? "on the host" : is_by_dnn(t, i) ? "cuDNN" : NULL;
}

/* Sums of dq in a fixed order. */
static cuda_dnn *open_dnn(void)
{
    static cuda_dnn dnn = {.capability = 90, .ordered = true};
    if (!dnn.handle) {
        dnn.api = *fake_dnn_api();
        dnn.api.cudnnCreate(&dnn.handle);
    }
    return &dnn;
}

#ifdef FIND_RACES
static const emulate_watch *const watch = &races_watch;

static const char *name(void)
{
    static char text[64];
    snprintf(text, sizeof text, "the host, with %" PRIu64 " accesses to memory", races_seen());
    return text;
}
#else
static const emulate_watch *const watch;

static const char *name(void)
{
    return "the host";
}
#endif

static int repeats(const trial *t)
{
    const char *whole = getenv("WEFT_LONG");
    (void)t;
    return watch ? 1 : whole && *whole ? 4 : 2; /* a race is seen in any order */
}

/* From the first thread to the last, by dice, from the last to the first, by other dice. */
static uint64_t order_of(int repeat)
{
    static uint64_t seed = 1;
    if (watch || repeat % 2 == 1)
        return ++seed;
    return repeat == 0 ? 0 : 1;
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
                         .stream = fake_stream(),
                         .pairs = true,
                         .dnn = is_by_dnn(t, variant_number) ? open_dnn() : NULL,
                         .dnn_planned = is_by_dnn(t, variant_number)};
    products.fast = getenv("WEFT_TEST_FAST_SUMS") != NULL;
    setenv("WEFT_FAKE_CUDA_MAJOR", gpus[is_f8_product(t) ? variant_number : 1], 1);
    fake_set_order(order_of(repeat));
    fake_set_watch(watch);
    call->queue = &queue;
}

/* What nobody declares is noted when it is read. */
static weft_status launch(const trial *t, int variant_number, int repeat, const weft_call *call,
                          weft_error *err)
{
    static const weft_op nobody = {.name = "an op whose name no launch compares"};
    weft_attr_watch seen = {""};
    weft_call bare = *call;
    (void)repeat;
    bare.op = &nobody;
    bare.attrs = NULL;
    bare.n_attrs = 0;
    bare.watch = &seen;
    if (is_by_dnn(t, variant_number) &&
        cuda_attention_is_by_dnn(call->state) != cuda_dnn_may_take(call))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s",
                         cuda_attention_is_by_dnn(call->state)
                             ? "a plan did not know that cuDNN takes this"
                             : "cuDNN was not asked, or has refused");
    weft_status s = t->kernel->launch(&bare, err);
    return s || !seen.key[0] ? s
                             : weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                         "the launch looks at the attribute %s, which is for "
                                         "prepare to do",
                                         seen.key);
}

const trial_machine machine = {.kernels = cuda_kernels,
                               .alignment = CUDA_PRODUCT_ALIGNMENT,
                               .ops = machine_ops,
                               .variant = variant,
                               .repeats = repeats,
                               .repeated = "the order of threads",
                               .slow = true,
                               .address = address,
                               .launch = launch,
                               .name = name};
