/* SPDX-License-Identifier: Apache-2.0 */
/* How trials run the kernels of the cuda plugin: on the emulator, in several orders of threads to
 * the same bits. */
#include "fake.h"
#include "trial.h"

#include <stdlib.h>

extern const weft_op *const adamw_ops[], *const tp_ops[];
extern const weft_op f8_op_amax, f8_op_scale, f8_op_quantise, f8_op_history;

static const weft_op *const f8_ops[] = {&f8_op_amax, &f8_op_scale, &f8_op_quantise, &f8_op_history,
                                        NULL};

static const char *variant(const trial *t, int i)
{
    (void)t;
    return i == 0 ? "on the host" : NULL;
}

static int repeats(const trial *t)
{
    const char *whole = getenv("WEFT_LONG");
    (void)t;
    return whole && *whole ? 3 : 2;
}

static void address(const trial *t, int variant_number, int repeat, weft_call *call)
{
    static weft_queue queue;
    (void)t, (void)variant_number;
    queue = (weft_queue){.driver = fake_driver(), .functions = fake_functions()};
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
