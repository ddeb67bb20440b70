/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "standard_ops.h"
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weft/random.h>

/* ---- memory: exactly as much as there is. Behind it a guard sees what is written, and then comes
 * a page that nobody may touch: it ends what reads or writes there, code that was made while it
 * runs and instructions that no sanitizer knows, as AMX's, too. In a build with sanitizers they see
 * the rest to the byte ---- */

enum { NOTE = 64, PAGE = 1 << 16 }; /* whole pages of any system */

#ifdef __SANITIZE_ADDRESS__
static const bool is_guarded = false;

static unsigned char *memory_of(size_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, machine.alignment, bytes ? bytes : 1), 0);
    return p;
}

static void release(void *p)
{
    free(p);
}
#else
static const bool is_guarded = true;

typedef struct mapping {
    void *at;
    size_t bytes;
} mapping;

static size_t up_to(size_t multiple, size_t n)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Before the memory it is noted what it lies in. */
static unsigned char *memory_of(size_t bytes)
{
    const size_t ours = up_to(machine.alignment, bytes), all = up_to(PAGE, NOTE + ours) + PAGE;
    unsigned char *at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    assert_int_equal(mprotect(at + all - PAGE, PAGE, PROT_NONE), 0);
    unsigned char *p = at + all - PAGE - ours;
    memcpy(p - NOTE, &(mapping){at, all}, sizeof(mapping));
    memset(p + bytes, 0x5a, ours - bytes);
    return p;
}

static void release(void *p)
{
    mapping m;
    if (!p)
        return;
    memcpy(&m, (unsigned char *)p - NOTE, sizeof m);
    assert_int_equal(munmap(m.at, m.bytes), 0);
}
#endif

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

/* All ones: a NaN, should anyone read it; of a large workspace the first part, for most of it
 * nobody ever touches. */
static void *guarded(size_t bytes)
{
    const size_t most = (size_t)1 << 20;
    return memset(memory_of(bytes), 0xff, bytes < most ? bytes : most);
}

static void check_guard(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = bytes; is_guarded && i % machine.alignment; i++)
        assert_int_equal(p[i], 0x5a);
}

static void *copy_of(const weft_tensor *t)
{
    void *p = guarded(bytes_of(t));
    memcpy(p, t->data, bytes_of(t));
    return p;
}

/* ---- building ---- */

static const weft_op *find_in(const weft_op *const *table, const char *name)
{
    for (; *table; table++)
        if (strcmp((*table)->name, name) == 0)
            return *table;
    return NULL;
}

void trial_init(trial *t, const char *op)
{
    memset(t, 0, sizeof *t);
    t->tolerance = 4e-6;
    t->launcher = op;
    t->op = find_in(standard_ops(), op);
    for (int i = 0; machine.ops && machine.ops[i] && !t->op; i++)
        t->op = find_in(machine.ops[i], op);
    for (const weft_kernel *k = machine.kernels; k->op && !t->kernel; k++)
        if (strcmp(k->op, op) == 0)
            t->kernel = k;
    assert_non_null(t->op);
    assert_non_null(t->kernel);
}

void trial_choose(trial *t, const char *kernel, const char *launcher)
{
    t->kernel = NULL;
    for (const weft_kernel *k = machine.kernels; k->op; k++)
        if (strcmp(k->name, kernel) == 0)
            t->kernel = k;
    assert_non_null(t->kernel);
    t->launcher = launcher;
}

void trial_release(trial *t)
{
    for (int i = 0; i < t->n_ins; i++)
        release(t->ins[i].data);
    for (int i = 0; i < t->n_outs; i++)
        release(t->outs[i].data);
}

void trial_int(trial *t, const char *key, int64_t value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_INT, .i = value};
}

void trial_real(trial *t, const char *key, double value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_REAL, .r = value};
}

void trial_text(trial *t, const char *key, const char *value)
{
    t->attrs[t->n_attrs++] = (weft_attr){.key = key, .kind = WEFT_ATTR_TEXT, .text = value};
}

static void make(weft_tensor *t, weft_dtype dtype, const int64_t *sizes)
{
    *t = (weft_tensor){.dtype = dtype};
    for (; sizes[t->n_dims] >= 0; t->n_dims++) {
        t->size[t->n_dims] = t->whole[t->n_dims] = sizes[t->n_dims];
        t->grain[t->n_dims] = 1;
    }
    t->data = guarded(bytes_of(t));
}

/* Nearly normal: a sum of four uniform numbers, of the bits of one (splitmix64). Those of
 * weft/random.h, which are as good as can be, took a third of the time of most trials. */
static double drawn(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed << 40) + (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    const uint64_t sum = (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48);
    return ((double)sum + 0.5 - 2 * 0xffff) / 0x10000 * 1.7320508075688772;
}

static void fill(weft_tensor *t, uint64_t seed)
{
    const int64_t n = weft_tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(t, i, drawn(seed, (uint64_t)i));
}

weft_tensor *trial_in(trial *t, weft_dtype dtype, uint64_t seed, const int64_t *sizes)
{
    weft_tensor *x = &t->ins[t->n_ins++];
    make(x, dtype, sizes);
    fill(x, seed);
    return x;
}

weft_tensor *trial_out(trial *t, weft_dtype dtype, const int64_t *sizes)
{
    weft_tensor *x = &t->outs[t->n_outs++];
    make(x, dtype, sizes);
    return x;
}

void tensor_heads(weft_tensor *t, int64_t grain, int64_t lo, int64_t whole)
{
    t->grain[t->n_dims - 1] = grain;
    t->lo[t->n_dims - 1] = lo;
    t->whole[t->n_dims - 1] = whole;
}

void tensor_ints(weft_tensor *t, uint64_t seed, int64_t lo, int64_t hi)
{
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        ((int32_t *)t->data)[i] =
            (int32_t)(lo + (int64_t)(weft_random_bits(seed, 2, (uint64_t)i) % (uint64_t)(hi - lo)));
}

/* ---- running ---- */

static weft_call call_of(trial *t, bool accumulate)
{
    return (weft_call){.op = t->op,
                       .attrs = t->attrs,
                       .n_attrs = t->n_attrs,
                       .n_ins = t->n_ins,
                       .n_outs = t->n_outs,
                       .ins = t->ins,
                       .outs = t->outs,
                       .accumulate = accumulate};
}

static bool adds(const trial *t, int result)
{
    return result == 0 || t->op->flags & WEFT_OP_PAIR;
}

/* What result 0 holds before an accumulating call, or both of a pair. */
static void begin_results(trial *t, bool accumulate)
{
    for (int i = 0; i < t->n_outs; i++)
        memset(t->outs[i].data, 0xff, bytes_of(&t->outs[i]));
    for (int i = 0; i < t->n_outs && accumulate && adds(t, i); i++)
        fill(&t->outs[i], 99 + (uint64_t)i);
}

/* As a run prepares it: before there are data. */
static weft_status prepare(const trial *t, const weft_call *call, size_t *bytes, void **state,
                           weft_error *err)
{
    weft_tensor ins[MOST_TENSORS], outs[MOST_TENSORS];
    weft_call shapes = *call;
    memcpy(ins, call->ins, sizeof ins);
    memcpy(outs, call->outs, sizeof outs);
    for (int i = 0; i < MOST_TENSORS; i++)
        ins[i].data = outs[i].data = NULL;
    shapes.ins = ins;
    shapes.outs = outs;
    assert_true(weft_kernel_accepts(t->kernel, &shapes));
    *bytes = t->kernel->workspace ? t->kernel->workspace(&shapes) : 0;
    return t->kernel->prepare ? t->kernel->prepare(&shapes, state, err) : WEFT_OK;
}

static void run(trial *t, int variant, int repeat, bool accumulate, const weft_tensor *outs)
{
    weft_call call = call_of(t, accumulate);
    weft_error err = {0};
    size_t bytes;
    call.outs = outs;
    machine.address(t, variant, repeat, &call);
    weft_status s = prepare(t, &call, &bytes, &call.state, &err);
    call.workspace = guarded(bytes);
    call.workspace_bytes = bytes;
    s = s ? s : machine.launch(t, variant, repeat, &call, &err);
    if (s)
        fail_msg("%s: %s", t->op->name, weft_error_text(&err));
    if (t->kernel->release)
        t->kernel->release(call.state);
    check_guard(call.workspace, bytes);
    for (int i = 0; i < t->n_outs; i++)
        check_guard(outs[i].data, bytes_of(&outs[i]));
    release(call.workspace);
    weft_error_release(&err);
}

void trial_run(trial *t, int variant, int repeat, bool accumulate)
{
    begin_results(t, accumulate);
    run(t, variant, repeat, accumulate, t->outs);
}

/* A result may lie where its operand lay: it is run so, and the operand put back. */
static void run_in_place(trial *t, int variant, int repeat)
{
    weft_tensor outs[MOST_TENSORS];
    void *kept[MOST_TENSORS] = {NULL};
    begin_results(t, false);
    memcpy(outs, t->outs, sizeof outs);
    for (int i = 0; i < t->n_ins && i < t->n_outs; i++) {
        if (bytes_of(&t->ins[i]) != bytes_of(&outs[i]) || t->ins[i].dtype != outs[i].dtype)
            continue;
        kept[i] = copy_of(&t->ins[i]);
        outs[i].data = t->ins[i].data;
    }
    run(t, variant, repeat, false, outs);
    for (int i = 0; i < t->n_outs; i++)
        if (kept[i]) {
            memcpy(t->outs[i].data, t->ins[i].data, bytes_of(&t->ins[i]));
            memcpy(t->ins[i].data, kept[i], bytes_of(&t->ins[i]));
            release(kept[i]);
        }
}

void trial_plain(trial *t, bool accumulate, weft_tensor *outs)
{
    weft_call call = call_of(t, accumulate);
    weft_error err = {0};
    begin_results(t, accumulate);
    for (int i = 0; i < t->n_outs; i++) {
        outs[i] = t->outs[i];
        if (!weft_dtype_is_f8(outs[i].dtype))
            outs[i].dtype = WEFT_F64;
        outs[i].data = guarded(bytes_of(&outs[i]));
        for (int64_t j = 0; adds(t, i) && accumulate && j < weft_tensor_count(&outs[i]); j++)
            weft_tensor_set(&outs[i], j, weft_tensor_get(&t->outs[i], j));
    }
    call.outs = outs;
    assert_int_equal(t->op->plain(&call, &err), WEFT_OK);
    weft_error_release(&err);
}

void trial_free_outs(const trial *t, weft_tensor *outs)
{
    for (int i = 0; i < t->n_outs; i++)
        release(outs[i].data);
}

/* ---- comparing ---- */

static void compare(const trial *t, int result, const weft_tensor *want, int number)
{
    const char *variant = machine.variant(t, number);
    double rounding = machine.rounding ? machine.rounding(t, number) : 0.0;
    const weft_tensor *got = &t->outs[result];
    double largest = t->size, relative = got->dtype == WEFT_BF16 ? 1.0 / 256 : t->tolerance;
    const int64_t n = weft_tensor_count(want);
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(weft_tensor_get(want, i));
        largest = isfinite(x) && x > largest ? x : largest;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = weft_tensor_get(got, i), y = weft_tensor_get(want, i);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (isinf(y) || !(fabs(x - y) <= relative * fabs(y) + (t->tolerance + rounding) * largest))
            fail_msg("%s, %s: result %d, element %lld of %lld: %.9g, plain %.9g", t->op->name,
                     variant, result, (long long)i, (long long)n, x, y);
    }
}

static void check_same(const trial *t, void *const *data, const char *variant, const char *what)
{
    for (int i = 0; i < t->n_outs; i++)
        if (memcmp(data[i], t->outs[i].data, bytes_of(&t->outs[i])) != 0)
            fail_msg("%s, %s: result %d depends on %s", t->op->name, variant, i, what);
}

static void check_variant(trial *t, int variant, bool accumulate, const weft_tensor *want)
{
    const char *name = machine.variant(t, variant);
    void *first[MOST_TENSORS];
    trial_run(t, variant, 0, accumulate);
    for (int i = 0; i < t->n_outs; i++) {
        compare(t, i, &want[i], variant);
        first[i] = copy_of(&t->outs[i]);
    }
    const bool once = accumulate && machine.slow && !getenv("WEFT_LONG");
    for (int r = 1; r < (once ? 1 : machine.repeats(t)); r++) {
        trial_run(t, variant, r, accumulate);
        check_same(t, first, name, machine.repeated);
    }
    if ((t->op->flags & WEFT_OP_INPLACE) && !accumulate) {
        run_in_place(t, variant, machine.repeats(t) - 1);
        check_same(t, first, name, "lying where an operand lay");
    }
    for (int i = 0; i < t->n_outs; i++)
        release(first[i]);
}

static long checked;

void trial_check(trial *t)
{
    checked++;
    for (int accumulate = 0; accumulate <= (t->kernel->accumulates && !t->alone ? 1 : 0);
         accumulate++) {
        weft_tensor want[MOST_TENSORS];
        trial_plain(t, accumulate, want);
        for (int v = 0; machine.variant(t, v); v++)
            check_variant(t, v, accumulate, want);
        trial_free_outs(t, want);
    }
    trial_release(t);
}

int trial_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < n; i++)
            printf("%s\n", tests[i].name);
        return 0;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
    printf("# %ld calls on %s\n", checked, machine.name ? machine.name() : "the host");
    return failed;
}
