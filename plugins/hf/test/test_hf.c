/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that Transformers saved (tests/golden/hf): the logits are its, parts are read as parts,
 * and there and back is the same to the byte. */
#include "../../../tests/lib/model_run.h"
#include "../hf.h"

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const char *const cases[] = {"llama", "llama_tied", "gpt2", "qwen3", "qwen3_moe", "mixtral",
                                    "deepseek3",
                                    /* experts of a block in one tensor, which is only read */
                                    "qwen3_moe_stacked", "mixtral_stacked", "deepseek3_stacked"};
enum { CASES = sizeof cases / sizeof cases[0], WRITTEN = CASES - 3 };

/* ---- the models' tables ---- */

static weft_search *search;

static weft_status find_plugin(void *self, const char *name, const weft_plugin **out,
                               weft_error *err)
{
    weft_module module;
    (void)self;
    weft_status s = weft_module_open(search, name, WEFT_NOWHERE, &module, err);
    *out = s ? NULL : module.plugin;
    return s;
}

static const weft_finder finder = {NULL, find_plugin};
static const hf_tables tables = {.plugins = &finder};

static int open_search(void **state)
{
    weft_error err = {0};
    (void)state;
    return weft_search_create(NULL, &search, &err) != WEFT_OK;
}

static int close_search(void **state)
{
    (void)state;
    weft_search_destroy(search);
    return 0;
}

static char *golden_folder(const char *name)
{
    const char *tree = getenv("WEFT_TREE");
    char *path = weft_format("%s/tests/golden/hf/%s", tree ? tree : ".", name);
    assert_non_null(path);
    return path;
}

static void check(weft_status s, const weft_error *err)
{
    for (int i = 0; i < err->n_items; i++)
        print_message("  %s\n", err->items[i].text);
    assert_int_equal(s, WEFT_OK);
}

/* ---- a scratch folder ---- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int enter(void **state)
{
    char *folder = strdup("/tmp/weft-hf-XXXXXX");
    *state = folder;
    return !folder || !mkdtemp(folder) || chdir(folder);
}

static int leave(void **state)
{
    int rc = chdir("/") || nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return rc;
}

/* ---- weft convert ---- */

static void drop_line(void *self, weft_log_level level, const char *line)
{
    (void)self, (void)level, (void)line;
}

static weft_status keep_text(const weft_command_host *host, const void *data, size_t n,
                             weft_error *err)
{
    (void)err;
    weft_text_add_bytes(host->log->self, data, n);
    return WEFT_OK;
}

static weft_status convert(weft_text *out, weft_error *err, const char *const *words)
{
    const weft_log log = {drop_line, out};
    const weft_command_host host = {
        .log = &log, .threads = 1, .write = keep_text, .plugins = &finder};
    char *argv[16] = {(char *)(uintptr_t) "convert"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    return hf_convert.run(&host, argc, argv, err);
}

#define CONVERT(...)                                                                               \
    do {                                                                                           \
        weft_error err_ = {0};                                                                     \
        check(convert(NULL, &err_, (const char *const[]){__VA_ARGS__, NULL}), &err_);              \
        weft_error_release(&err_);                                                                 \
    } while (0)

/* ---- logits ---- */

/* As a run does it, but for a store. */
static void load_weights(model_run *m)
{
    weft_state_tensor *tensors;
    weft_state_view view;
    weft_error err = {0};
    bool loaded = false;
    void *self;
    const weft_weights *weights = weft_plugins_service(m->plugins, "weights", &self);
    assert_non_null(weights);
    check(weft_run_state(m->run, NULL, &view, &tensors, &err), &err);
    check(weights->load(self, &view, &loaded, &err), &err);
    assert_true(loaded);
    weft_free(tensors);
}

static void compare_logits(const char *name, const char *load, const char *rest, double bound)
{
    char *folder = golden_folder(name), *file = weft_format("%s/expected.safetensors", folder);
    safetensors *expected;
    hf_model model;
    weft_error err = {0};
    weft_text ini = {0};
    model_run m;
    check(safetensors_read(file, &expected, &err), &err);
    check(hf_config_read(folder, &tables, &model, &err), &err);
    const weft_safetensor *ids = safetensors_find(expected, "ids"),
                          *want = safetensors_find(expected, "logits");
    int64_t seq = ids->size[1], vocab = want->size[2];
    weft_text_print(&ini,
                    "threads = 1\n[train]\nsteps = 1\nseq_len = %d\nglobal_batch = "
                    "2\n%s[sample]\ncontext = %d\n[hf]\nload = %s\n",
                    (int)seq, rest, (int)seq, load ? load : folder);
    hf_settings_section(&model, &ini);
    char *plugins = weft_format("cpu %s %s sample hf adamw",
                                model.form->with ? model.form->with : "", model.table->plugin);
    model_run_start(&m, plugins, weft_text_get(&ini));
    load_weights(&m);
    model_run_feed(&m, &(model_samples){.ids = ids->data, .samples = ids->size[0]});
    for (int64_t i = 0; i < ids->size[0] * seq; i++) {
        model_numbers got = model_run_logits(&m, i / seq, i % seq);
        double difference = 0, size = 0;
        assert_int_equal(got.n, vocab);
        for (int64_t v = 0; v < vocab; v++) {
            double y = safetensor_get(want, i * vocab + v);
            difference += (got.list[v] - y) * (got.list[v] - y);
            size += y * y;
        }
        if (!(sqrt(difference) <= bound * sqrt(size)))
            fail_msg("%s: logits at %d are off by %.3g of their norm", name, (int)i,
                     sqrt(difference / size));
    }
    model_run_release(&m);
    weft_free(plugins);
    weft_text_release(&ini);
    hf_model_release(&model);
    safetensors_destroy(expected);
    weft_free(file);
    weft_free(folder);
}

static void logits_are_those_of_transformers(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        compare_logits(cases[c], NULL, "dtype = f64\n[cpu]\nkernels = plain\n", 0x1p-24);
        compare_logits(cases[c], NULL, "", 5e-6);
    }
}

/* What was converted there and back gives the same logits, and config.json says the same model. */
static void logits_survive_conversion(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        char *from = golden_folder(cases[c]);
        char there[64], back[64];
        snprintf(there, sizeof there, "%s.weft", cases[c]);
        snprintf(back, sizeof back, "%s.hf", cases[c]);
        CONVERT(from, there);
        CONVERT(there, back);
        compare_logits(cases[c], back, "dtype = f64\n[cpu]\nkernels = plain\n", 0x1p-24);
        weft_free(from);
    }
}

/* ---- bytes ---- */

static void open_folder(const char *path, weft_folder **folder)
{
    weft_error err = {0};
    hf_source v;
    check(hf_folder_open(&v, path, &tables, HF_EXTRA_REFUSE, &err), &err);
    *folder = v.folder;
    v.folder = NULL;
    hf_source_close(&v);
}

static void *read_whole(weft_folder *folder, const weft_stored *t, weft_dtype dtype, size_t *bytes)
{
    const int64_t lo[WEFT_MAX_DIMS] = {0};
    weft_error err = {0};
    *bytes = weft_dtype_size(dtype);
    for (int d = 0; d < t->n_dims; d++)
        *bytes *= (size_t)t->size[d];
    void *data = weft_alloc(*bytes);
    assert_non_null(data);
    check(weft_folder_read(folder, t->name, lo, t->size, dtype, data, &err), &err);
    return data;
}

static void assert_same_tensors(const char *a, const char *b)
{
    weft_folder *x, *y;
    open_folder(a, &x);
    open_folder(b, &y);
    assert_int_equal(weft_folder_count(x), weft_folder_count(y));
    for (int i = 0; i < weft_folder_count(x); i++) {
        const weft_stored *s = weft_folder_get(x, i), *t = weft_folder_get(y, i);
        size_t m, n;
        assert_string_equal(s->name, t->name);
        assert_string_equal(s->type, t->type);
        void *p = read_whole(x, s, s->dtype, &m), *q = read_whole(y, t, t->dtype, &n);
        assert_int_equal(m, n);
        assert_memory_equal(p, q, n);
        weft_free(p);
        weft_free(q);
    }
    weft_folder_destroy(x);
    weft_folder_destroy(y);
}

static void there_and_back_is_the_same(void **state)
{
    (void)state;
    for (int c = 0; c < WRITTEN; c++) {
        char *from = golden_folder(cases[c]);
        CONVERT(from, "there", "--force", "--max-shard-size", "3KB");
        CONVERT("there", "back", "--force", "--max-shard-size=9kb");
        assert_same_tensors(from, "back");
        CONVERT(from, "half", "--force", "--dtype", "bf16");
        CONVERT("half", "half.hf", "--force");
        CONVERT("half.hf", "half", "--force");
        CONVERT("half", "half2.hf", "--force");
        assert_same_tensors("half.hf", "half2.hf");
        weft_free(from);
    }
}

static void companions_go_along(void **state)
{
    (void)state;
    char *from = golden_folder("gpt2");
    weft_error err = {0};
    char *a, *b;
    size_t m, n;
    CONVERT(from, "there", "--force");
    check(weft_write_file("there/tokenizer.json", "{}\n", 3, &err), &err);
    CONVERT("there", "back", "--force");
    char *original = weft_format("%s/generation_config.json", from);
    check(weft_read_file(original, &a, &m, &err), &err);
    check(weft_read_file("back/generation_config.json", &b, &n, &err), &err);
    assert_int_equal(m, n);
    assert_memory_equal(a, b, n);
    assert_int_equal(access("back/tokenizer.json", R_OK), 0);
    weft_free(a);
    weft_free(b);
    weft_free(original);
    weft_free(from);
}

/* ---- parts ---- */

/* Numbers of a box [lo, lo + size) of a tensor of up to three dims, seen as three. */
static void compare_box(const hf_source *v, const hf_tensor *t, const int64_t lo[3],
                        const int64_t size[3], const int64_t whole_size[3], const float *whole)
{
    const int skip = 3 - t->n_dims;
    float *part = weft_alloc((size_t)(size[0] * size[1] * size[2]) * sizeof *part);
    weft_error err = {0};
    assert_non_null(part);
    check(hf_source_read(v, t, lo + skip, size + skip, WEFT_F32, part, &err), &err);
    for (int64_t k = 0; k < size[0] * size[1] * size[2]; k++) {
        const int64_t e = k / size[2] / size[1], r = k / size[2] % size[1], c = k % size[2];
        if (part[k] != whole[((lo[0] + e) * whole_size[1] + lo[1] + r) * whole_size[2] + lo[2] + c])
            fail_msg("%s: element %d of a part differs from the whole", t->name, (int)k);
    }
    weft_free(part);
}

static void parts_are_parts_of_the_whole(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        char *folder = golden_folder(cases[c]);
        weft_error err = {0};
        hf_source v;
        check(hf_folder_open(&v, folder, &tables, HF_EXTRA_REFUSE, &err), &err);
        for (int i = 0; i < v.map.n; i++) {
            const hf_tensor *t = &v.map.list[i];
            int64_t n[3] = {1, 1, 1}, zero[3] = {0}, lo[3], size[3];
            for (int d = 0; d < t->n_dims; d++)
                n[3 - t->n_dims + d] = t->size[d];
            float *whole = weft_alloc((size_t)(n[0] * n[1] * n[2]) * sizeof *whole);
            assert_non_null(whole);
            check(hf_source_read(&v, t, zero, t->size, WEFT_F32, whole, &err), &err);
            for (int d = 0; d < 3; d++) {
                lo[d] = n[d] / 2;
                size[d] = n[d] - lo[d];
            }
            compare_box(&v, t, lo, size, n, whole);
            for (int d = 0; d < 3; d++) {
                lo[d] = n[d] / 3;
                size[d] = n[d] > 1 ? n[d] / 2 : 1;
            }
            compare_box(&v, t, lo, size, n, whole);
            weft_free(whole);
        }
        hf_source_close(&v);
        weft_free(folder);
    }
}

/* A rank that holds half of the rows reads half of the bytes. */
static void parts_read_no_more(void **state)
{
    (void)state;
    char *folder = golden_folder("llama");
    weft_error err = {0};
    hf_source v;
    float part[64 * 64];
    check(hf_folder_open(&v, folder, &tables, HF_EXTRA_REFUSE, &err), &err);
    for (int i = 0; i < v.map.n; i++) {
        const hf_tensor *t = &v.map.list[i];
        int64_t half = t->size[0] / 2, before = weft_folder_bytes_read(v.folder),
                columns = t->n_dims > 1 ? t->size[1] : 1;
        check(hf_source_read(&v, t, (int64_t[]){half, 0}, (int64_t[]){half, columns}, WEFT_F32,
                             part, &err),
              &err);
        assert_int_equal(weft_folder_bytes_read(v.folder) - before, half * columns * 4);
    }
    hf_source_close(&v);
    weft_free(folder);
}

/* ---- memory that runs out ---- */

/* Whichever allocation fails, the conversion fails, says so and leaves nothing (but for the log's
 * last lines, without which it is whole). Returns how many there were. */
static long fail_each(const char *from, const char *to)
{
    int finished = 0;
    for (long n = 1;; n++) {
        weft_error err = {0};
        weft_alloc_fail_at(n);
        weft_status s = convert(NULL, &err, (const char *const[]){from, to, NULL});
        long made = weft_alloc_count();
        weft_alloc_fail_at(0);
        if (made < n) {
            check(s, &err);
            assert_true(finished <= 2);
            return made;
        }
        assert_true(!s || err.n_items > 0 || err.out_of_memory);
        weft_error_release(&err);
        assert_int_equal(access(to, F_OK) == 0, !s);
        finished += !s;
        if (!s)
            check(weft_io_remove_tree(weft_io_system(), to, &err), &err);
        char *partial = weft_format("%s.partial", to);
        assert_non_null(partial);
        assert_int_not_equal(access(partial, F_OK), 0);
        weft_free(partial);
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    char *from = golden_folder("gpt2");
    assert_true(fail_each(from, "there") > 50);
    assert_true(fail_each("there", "back") > 50);
    weft_free(from);
}

/* ---- names ---- */

/* A copy of a folder whose tensors lack the first word of their names, as files of the bare model
 * do, with tensors that are no parameters. */
static void write_bare(const char *from, const char *prefix, const char *const *extra)
{
    weft_error err = {0};
    weft_folder *folder;
    weft_shard *shard;
    weft_sums sums;
    weft_piece pieces[64];
    float nothing[4] = {0};
    int n = 0;
    open_folder(from, &folder);
    for (; n < weft_folder_count(folder); n++) {
        const weft_stored *t = weft_folder_get(folder, n);
        size_t skip = strncmp(t->name, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
        pieces[n] = (weft_piece){.name = t->name + skip, .dtype = t->dtype, .n_dims = t->n_dims};
        memcpy(pieces[n].whole, t->size, sizeof t->size);
        memcpy(pieces[n].size, t->size, sizeof t->size);
    }
    for (int i = 0; extra[i]; i++)
        pieces[n++] = (weft_piece){
            .name = extra[i], .dtype = WEFT_F32, .n_dims = 1, .whole = {4}, .size = {4}};
    mkdir("bare", 0755);
    unlink("bare/model.safetensors");
    check(weft_shard_create(weft_io_system(), "bare/model.safetensors", pieces, n, false, NULL,
                            &shard, &err),
          &err);
    for (int i = 0; i < n; i++) {
        size_t bytes = sizeof nothing;
        void *data = i < weft_folder_count(folder)
                         ? read_whole(folder, weft_folder_get(folder, i), WEFT_F32, &bytes)
                         : NULL;
        check(weft_shard_write(shard, i, 0, data ? data : nothing, (int64_t)bytes, &err), &err);
        weft_free(data);
    }
    check(weft_shard_finish(shard, &sums, &err), &err);
    weft_sums_release(&sums);
    weft_shard_destroy(shard);
    weft_folder_destroy(folder);
    char *path = weft_format("%s/config.json", from), *text;
    size_t size;
    check(weft_read_file(path, &text, &size, &err), &err);
    check(weft_write_file("bare/config.json", text, size, &err), &err);
    weft_free(text);
    weft_free(path);
}

static void names_of_bare_models(void **state)
{
    (void)state;
    static const struct {
        const char *name, *prefix;
        const char *extra[4];
    } list[] = {{"gpt2", "transformer.", {"h.0.attn.bias", "h.1.attn.masked_bias", NULL}},
                {"llama", "model.", {"layers.0.self_attn.rotary_emb.inv_freq", NULL}}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        char *from = golden_folder(list[i].name);
        write_bare(from, list[i].prefix, list[i].extra);
        compare_logits(list[i].name, "bare", "dtype = f64\n[cpu]\nkernels = plain\n", 0x1p-24);
        weft_free(from);
    }
}

/* ---- config.json ---- */

#define LLAMA                                                                                      \
    "\"model_type\": \"llama\", \"hidden_size\": 16, \"num_hidden_layers\": 2, "                   \
    "\"num_attention_heads\": 4, \"intermediate_size\": 26, "                                      \
    "\"vocab_size\": 50"
#define GPT2 "\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 4, \"n_layer\": 2"

static weft_status read_config(const char *members, hf_model *m, weft_error *err)
{
    weft_error written = {0};
    char *text = weft_format("{%s}", members);
    assert_non_null(text);
    mkdir("m", 0755);
    check(weft_write_file("m/config.json", text, strlen(text), &written), &written);
    weft_free(text);
    return hf_config_read("m", &tables, m, err);
}

static void both_spellings_of_rope(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        double theta;
        bool scaling;
    } list[] = {
        {LLAMA, 10000, false},
        {LLAMA ", \"rope_theta\": 5e5, \"rope_scaling\": null", 5e5, false},
        {LLAMA ", \"rope_parameters\": {\"rope_theta\": 500000, \"rope_type\": \"default\"}", 5e5,
         false},
        {LLAMA ", \"rope_theta\": 5e5, \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 32, "
               "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
               "\"original_max_position_embeddings\": 8192}",
         5e5, true},
        {LLAMA ", \"rope_parameters\": {\"rope_theta\": 5e5, \"rope_type\": \"llama3\", "
               "\"factor\": 32.0, \"low_freq_factor\": 1.0, "
               "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}",
         5e5, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        hf_model m;
        weft_error err = {0};
        check(read_config(list[i].members, &m, &err), &err);
        assert_true(hf_model_int(&m, "rope_theta") == (int64_t)list[i].theta);
        assert_int_equal(hf_model_int(&m, "rope_scaling"), list[i].scaling);
        assert_true(!list[i].scaling ||
                    (hf_model_int(&m, "rope_factor") == 32 && hf_model_int(&m, "rope_low") == 1 &&
                     hf_model_int(&m, "rope_high") == 4 &&
                     hf_model_int(&m, "rope_original") == 8192));
        assert_int_equal(hf_model_int(&m, "head_dim"), 4);
        assert_int_equal(hf_model_int(&m, "n_kv_heads"), 4);
        hf_model_release(&m);
    }
}

static void what_changes_numbers_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *members, *says;
    } list[] = {
        {LLAMA ", \"attention_bias\": true", "'attention_bias' is true"},
        {LLAMA ", \"mlp_bias\": true", "'mlp_bias' is true"},
        {LLAMA ", \"hidden_act\": \"gelu\"", "'hidden_act' is 'gelu'; weft has silu"},
        {LLAMA ", \"quantization_config\": {\"bits\": 4}", "'quantization_config' is {\"bits\":4}"},
        {LLAMA ", \"sliding_window\": 4096", "'sliding_window' is 4096"},
        {LLAMA ", \"partial_rotary_factor\": 0.5",
         "'partial_rotary_factor' is 0.5; weft has 1 alone"},
        {LLAMA ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "'layer_types' has 'sliding_attention'"},
        {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}", "type 'linear'"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2}", "type 'yarn'"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 2}",
         "'low_freq_factor' is missing"},
        {LLAMA ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}",
         "differ between layers"},
        {LLAMA ", \"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": 500000}",
         "'rope_theta' is 10000, but 500000"},
        {LLAMA ", \"rope_parameters\": [1]", "'rope_parameters' is an array; expected an object"},
        {LLAMA ", \"rms_norm_eps\": \"small\"", "'rms_norm_eps' is a string; expected a number"},
        {LLAMA ", \"num_key_value_heads\": 3", "'num_key_value_heads' 3 does not divide"},
        {LLAMA ", \"head_dim\": 5", "rotary positions need an even width"},
        {LLAMA ", \"tie_word_embeddings\": 1",
         "'tie_word_embeddings' is a number; expected true or false"},
        {LLAMA ", \"architectures\": [\"LlamaForSequenceClassification\"]",
         "'architectures' is 'LlamaForSequenceClassification'"},
        {GPT2 ", \"activation_function\": \"gelu\"",
         "'activation_function' is 'gelu'; weft has gelu_new"},
        {GPT2 ", \"scale_attn_weights\": false", "'scale_attn_weights' is false; weft has 1 alone"},
        {GPT2 ", \"scale_attn_by_inverse_layer_idx\": true",
         "'scale_attn_by_inverse_layer_idx' is true"},
        {GPT2 ", \"n_positions\": 0", "'n_positions' is 0; expected 1 to"},
        {"\"model_type\": \"mistral\"", "'model_type' is 'mistral'; weft has no such model"},
        {"\"hidden_size\": 16", "'model_type' is missing"},
        {"\"model_type\": \"llama\"", "'intermediate_size' is missing"},
        {"\"model_type\" \"llama\"", "is not JSON"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        hf_model m;
        weft_error err = {0};
        bool said = false;
        assert_int_equal(read_config(list[i].members, &m, &err), WEFT_ERR_INPUT);
        for (int k = 0; k < err.n_items; k++)
            said = said || strstr(err.items[k].text, list[i].says);
        if (!said)
            fail_msg("'%s' is not said, but: %s", list[i].says, weft_error_text(&err));
        weft_error_release(&err);
        hf_model_release(&m);
    }
}

/* ---- tables with mistakes ---- */

static const weft_param toy_params[] = {
    {.name = "dim", .type = WEFT_PARAM_INT, .value = "4", .min = 1, .max = 64, .help = "."},
    {.name = "n_layers", .type = WEFT_PARAM_INT, .value = "2", .min = 1, .max = 64, .help = "."},
    {.name = NULL}};
static const weft_hf_key toy_keys[] = {{"hidden_size", .key = "dim"}, {0}},
                         unknown_key[] = {{"hidden_size", .key = "width"}, {0}},
                         empty_key[] = {{.name = "hidden_size"}, {0}};

static weft_status find_toy(void *self, const char *name, const weft_plugin **out, weft_error *err)
{
    (void)name, (void)err;
    *out = self;
    return WEFT_OK;
}

static weft_status read_toy(const weft_hf_form *form, weft_error *err)
{
    const weft_hf_form *forms[] = {form, NULL};
    const weft_hf_model table = {sizeof table, "toy", toy_params, forms};
    const weft_contribution contributions[] = {
        {.kind = WEFT_SERVICE, .service = "hf_model", .table = &table}, {.kind = WEFT_END}};
    weft_plugin plugin = {.contributions = contributions};
    const weft_finder toys = {&plugin, find_toy};
    const hf_tables its = {.plugins = &toys};
    weft_error written = {0};
    static const char text[] = "{\"model_type\": \"toy\", \"hidden_size\": 8}";
    hf_model m;
    hf_map map = {0};
    mkdir("m", 0755);
    check(weft_write_file("m/config.json", text, strlen(text), &written), &written);
    weft_status s = hf_config_read("m", &its, &m, err);
    s = s ? s : hf_map_create(&m, &map, err);
    hf_map_release(&map);
    hf_model_release(&m);
    return s;
}

static void mistakes_of_tables_are_named(void **state)
{
    (void)state;
    static const struct {
        weft_hf_tensor tensors[4];
        const weft_hf_key *keys;
        const char *says;
    } list[] = {
        {{{"a", .shape = "dim"}, {"b.{l}", .shape = "dim 2*dim"}, {0}}, toy_keys, NULL},
        {{{"a", .shape = "dim width"}, {0}},
         toy_keys,
         "plugin 'toy', its table for Hugging Face (toy): 'a' is [dim width], but 'width' is"},
        {{{"a", .shape = "dim"}, {"a", .shape = "dim dim"}, {0}},
         toy_keys,
         "one parameter stands there twice: 'a' [8] and 'a' [8, 8]"},
        {{{"a", "dim", .file = "x"}, {"b", "dim dim", .file = "x"}, {0}},
         toy_keys,
         "two parameters lie in one tensor: 'a' [8] and 'b' [8, 8]"},
        {{{"a", "dim", .file = "x", .part = 1, .parts = 2},
          {"b", "dim", .file = "x", .parts = 2},
          {0}},
         toy_keys,
         "'a' is part 1 of 2 of 'x' along dim 0"},
        {{{"a", "dim", .file = "x", .parts = 2}, {"b", .shape = "dim"}, {0}},
         toy_keys,
         "'a' is part 0 of 2"},
        {{{"a", "dim", .turned = true}, {0}}, toy_keys, "only what has two dims"},
        {{{"a", "dim", .file = "x{x}"}, {0}}, toy_keys, "'a' is [dim], 1 dims"},
        {{{"a", "dim", .unless = "tied"}, {0}}, toy_keys, "'a' speaks of 'tied'"},
        {{{"a.{l}", "dim", .file = "a"}, {0}}, toy_keys, "one is of each block"},
        {{{"a", .shape = "dim"}, {0}},
         unknown_key,
         "'hidden_size' speaks of 'width', which is no key of the plugin's"},
        {{{"a", .shape = "dim"}, {0}}, empty_key, "'hidden_size' has neither a key nor a value"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const weft_hf_form form = {.type = "toy",
                                   .architecture = "Toy",
                                   .layers = "n_layers",
                                   .tensors = list[i].tensors,
                                   .keys = list[i].keys};
        weft_error err = {0};
        bool said = !list[i].says;
        assert_int_equal(read_toy(&form, &err), said ? WEFT_OK : WEFT_ERR_INPUT);
        for (int k = 0; k < err.n_items; k++)
            said = said || strstr(err.items[k].text, list[i].says);
        if (!said)
            fail_msg("'%s' is not said, but: %s", list[i].says, weft_error_text(&err));
        weft_error_release(&err);
    }
}

static void unknown_keys_are_noted(void **state)
{
    (void)state;
    hf_model m;
    weft_error err = {0};
    check(read_config(LLAMA ", \"new_trick\": 3, \"other_trick\": false, \"use_cache\": true", &m,
                      &err),
          &err);
    assert_non_null(strstr(weft_text_get(&m.notes), "'new_trick'"));
    assert_null(strstr(weft_text_get(&m.notes), "other_trick"));
    hf_model_release(&m);
}

static void numbers_read_back(void **state)
{
    (void)state;
    static const double list[] = {1e-5, 1e-6, 500000, 10000, 0.1, 1.0 / 3, 8, 1234567.25, 1e12};
    char text[32];
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        assert_true(strtod(hf_number(text, list[i]), NULL) == list[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test_setup_teardown(logits_survive_conversion, enter, leave),
        cmocka_unit_test_setup_teardown(there_and_back_is_the_same, enter, leave),
        cmocka_unit_test_setup_teardown(companions_go_along, enter, leave),
        cmocka_unit_test_setup_teardown(memory_runs_out, enter, leave),
        cmocka_unit_test_setup_teardown(names_of_bare_models, enter, leave),
        cmocka_unit_test(parts_are_parts_of_the_whole),
        cmocka_unit_test(parts_read_no_more),
        cmocka_unit_test_setup_teardown(both_spellings_of_rope, enter, leave),
        cmocka_unit_test_setup_teardown(what_changes_numbers_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(mistakes_of_tables_are_named, enter, leave),
        cmocka_unit_test_setup_teardown(unknown_keys_are_noted, enter, leave),
        cmocka_unit_test(numbers_read_back),
    };
    return cmocka_run_group_tests(tests, open_search, close_search);
}
