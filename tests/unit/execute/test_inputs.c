/* SPDX-License-Identifier: Apache-2.0 */
/* Labels and ids further on: those of the whole sample, wherever a rank's part of it begins and
 * ends; fields of any shape and type. */
#include "../../lib/standard_ops.h"
#include "execute/run.h"

#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { SEQ = 9, ROWS = 2, MICROS = 2, RANKS = 4 };

/* Three documents, of 3, 2 and 4 tokens. */
static int32_t ids[SEQ] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, positions[SEQ];
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
    {"ids+1", {2, 3, -1, 5, -1, 7, 8, 9, -1}},
    {"ids+3", {-1, -1, -1, -1, -1, 9, -1, -1, -1}},
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
        .sizes = {ROWS, SEQ, MICROS, 0},
        .fields_by = "texts"};
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

/* Each row's labels and ids are its own: 100 more than those of the row before. */
static void fill(fixture *f)
{
    for (int64_t micro = 0; micro < MICROS; micro++)
        for (int64_t row = 0; row < ROWS; row++) {
            const int32_t more = 100 * (int32_t)(micro * ROWS + row);
            int32_t of_row[SEQ], ids_of_row[SEQ];
            void *const fields[] = {ids_of_row, of_row, positions, segments};
            weft_sample s = {
                .field = fields, .ids = ids_of_row, .labels = of_row, .segments = segments};
            for (int k = 0; k < SEQ; k++) {
                of_row[k] = labels[k] < 0 ? -1 : labels[k] + more;
                ids_of_row[k] = ids[k] + more;
            }
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
        is = weft_batch_input(f.batch, 0, "ids+1", &t);
        for (int64_t j = 0; j < weft_tensor_count(&t); j++)
            assert_int_equal(is[j], -1);
        end(&f);
    }
}

static void wrong_names(void **state)
{
    (void)state;
    static const char *const names[] = {"labels+",   "labels+0",   "labels+01", "labels+1x",
                                        "labels+-1", "labels 1",   "index+1",   "sample_number+1",
                                        "step+1",    "labels+1+1", "xlabels+1", "step_labels+0",
                                        "+1",        "labels++1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fixture f;
        start(&f, 0);
        assert_null(weft_add_input(f.g, names[i]));
        assert_non_null(strstr(weft_error_text(weft_graph_error(f.g)), "there is no input called"));
        end(&f);
    }
}

/* ---- fields that are no text ---- */

enum { HIGH = 3, WIDE = 5 };

static const weft_field of_pictures[] = {
    {.name = "picture", .shape = "batch high seq wide", .dtype = WEFT_F32, .pad = -7},
    {.name = "half", .shape = "batch wide", .dtype = WEFT_BF16},
    {"labels", "batch", WEFT_I32, .below = "classes", .low = -1, .pad = -1},
    {.name = "unsized", .shape = "batch nobody", .dtype = WEFT_F32},
    {.name = NULL},
};
static const char *const picture_inputs[] = {"picture",
                                             "half",
                                             "labels",
                                             "step_picture",
                                             "step_labels",
                                             "sample_number",
                                             "step_sample_number",
                                             "index:wide",
                                             "index:seq"};
enum { N_PICTURE_INPUTS = sizeof picture_inputs / sizeof picture_inputs[0] };

static double picture(int64_t number, int64_t h, int64_t s, int64_t w)
{
    return (double)(1000 * number + 100 * h + 10 * s + w) / 4;
}

static double expected(const char *name, int64_t number, const int64_t *at)
{
    if (strstr(name, "picture"))
        return picture(number, at[0], at[1], at[2]);
    if (strcmp(name, "half") == 0)
        return (double)(number + at[0]);
    return strstr(name, "labels") ? (double)(number % 4) - 1 : (double)number;
}

/* The number of this name's sample in row `row` of micro-batch `micro`. */
static void check_input(fixture *f, const char *name, int64_t micro, const int32_t *order)
{
    weft_tensor t;
    const bool step = strncmp(name, "step_", 5) == 0, index = strncmp(name, "index", 5) == 0;
    t.data = NULL;
    void *data = weft_batch_input(f->batch, micro, name, &t);
    assert_non_null(data);
    t.data = data;
    assert_int_equal(t.dtype,
                     strstr(name, "picture") || strcmp(name, "half") == 0 ? WEFT_F64 : WEFT_I32);
    for (int64_t i = 0; i < weft_tensor_count(&t); i++) {
        int64_t at[WEFT_MAX_DIMS], rest = i;
        for (int d = t.n_dims - 1; d >= 0; d--) {
            const bool ordered =
                strcmp(name, "index:seq") == 0 || (strstr(name, "picture") && d == 2 + step);
            at[d] = t.lo[d] + rest % t.size[d];
            at[d] = ordered ? order[at[d]] : at[d];
            rest /= t.size[d];
        }
        const double want =
            index ? (double)at[0]
                  : expected(name, (step ? at[0] : micro) * ROWS + at[step], at + step + 1);
        assert_true(weft_tensor_get(&t, i) == want);
    }
}

/* Real numbers in f64, cut by rows and by the sequence, which lies in another order. */
static void fields_of_any_shape(void **state)
{
    (void)state;
    static const int32_t order[SEQ] = {8, 0, 7, 1, 6, 2, 5, 3, 4};
    for (int rank = 0; rank < RANKS; rank++) {
        fixture f = {0};
        assert_int_equal(standard_ops_init(&f.ops, NULL, NULL, 0, &f.err), WEFT_OK);
        weft_graph_config config = {
            .ops = &f.ops,
            .dtype = WEFT_F64,
            .mesh = {.n_axes = 2, .axis = {{.name = "cp", .size = 2}, {.name = "dp", .size = 2}}},
            .sizes = {ROWS, SEQ, MICROS, 0},
            .fields = of_pictures};
        int buffer_of[N_PICTURE_INPUTS];
        weft_buffer buffers[N_PICTURE_INPUTS];
        assert_int_equal(weft_graph_create(&config, &f.g, &f.err), WEFT_OK);
        weft_graph_dim(f.g, "high", HIGH, 1);
        weft_graph_dim(f.g, "wide", WIDE, 1);
        assert_int_equal(weft_graph_size(f.g, "wide"), WIDE);
        assert_int_equal(weft_graph_size(f.g, "nobody"), 0);
        weft_set_seq_order(f.g, order, SEQ);
        weft_add_rule(f.g, WEFT_RULE_INPUT, NULL, "seq", "cp");
        weft_add_rule(f.g, WEFT_RULE_INPUT, NULL, "batch", "dp");
        f.l = (weft_lowered){.graph = f.g, .buffers = buffers, .buffer_of = buffer_of};
        for (int i = 0; i < N_PICTURE_INPUTS; i++)
            assert_non_null(weft_add_input(f.g, picture_inputs[i]));
        assert_int_equal(weft_graph_place(f.g), WEFT_OK);
        weft_mesh_coord(&config.mesh, rank, f.l.coord);
        for (int i = 0; i < N_PICTURE_INPUTS; i++) {
            const weft_value *v = weft_add_input(f.g, picture_inputs[i]);
            const bool step =
                strncmp(v->name, "step_", 5) == 0 || strncmp(v->name, "index", 5) == 0;
            int64_t *bytes = step ? &f.l.step_input_bytes : &f.l.input_bytes;
            buffer_of[v->id] = i;
            buffers[i] = (weft_buffer){.base = step ? WEFT_BASE_STEP_INPUT : WEFT_BASE_INPUT,
                                       .offset = *bytes};
            *bytes += (weft_nominal_bytes(f.g, v) + 7) / 8 * 8;
        }
        f.plan = (weft_plan){.device = &device, .lowered = {&f.l}};
        f.run.plan = &f.plan;
        assert_int_equal(weft_batch_create(&f.run, WEFT_MODE_TRAIN, MICROS, &f.batch, &f.err),
                         WEFT_OK);
        weft_sample s;
        assert_int_equal(weft_sample_init(&s, f.g, &f.err), WEFT_OK);
        assert_null(s.ids);
        assert_null(s.labels); /* which are no sequence */
        assert_null(s.field[3]);
        for (int64_t number = 0; number < ROWS * MICROS; number++) {
            for (int64_t k = 0; k < HIGH * SEQ * WIDE; k++)
                ((float *)s.field[0])[k] =
                    (float)picture(number, k / (SEQ * WIDE), k / WIDE % SEQ, k % WIDE);
            for (int64_t k = 0; k < WIDE; k++)
                ((uint16_t *)s.field[1])[k] = weft_f32_to_bf16((float)(number + k));
            *(int32_t *)s.field[2] = (int32_t)(number % 4) - 1;
            s.number = (int32_t)number;
            if (weft_owns_row(&f.l, number / ROWS, number % ROWS))
                weft_fill_inputs(f.batch, number / ROWS, number % ROWS, &s);
        }
        weft_fill_step(f.batch, 1);
        for (int i = 0; i < N_PICTURE_INPUTS; i++)
            for (int64_t micro = 0; micro < MICROS; micro++)
                check_input(&f, picture_inputs[i], micro, order);
        for (int64_t row = 0; row < ROWS; row++)
            weft_fill_inputs(f.batch, 1, row, NULL);
        weft_tensor t;
        const double *is = weft_batch_input(f.batch, 1, "picture", &t);
        for (int64_t i = 0; i < weft_tensor_count(&t); i++)
            assert_true(is[i] == -7);
        weft_sample_release(&s);
        end(&f);
    }
}

/* Each is an error that names it. */
static void fields_that_are_none(void **state)
{
    (void)state;
    static const weft_field wrong[] = {{.name = "flat", .shape = "wide batch", .dtype = WEFT_F32},
                                       {.name = "batched", .shape = "batches", .dtype = WEFT_F32},
                                       {.name = "lost", .shape = "batch nobody", .dtype = WEFT_F32},
                                       {.name = "odd", .shape = "batch wide", .dtype = 99},
                                       {.name = NULL}};
    for (int i = 0; wrong[i].name; i++) {
        fixture f = {0};
        assert_int_equal(standard_ops_init(&f.ops, NULL, NULL, 0, &f.err), WEFT_OK);
        weft_graph_config config = {.ops = &f.ops,
                                    .dtype = WEFT_F32,
                                    .sizes = {ROWS, SEQ, MICROS, 0},
                                    .fields = wrong,
                                    .fields_by = "pictures"};
        assert_int_equal(weft_graph_create(&config, &f.g, &f.err), WEFT_OK);
        weft_graph_dim(f.g, "wide", WIDE, 1);
        assert_null(weft_add_input(f.g, wrong[i].name));
        assert_non_null(strstr(weft_error_text(weft_graph_error(f.g)), wrong[i].name));
        end(&f);
    }
}

/* Which of the two a model would get, nobody could say; both are named. */
static void two_fields_of_one_name(void **state)
{
    (void)state;
    static const weft_field twins[] = {{.name = "alone", .shape = "batch", .dtype = WEFT_F32},
                                       {.name = "twin", .shape = "batch wide", .dtype = WEFT_F32},
                                       {"twin", "batch", WEFT_I32, NULL, 0, 0},
                                       {.name = NULL}};
    static const char *const names[] = {"alone", "sample_number", "twin"};
    fixture f = {0};
    assert_int_equal(standard_ops_init(&f.ops, NULL, NULL, 0, &f.err), WEFT_OK);
    weft_graph_config config = {.ops = &f.ops,
                                .dtype = WEFT_F32,
                                .sizes = {ROWS, SEQ, MICROS, 0},
                                .fields = twins,
                                .fields_by = "pictures"};
    assert_int_equal(weft_graph_create(&config, &f.g, &f.err), WEFT_OK);
    weft_graph_dim(f.g, "wide", WIDE, 1);
    for (int i = 0; i < 3; i++)
        assert_true(!weft_add_input(f.g, names[i]) == (i == 2));
    const char *why = weft_error_text(weft_graph_error(f.g));
    assert_non_null(strstr(why, "plugin pictures have two fields called 'twin', (batch wide) and "
                                "(batch)"));
    end(&f);
}

/* Integers that a model takes for real numbers would make integers of all that follows. */
static void integers_are_not_multiplied(void **state)
{
    (void)state;
    static const weft_field counts[] = {
        {.name = "counts", .shape = "batch wide", .dtype = WEFT_I32}, {.name = NULL}};
    fixture f = {0};
    assert_int_equal(standard_ops_init(&f.ops, NULL, NULL, 0, &f.err), WEFT_OK);
    weft_graph_config config = {
        .ops = &f.ops, .dtype = WEFT_F32, .sizes = {ROWS, SEQ, MICROS, 0}, .fields = counts};
    assert_int_equal(weft_graph_create(&config, &f.g, &f.err), WEFT_OK);
    weft_graph_dim(f.g, "wide", WIDE, 1);
    weft_graph_dim(f.g, "high", HIGH, 1);
    weft_value *w = weft_add_parameter(f.g, "w", "high wide", (weft_init){WEFT_INIT_ONE, 0, 0});
    assert_null(weft_linear(f.g, NULL, weft_add_input(f.g, "counts"), w));
    assert_non_null(strstr(weft_error_text(weft_graph_error(f.g)), "counts has integers"));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_further_on),           cmocka_unit_test(wrong_names),
        cmocka_unit_test(fields_of_any_shape),         cmocka_unit_test(fields_that_are_none),
        cmocka_unit_test(integers_are_not_multiplied), cmocka_unit_test(two_fields_of_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
