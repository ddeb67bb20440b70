/* SPDX-License-Identifier: Apache-2.0 */
/* Elements beyond 2^31 and 2^32: tensors as large as those of the largest models, in memory that is
 * only there where it is touched. Of each launch the last block alone runs; where its arithmetic
 * wrapped round, what is looked for at the far end would not be there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"
#include "trial.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

/* Rows are shared out among 2^14 blocks: with multiples of it the last row is the last block's. */
enum { VOCABULARY = 8 << 14, WIDTH = 16392, TOKENS = 4 << 14, LOGITS = 131080 };
static const int64_t many = (int64_t)130 << 25; /* elements, of 2^25 in a walk of all blocks */

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

/* Zeros. */
static weft_tensor *far_tensor(weft_tensor *t, weft_dtype dtype, const int64_t *sizes)
{
    *t = (weft_tensor){.dtype = dtype};
    for (; sizes[t->n_dims] >= 0; t->n_dims++) {
        t->size[t->n_dims] = t->whole[t->n_dims] = sizes[t->n_dims];
        t->grain[t->n_dims] = 1;
    }
    t->data = map(bytes_of(t));
    return t;
}

static weft_tensor *in(trial *t, weft_dtype dtype, const int64_t *sizes)
{
    return far_tensor(&t->ins[t->n_ins++], dtype, sizes);
}

static weft_tensor *out(trial *t, weft_dtype dtype, const int64_t *sizes)
{
    return far_tensor(&t->outs[t->n_outs++], dtype, sizes);
}

static int64_t last_of(const weft_tensor *t)
{
    return weft_tensor_count(t) - 1;
}

static void set_last(weft_tensor *t, double x)
{
    weft_tensor_set(t, last_of(t), x);
}

/* The last block of each launch, on a variant of the machine; then what result 0 ends with. */
static void run_on(trial *t, int variant, double want)
{
    weft_call call = {.op = t->op,
                      .attrs = t->attrs,
                      .n_attrs = t->n_attrs,
                      .n_ins = t->n_ins,
                      .n_outs = t->n_outs,
                      .ins = t->ins,
                      .outs = t->outs};
    weft_error err = {0};
    machine.address(t, variant, 0, &call);
    assert_true(weft_kernel_accepts(t->kernel, &call));
    call.workspace_bytes = t->kernel->workspace ? t->kernel->workspace(&call) : 0;
    call.workspace = call.workspace_bytes ? map(call.workspace_bytes) : NULL;
    weft_status s = t->kernel->prepare ? t->kernel->prepare(&call, &call.state, &err) : WEFT_OK;
    fake_set_last_blocks(1);
    s = s ? s : machine.launch(t, variant, 0, &call, &err);
    fake_set_last_blocks(0);
    if (s)
        fail_msg("%s: %s", t->op->name, weft_error_text(&err));
    double got = weft_tensor_get(&t->outs[0], last_of(&t->outs[0]));
    if (!(fabs(got - want) <= 1e-2 * fabs(want)))
        fail_msg("%s: %g, not %g", t->op->name, got, want);
    if (t->kernel->release)
        t->kernel->release(call.state);
    if (call.workspace)
        munmap(call.workspace, call.workspace_bytes);
    for (int i = 0; i < t->n_ins; i++)
        munmap(t->ins[i].data, bytes_of(&t->ins[i]));
    for (int i = 0; i < t->n_outs; i++)
        munmap(t->outs[i].data, bytes_of(&t->outs[i]));
}

static void run(trial *t, double want)
{
    run_on(t, 0, want);
}

static void test_elements(void **state)
{
    trial t;
    (void)state;
    trial_init(&t, "cast");
    set_last(in(&t, WEFT_BF16, SIZES(many)), 3);
    out(&t, WEFT_BF16, SIZES(many));
    run(&t, 3);
    trial_init(&t, "sumsq");
    set_last(in(&t, WEFT_BF16, SIZES(many)), 3);
    out(&t, WEFT_F32, SIZES(-1));
    run(&t, 9);
    trial_init(&t, "chunk");
    trial_int(&t, "dim", 0);
    in(&t, WEFT_BF16, SIZES(VOCABULARY, 1 << 14));
    out(&t, WEFT_BF16, SIZES(VOCABULARY / 2, 1 << 14));
    out(&t, WEFT_BF16, SIZES(VOCABULARY / 2, 1 << 14));
    weft_tensor_set(&t.ins[0], last_of(&t.ins[0]) - (1 << 14), 3); /* every second row */
    run(&t, 3);
}

static void test_rows(void **state)
{
    trial t;
    (void)state;
    trial_init(&t, "rms_norm");
    trial_real(&t, "eps", 1e-5);
    set_last(in(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH)), 3);
    set_last(in(&t, WEFT_F32, SIZES(WIDTH)), 2);
    out(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH));
    run(&t, 2 * 3 / sqrt(9.0 / WIDTH));
    trial_init(&t, "rms_norm_dw");
    trial_real(&t, "eps", 1e-5);
    set_last(in(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH)), 3);
    set_last(in(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH)), 2);
    out(&t, WEFT_F32, SIZES(WIDTH));
    run(&t, 2 * 3 / sqrt(9.0 / WIDTH));
    trial_init(&t, "add_bias");
    set_last(in(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH)), 3);
    set_last(in(&t, WEFT_F32, SIZES(WIDTH)), 2);
    out(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH));
    run(&t, 5);
}

static void test_heads(void **state)
{
    enum { D = 128, HEADS = 128, KV = 8, ROWS = 1025 * 128 };
    trial t;
    (void)state;
    trial_init(&t, "rope");
    tensor_heads(in(&t, WEFT_BF16, SIZES(1, ROWS, HEADS * D)), D, 0, HEADS * D);
    set_last(&t.ins[0], 3);
    in(&t, WEFT_F32, SIZES(1, ROWS, D));
    weft_tensor_set(&t.ins[1], last_of(&t.ins[1]) - D / 2, 1); /* the last cosine */
    tensor_heads(out(&t, WEFT_BF16, SIZES(1, ROWS, HEADS * D)), D, 0, HEADS * D);
    run(&t, 3);
    trial_init(&t, "repeat_kv");
    tensor_heads(in(&t, WEFT_BF16, SIZES(1, ROWS, KV * D)), D, 0, KV * D);
    set_last(&t.ins[0], 3);
    tensor_heads(in(&t, WEFT_BF16, SIZES(1, 1, HEADS * D)), D, 0, HEADS * D);
    tensor_heads(out(&t, WEFT_BF16, SIZES(1, ROWS, HEADS * D)), D, 0, HEADS * D);
    run(&t, 3);
}

static void test_vocabulary(void **state)
{
    trial t;
    (void)state;
    trial_init(&t, "embedding");
    set_last(in(&t, WEFT_I32, SIZES(1)), VOCABULARY - 1);
    set_last(in(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH)), 3);
    out(&t, WEFT_BF16, SIZES(1, WIDTH));
    run(&t, 3);
    trial_init(&t, "embedding_dw");
    set_last(in(&t, WEFT_I32, SIZES(1)), VOCABULARY - 1);
    set_last(in(&t, WEFT_BF16, SIZES(1, WIDTH)), 3);
    out(&t, WEFT_F32, SIZES(VOCABULARY, WIDTH));
    run(&t, 3);
}

static void begin_loss(trial *t, const char *op)
{
    trial_init(t, op);
    set_last(in(t, WEFT_BF16, SIZES(TOKENS, LOGITS)), 3);
}

static void test_logits(void **state)
{
    trial t;
    (void)state;
    begin_loss(&t, "max_v");
    out(&t, WEFT_F32, SIZES(TOKENS));
    run(&t, 3);
    begin_loss(&t, "sumexp");
    in(&t, WEFT_F32, SIZES(TOKENS));
    out(&t, WEFT_F32, SIZES(TOKENS));
    run(&t, LOGITS - 1 + exp(3));
    begin_loss(&t, "sumexp_dx");
    in(&t, WEFT_F32, SIZES(TOKENS));
    set_last(in(&t, WEFT_F32, SIZES(TOKENS)), 2);
    out(&t, WEFT_BF16, SIZES(TOKENS, LOGITS));
    run(&t, 2 * exp(3));
    begin_loss(&t, "pick");
    set_last(in(&t, WEFT_I32, SIZES(TOKENS)), LOGITS - 1);
    out(&t, WEFT_F32, SIZES(TOKENS));
    run(&t, 3);
    trial_init(&t, "pick_dx");
    set_last(in(&t, WEFT_I32, SIZES(TOKENS)), LOGITS - 1);
    set_last(in(&t, WEFT_F32, SIZES(TOKENS)), 3);
    out(&t, WEFT_BF16, SIZES(TOKENS, LOGITS));
    run(&t, 3);
}

static void test_8_bits(void **state)
{
    trial t;
    (void)state;
    trial_init(&t, "float8_amax");
    trial_int(&t, "places", 1);
    set_last(in(&t, WEFT_BF16, SIZES(VOCABULARY, WIDTH)), -3);
    out(&t, WEFT_F32, SIZES(VOCABULARY));
    run(&t, 3);
    trial_init(&t, "float8_quantise");
    trial_int(&t, "places", 1);
    trial_text(&t, "dtype", "f8e4m3");
    set_last(in(&t, WEFT_BF16, SIZES(VOCABULARY, 1 << 15)), 3);
    set_last(in(&t, WEFT_F32, SIZES(VOCABULARY)), 2);
    out(&t, WEFT_F8E4M3, SIZES(VOCABULARY, 1 << 15));
    run(&t, 6);
}

/* More columns of tiles than a grid takes in its second dim: each block turns several. */
static void test_turned(void **state)
{
    enum { ROWS = 16, COLUMNS = 5 * (64 << 14), HOPPER = 1 };
    trial t;
    (void)state;
    trial_init(&t, "float8_linear_dx");
    t.product = true;
    trial_text(&t, "emulate", "no");
    set_last(in(&t, WEFT_F8E4M3, SIZES(1, ROWS)), 3);
    set_last(in(&t, WEFT_F8E4M3, SIZES(ROWS, COLUMNS)), 2);
    set_last(in(&t, WEFT_F32, SIZES(-1)), 1);
    set_last(in(&t, WEFT_F32, SIZES(-1)), 1);
    out(&t, WEFT_F32, SIZES(1, COLUMNS));
    run_on(&t, HOPPER, 6);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_heads),    cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_logits),   cmocka_unit_test(test_8_bits),
        cmocka_unit_test(test_turned),
    };
    return trial_main(argc, argv, "cuda_far", tests, sizeof tests / sizeof *tests);
}
