/* SPDX-License-Identifier: Apache-2.0 */
/* State that the host cannot reach is filled by rows, each byte once, whatever the sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <weft/service.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 3 << 20 };

typedef struct far {
    float *memory;
    int64_t written; /* bytes so far: in order */
    int reads;
} far;

/* Element i of the whole is i. */
static weft_status read_box(void *ctx, const weft_state_tensor *t, const int64_t *lo,
                            const int64_t *size, void *to, weft_error *err)
{
    const weft_tensor *x = &t->tensor;
    float *out = to;
    (void)err;
    ((far *)ctx)->reads++;
    const int64_t rows = x->n_dims ? size[0] : 1, columns = x->n_dims > 1 ? size[1] : 1,
                  wide = x->n_dims > 1 ? x->whole[1] : 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            *out++ = x->n_dims ? (float)((lo[0] + r) * wide + (x->n_dims > 1 ? lo[1] + c : 0)) : 7;
    return WEFT_OK;
}

static weft_status write_far(const weft_state_view *state, int i, int64_t at, int64_t n,
                             const void *from, weft_error *err)
{
    far *f = state->core;
    (void)i, (void)err;
    assert_int_equal(at, f->written);
    memcpy((char *)f->memory + at, from, (size_t)n);
    f->written += n;
    return WEFT_OK;
}

static void fill(int n_dims, int64_t rows, int64_t columns, int reads)
{
    far f = {.memory = weft_alloc(MOST * sizeof(float))};
    weft_error err = {0};
    weft_state_tensor t = {.name = "x",
                           .tensor = {.dtype = WEFT_F32,
                                      .n_dims = n_dims,
                                      .size = {rows, columns},
                                      .lo = {5, 3},
                                      .whole = {rows + 9, columns + 7}}};
    const weft_state_view view = {.tensors = &t, .n_tensors = 1, .write = write_far, .core = &f};
    const int64_t n = weft_tensor_count(&t.tensor);
    assert_int_equal(weft_state_fill(&view, 0, read_box, &f, &err), WEFT_OK);
    assert_int_equal(f.written, n * 4);
    assert_int_equal(f.reads, reads);
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = n_dims > 1 ? i / columns : i, c = n_dims > 1 ? i % columns : 0;
        const float want =
            n_dims == 0 ? 7 : (float)(n_dims > 1 ? (5 + r) * (columns + 7) + 3 + c : 5 + r);
        if (f.memory[i] != want)
            fail_msg("element %d is %g, not %g", (int)i, (double)f.memory[i], (double)want);
    }
    float here[64];
    t.tensor.data = n <= 64 ? here : NULL;
    if (t.tensor.data) {
        assert_int_equal(weft_state_fill(&view, 0, read_box, &f, &err), WEFT_OK);
        assert_memory_equal(here, f.memory, (size_t)n * 4);
    }
    t.elsewhere = true;
    assert_int_equal(weft_state_fill(&view, 0, read_box, &f, &err), WEFT_OK);
    assert_int_equal(f.reads, reads + (n <= 64 && n > 0));
    weft_free(f.memory);
    weft_error_release(&err);
}

static void test_by_rows(void **state)
{
    (void)state;
    fill(0, 0, 0, 1);
    fill(1, 17, 0, 1);
    fill(1, 0, 0, 0);
    fill(1, (1 << 20) + 1, 0, 2);
    fill(2, 5, 9, 1);
    fill(2, 1000, 1001, 1);
    fill(2, 1049, 1001, 2);
    fill(2, 2, 1 << 20, 2);
    fill(2, 1, (2 << 20) + 1, 1); /* a row is the least */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
