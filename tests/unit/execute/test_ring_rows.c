/* SPDX-License-Identifier: Apache-2.0 */
/* A ring over 8 ranks on sampled rows: what attention gives for a query, and the gradients of the
 * query, of a key and of a value, against plain attention in f64 over all places of what the run
 * itself has dumped as q, k, v and the gradient of the output. A short sequence; with WEFT_LONG one
 * of 131,072 places. */
#include "../../lib/read_safetensors.h"

#include <weft/random.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { DIM = 16, HEAD = 8, FFN = 16, VOCAB = 50, RANKS = 8, RANDOM_ROWS = 16, WEIGHTS = 12 };

typedef enum what { Q, K, V, O, DQ, DK, DV, DO, PARTS } what;
static const char *const names[PARTS] = {"b0.q_rot@0",  "b0.k_rot@0",  "b0.v@0",  "b0.o@0",
                                         "b0.q_rot'@0", "b0.k_rot'@0", "b0.v'@0", "b0.o'@0"};

/* One head. */
typedef struct attention {
    int64_t seq;
    float *part[PARTS]; /* [seq, HEAD], in the order of the sample */
    double *sum;        /* [seq]: of a query's exponentials, from most[] on */
    double *most;
} attention;

static char dir[] = "/tmp/weft-rows-XXXXXX";

static void *need(void *memory)
{
    assert_non_null(memory);
    return memory;
}

/* ---- the run ---- */

static void write_file(const char *name, const char *text)
{
    weft_error err = {0};
    char *path = need(weft_format("%s/%s", dir, name));
    if (weft_write_file(path, text, strlen(text), &err))
        fail_msg("%s", weft_error_text(&err));
    weft_free(path);
}

/* Larger than initial weights are, so that attention is not almost a mean. */
static void write_weights(void)
{
    static const struct {
        const char *name;
        int rows, columns; /* columns 0: a vector of ones */
    } tensors[WEIGHTS] = {{"lm_head.weight", VOCAB, DIM},
                          {"model.embed_tokens.weight", VOCAB, DIM},
                          {"model.layers.0.input_layernorm.weight", DIM, 0},
                          {"model.layers.0.mlp.down_proj.weight", DIM, FFN},
                          {"model.layers.0.mlp.gate_proj.weight", FFN, DIM},
                          {"model.layers.0.mlp.up_proj.weight", FFN, DIM},
                          {"model.layers.0.post_attention_layernorm.weight", DIM, 0},
                          {"model.layers.0.self_attn.k_proj.weight", HEAD, DIM},
                          {"model.layers.0.self_attn.o_proj.weight", DIM, HEAD},
                          {"model.layers.0.self_attn.q_proj.weight", HEAD, DIM},
                          {"model.layers.0.self_attn.v_proj.weight", HEAD, DIM},
                          {"model.norm.weight", DIM, 0}};
    static float numbers[WEIGHTS][VOCAB * DIM];
    weft_safetensor list[WEIGHTS];
    weft_error err = {0};
    for (int i = 0; i < WEIGHTS; i++) {
        int n = tensors[i].rows * (tensors[i].columns ? tensors[i].columns : 1);
        for (int k = 0; k < n; k++)
            numbers[i][k] =
                tensors[i].columns
                    ? (float)(weft_random_bits(1, (uint64_t)i, (uint64_t)k) % 2001) / 1000 - 1
                    : 1;
        list[i] = (weft_safetensor){.name = tensors[i].name,
                                    .dtype = WEFT_F32,
                                    .n_dims = tensors[i].columns ? 2 : 1,
                                    .size = {tensors[i].rows, tensors[i].columns},
                                    .data = numbers[i]};
    }
    char *path = need(weft_format("%s/model.safetensors", dir));
    if (weft_write_safetensors(path, list, WEIGHTS, NULL, &err))
        fail_msg("%s", weft_error_text(&err));
    weft_free(path);
    write_file("config.json",
               "{\"model_type\": \"llama\", \"hidden_act\": \"silu\", \"hidden_size\": 16, "
               "\"intermediate_size\": 16, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, "
               "\"head_dim\": 8, \"num_hidden_layers\": 1, \"vocab_size\": 50, \"rms_norm_eps\": "
               "1e-05, \"rope_theta\": 500000.0, \"tie_word_embeddings\": false}\n");
}

static void train(int64_t seq)
{
    const char *weft = getenv("WEFT"), *fixtures = getenv("WEFT_TEST_FIXTURES");
    assert_non_null(weft);
    assert_non_null(fixtures);
    char *ini = need(weft_format(
        "[weft]\nplugins = llama3 given hf cpu local cp adamw dump\ndir = run\nthreads = 1\n"
        "plugin_path = %s/../run\n[train]\nsteps = 1\nseq_len = %lld\nglobal_batch = 1\n[hf]\nload "
        "= .\n[cp]\ndegree = %d\nattention = ring\n[dump]\nwhat = gradients\nvalues = b0.q_rot "
        "b0.k_rot b0.v b0.o b0.q_rot' b0.k_rot' b0.v' b0.o'\n[llama3]\ndim = %d\nn_layers = 1\n"
        "n_heads = 1\nn_kv_heads = 1\nhead_dim = %d\nffn_dim = %d\nvocab_size = %d\n",
        fixtures, (long long)seq, RANKS, DIM, HEAD, FFN, VOCAB));
    write_file("run.ini", ini);
    char *command =
        need(weft_format("cd %s && rm -rf run && HOME=%s timeout -k 5 850 %s train run.ini -n %d "
                         ">out 2>&1 || { cat out; exit 1; }",
                         dir, dir, weft, RANKS));
    if (system(command))
        fail_msg("the run failed"); /* as it does if its loss is not finite */
    weft_free(ini);
    weft_free(command);
}

/* ---- what it dumped ---- */

/* A rank's piece of a value goes where the file says that it lies. */
static int64_t take_piece(attention *a, what p, const safetensors *file, const char *name)
{
    const weft_safetensor *t = safetensors_find(file, name);
    if (!t)
        return 0;
    char *key = need(weft_format("part:%s", name));
    const char *where = safetensors_metadata(file, key);
    long long first, seq;
    if (!where || sscanf(where, "0,%lld,0 of 1,%lld,8", &first, &seq) != 2 || seq != a->seq)
        fail_msg("%s lies at %s", name, where ? where : "no place");
    for (int64_t i = 0; i < safetensor_count(t); i++)
        a->part[p][first * HEAD + i] = (float)safetensor_get(t, i);
    weft_free(key);
    return t->size[1];
}

static void read_dump(attention *a)
{
    int64_t rows[PARTS] = {0};
    for (int r = 0; r < RANKS; r++) {
        char *path = need(weft_format("%s/run/dump/step-1/values-rank-%d.safetensors", dir, r));
        safetensors *file = NULL;
        weft_error err = {0};
        if (safetensors_read(path, &file, &err))
            fail_msg("%s", weft_error_text(&err));
        for (what p = 0; p < PARTS; p++) {
            char *second = need(weft_format("%s#1", names[p]));
            rows[p] += take_piece(a, p, file, names[p]) + take_piece(a, p, file, second);
            weft_free(second);
        }
        safetensors_destroy(file);
        weft_free(path);
    }
    for (what p = 0; p < PARTS; p++)
        assert_int_equal(rows[p], a->seq);
}

/* ---- plain attention ---- */

static const float *row(const attention *a, what p, int64_t i)
{
    return a->part[p] + i * HEAD;
}

static double dot(const float *x, const float *y)
{
    double sum = 0;
    for (int c = 0; c < HEAD; c++)
        sum += (double)x[c] * y[c];
    return sum;
}

static double score(const attention *a, int64_t query, int64_t key)
{
    return dot(row(a, Q, query), row(a, K, key)) / sqrt(HEAD);
}

static void find_sum(attention *a, int64_t i)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= i; j++)
        most = fmax(most, score(a, i, j));
    for (int64_t j = 0; j <= i; j++)
        sum += exp(score(a, i, j) - most);
    a->most[i] = most;
    a->sum[i] = sum;
}

static double weight(const attention *a, int64_t query, int64_t key)
{
    return exp(score(a, query, key) - a->most[query]) / a->sum[query];
}

static void expect_row(const attention *a, what p, int64_t i, const double *want, double size)
{
    double off = 0, norm = 0;
    for (int c = 0; c < HEAD; c++) {
        off += pow(row(a, p, i)[c] - want[c], 2);
        norm += want[c] * want[c];
    }
    if (!(sqrt(off) <= 1e-4 * sqrt(norm) + 1e-6 * size))
        fail_msg("%s of place %lld of %lld is off by %.3g of its norm, %.3g", names[p],
                 (long long)i, (long long)a->seq, sqrt(off / norm), sqrt(norm));
}

/* What rows are like: the root of the mean of their squares. */
static double size_of(const attention *a, what p)
{
    double sum = 0;
    for (int64_t i = 0; i < a->seq; i++)
        sum += dot(row(a, p, i), row(a, p, i));
    return sqrt(sum / (double)a->seq);
}

static void check_query(attention *a, int64_t i)
{
    double out[HEAD] = {0}, dq[HEAD] = {0};
    find_sum(a, i);
    double delta = dot(row(a, DO, i), row(a, O, i));
    for (int64_t j = 0; j <= i; j++) {
        double p = weight(a, i, j), ds = p * (dot(row(a, DO, i), row(a, V, j)) - delta);
        for (int c = 0; c < HEAD; c++) {
            out[c] += p * row(a, V, j)[c];
            dq[c] += ds * row(a, K, j)[c] / sqrt(HEAD);
        }
    }
    expect_row(a, O, i, out, size_of(a, O));
    expect_row(a, DQ, i, dq, size_of(a, DQ));
}

/* Needs the sums of all queries behind it. */
static void check_key(attention *a, int64_t j)
{
    double dk[HEAD] = {0}, dv[HEAD] = {0};
    for (int64_t i = j; i < a->seq; i++) {
        double delta = dot(row(a, DO, i), row(a, O, i)), p = weight(a, i, j),
               ds = p * (dot(row(a, DO, i), row(a, V, j)) - delta);
        for (int c = 0; c < HEAD; c++) {
            dv[c] += p * row(a, DO, i)[c];
            dk[c] += ds * row(a, Q, i)[c] / sqrt(HEAD);
        }
    }
    expect_row(a, DK, j, dk, size_of(a, DK));
    expect_row(a, DV, j, dv, size_of(a, DV));
}

/* ---- tests ---- */

/* The edges of the pieces of the order, and some others, from a place on. */
static void check_rows(attention *a, void (*check)(attention *, int64_t), int64_t first)
{
    int64_t chunk = a->seq / (2 * RANKS);
    for (int c = 0; c < 2 * RANKS; c++)
        for (int64_t i = c * chunk - 1; i <= c * chunk; i++)
            if (i >= first)
                check(a, i);
    check(a, a->seq - 1);
    for (int r = 0; r < RANDOM_ROWS; r++)
        check(a, a->seq - 1 -
                     (int64_t)(weft_random_bits(2, 0, (uint64_t)r) % (uint64_t)(a->seq - first)));
}

/* keys: those from there on are sampled, since each needs the sums of all queries behind it. */
static void check_ring(int64_t seq, int64_t keys)
{
    attention a = {.seq = seq};
    train(seq);
    for (what p = 0; p < PARTS; p++)
        a.part[p] = need(calloc((size_t)seq * HEAD, sizeof(float)));
    a.sum = need(calloc((size_t)seq, sizeof *a.sum));
    a.most = need(calloc((size_t)seq, sizeof *a.most));
    read_dump(&a);
    check_rows(&a, check_query, 0);
    for (int64_t i = keys; i < seq; i++)
        find_sum(&a, i);
    check_rows(&a, check_key, keys);
    for (what p = 0; p < PARTS; p++)
        free(a.part[p]);
    free(a.sum);
    free(a.most);
}

static void a_short_sequence(void **state)
{
    (void)state;
    check_ring(1008, 0);
}

static void a_long_sequence(void **state)
{
    (void)state;
    check_ring(131072, 131072 - 2048);
}

static int start(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    write_weights();
    return 0;
}

static int end(void **state)
{
    char *command = weft_format("rm -rf %s", dir);
    (void)state;
    int code = command ? system(command) : -1;
    weft_free(command);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_sequence),
    };
    const struct CMUnitTest longer[] = {
        cmocka_unit_test(a_short_sequence),
        cmocka_unit_test(a_long_sequence),
    };
    const char *wanted = getenv("WEFT_LONG");
    return wanted && *wanted ? cmocka_run_group_tests(longer, start, end)
                             : cmocka_run_group_tests(tests, start, end);
}
