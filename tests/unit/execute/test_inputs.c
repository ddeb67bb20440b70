/* SPDX-License-Identifier: Apache-2.0 */
/* Labels further on: those of the whole sample, wherever a rank's part of it begins and ends. */
#include "../../lib/standard_ops.h"
#include "execute/run.h"

#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { SEQ = 9, ROWS = 2, MICROS = 2, RANKS = 4 };

/* Three documents, of 3, 2 and 4 tokens. */
static int32_t ids[SEQ], positions[SEQ];
static int32_t labels[SEQ] = {10, 11, 12, 13, 14, 15, -1, 17, 18};
static int32_t segments[SEQ] = {0, 0, 0, 1, 1, 2, 2, 2, 2};

static const struct {
    const char *name;
    int32_t want[SEQ];
} cases[] = {
    {"labels", {10, 11, 12, 13, 14, 15, -1, 17, 18}},
    {"labels+1", {11, 12, -1, 14, -1, -1, 17, 18, -1}},
    {"labels+2", {12, -1, -1, -1, -1, 17, 18, -1, -1}},
    {"labels+3", {-1, -1, -1, -1, -1, 18, -1, -1, -1}},
    {"labels+9", {-1, -1, -1, -1, -1, -1, -1, -1, -1}},
    {"step_labels+2", {12, -1, -1, -1, -1, 17, 18, -1, -1}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* A graph whose inputs are cut by rows and places, and memory for one rank's. */
typedef struct fixture {
    weft_ops ops;
    weft_graph *g;
    weft_lowered l;
    weft_buffer buffers[N_CASES];
    int buffer_of[N_CASES];
    weft_plan plan;
    weft_run run;
    weft_batch *batch;
    weft_error err;
} fixture;

/* Of host memory. */
static const weft_device device;

static void start(fixture *f, int rank)
{
    *f = (fixture){0};
    assert_int_equal(standard_ops_init(&f->ops, NULL, NULL, 0, &f->err), WEFT_OK);
    weft_graph_config config = {
        .ops = &f->ops,
        .dtype = WEFT_F32,
        .mesh = {.n_axes = 2, .axis = {{.name = "cp", .size = 2}, {.name = "dp", .size = 2}}},
        .sizes = {ROWS, SEQ, MICROS, 0}};
    assert_int_equal(weft_graph_create(&config, &f->g, &f->err), WEFT_OK);
    weft_add_rule(f->g, WEFT_RULE_INPUT, NULL, "seq", "cp");
    weft_add_rule(f->g, WEFT_RULE_INPUT, NULL, "batch", "dp");
    f->l = (weft_lowered){.graph = f->g, .buffers = f->buffers, .buffer_of = f->buffer_of};
    for (int i = 0; i < N_CASES; i++)
        assert_non_null(weft_add_input(f->g, cases[i].name));
    assert_int_equal(weft_graph_place(f->g), WEFT_OK);
    weft_mesh_coord(&config.mesh, rank, f->l.coord);
    for (int i = 0; i < N_CASES; i++) {
        const weft_value *v = weft_add_input(f->g, cases[i].name);
        bool step = v->n_dims == 3;
        int64_t *bytes = step ? &f->l.step_input_bytes : &f->l.input_bytes;
        f->buffer_of[v->id] = i;
        f->buffers[i] =
            (weft_buffer){.base = step ? WEFT_BASE_STEP_INPUT : WEFT_BASE_INPUT, .offset = *bytes};
        *bytes += weft_nominal_bytes(f->g, v);
    }
    f->plan = (weft_plan){.device = &device, .lowered = {&f->l}};
    f->run.plan = &f->plan;
    assert_int_equal(weft_batch_create(&f->run, WEFT_MODE_TRAIN, MICROS, &f->batch, &f->err),
                     WEFT_OK);
}

static void end(fixture *f)
{
    weft_batch_destroy(f->batch);
    weft_graph_destroy(f->g);
    weft_ops_release(&f->ops);
    weft_error_release(&f->err);
}

/* Each row's labels are its own: 100 more than those of the row before. */
static void fill(fixture *f)
{
    for (int64_t micro = 0; micro < MICROS; micro++)
        for (int64_t row = 0; row < ROWS; row++) {
            int32_t of_row[SEQ];
            void *const fields[] = {ids, of_row, positions, segments};
            weft_sample s = {.field = fields, .labels = of_row, .segments = segments};
            for (int k = 0; k < SEQ; k++)
                of_row[k] = labels[k] < 0 ? -1 : labels[k] + 100 * (int32_t)(micro * ROWS + row);
            if (weft_owns_row(&f->l, micro, row))
                weft_fill_inputs(f->batch, micro, row, &s);
        }
}

static void see(fixture *f, int i, int64_t micro)
{
    weft_tensor t;
    const int32_t *is = weft_batch_input(f->batch, micro, cases[i].name, &t);
    assert_non_null(is);
    assert_true(weft_tensor_count(&t) > 0);
    for (int64_t j = 0; j < weft_tensor_count(&t); j++) {
        int64_t seq = t.size[t.n_dims - 1], rows = t.size[t.n_dims - 2];
        int64_t place = t.lo[t.n_dims - 1] + j % seq, row = t.lo[t.n_dims - 2] + j / seq % rows;
        int64_t of = t.n_dims == 3 ? t.lo[0] + j / seq / rows : micro;
        int32_t want = cases[i].want[place];
        want = want < 0 ? -1 : want + 100 * (int32_t)(of * ROWS + row);
        if (is[j] != want)
            fail_msg("%s of sample %d at place %d: %d, not %d", cases[i].name,
                     (int)(of * ROWS + row), (int)place, is[j], want);
    }
}

static void labels_further_on(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        fixture f;
        start(&f, rank);
        fill(&f);
        for (int i = 0; i < N_CASES; i++)
            for (int64_t micro = 0; micro < MICROS; micro++)
                see(&f, i, micro);
        weft_fill_inputs(f.batch, 0, rank / 2, NULL);
        weft_tensor t;
        const int32_t *is = weft_batch_input(f.batch, 0, "labels+1", &t);
        for (int64_t j = 0; j < weft_tensor_count(&t); j++)
            assert_int_equal(is[j], -1);
        end(&f);
    }
}

static void wrong_names(void **state)
{
    (void)state;
    static const char *const names[] = {"labels+",    "labels+0",  "labels+01", "labels+1x",
                                        "labels+-1",  "labels 1",  "ids+1",     "segments+1",
                                        "labels+1+1", "xlabels+1", "step+1",    "step_labels+0",
                                        "+1",         "labels++1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fixture f;
        start(&f, 0);
        assert_int_equal(weft_input_shift(names[i]), 0);
        assert_null(weft_add_input(f.g, names[i]));
        assert_non_null(strstr(weft_error_text(weft_graph_error(f.g)), "there is no input called"));
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_further_on),
        cmocka_unit_test(wrong_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
