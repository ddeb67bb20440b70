/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that Transformers saved (tests/golden/hf): the logits are its, parts are read as parts,
 * and there and back is the same to the byte. */
#include "folders.h"

static const char *const cases[] = {"llama", "llama_tied", "gpt2", "qwen3", "qwen3_moe", "mixtral",
                                    "deepseek3",
                                    /* experts of a block in one tensor, which is only read */
                                    "qwen3_moe_stacked", "mixtral_stacked", "deepseek3_stacked"};
enum { CASES = sizeof cases / sizeof cases[0], WRITTEN = CASES - 3 };

static char *golden_folder(const char *name)
{
    const char *tree = getenv("WEFT_TREE");
    char *path = weft_format("%s/tests/golden/hf/%s", tree ? tree : ".", name);
    assert_non_null(path);
    return path;
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

/* Has there/manifest.json say this of a key, and seals it. */
static void say(const char *key, const char *said)
{
    static const char path[] = "there/manifest.json";
    weft_error err = {0};
    weft_text out = {0};
    char *text;
    size_t size;
    check(weft_read_file(path, &text, &size, &err), &err);
    char *value = strstr(text, key), *sum = strstr(text, ",\n\"sum\"");
    assert_true(value && sum > value);
    value += strlen(key);
    weft_text_add_bytes(&out, text, (size_t)(value - text));
    weft_text_add(&out, said);
    value += strcspn(value, ",}");
    weft_text_add_bytes(&out, value, (size_t)(sum - value));
    weft_manifest_seal(&out);
    check(weft_write_file(path, weft_text_get(&out), out.size, &err), &err);
    weft_text_release(&out);
    weft_free(text);
}

/* What a checkpoint says is believed no more than what a folder says: so many blocks have no end,
 * and what is no number does not become what stands for the key. */
static void settings_that_are_wrong_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *said, *words;
    } wrong[] = {
        {"n_layers", "\"999999999999\"",
         "[gpt2] n_layers = 999999999999: out of range; give an integer from 1 to"},
        {"n_layers", "\"1.5\"", "[gpt2] n_layers = 1.5: not understood; give an integer from 1 to"},
        {"norm_eps", "\"nan\"", "[gpt2] norm_eps = nan: not understood; give a number"},
        {"norm_eps", "\"-inf\"", "[gpt2] norm_eps = -inf: not understood; give a number"},
        {"norm_eps", "\"1e999\"", "[gpt2] norm_eps = 1e999: out of range; give a number"},
        {"norm_eps", "1e-5", "[gpt2] norm_eps among its settings is no string"},
        {"norm_eps", "\"\"",
         "[gpt2] norm_eps = , which is no number; a checkpoint that weft makes"},
        {"n_heads", "\"flavor\"", "[gpt2] n_heads = flavor, which is no number"},
    };
    char *from = golden_folder("gpt2");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_error err = {0};
        char *key = weft_format("\"%s\": ", wrong[i].key);
        CONVERT(from, "there", "--force");
        say(key, wrong[i].said);
        assert_int_equal(convert(NULL, &err, (const char *const[]){"there", "back", NULL}),
                         WEFT_ERR_INPUT);
        if (!strstr(weft_error_text(&err), wrong[i].words))
            fail_msg("%s = %s: %s", wrong[i].key, wrong[i].said, weft_error_text(&err));
        weft_error_release(&err);
        weft_free(key);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test_setup_teardown(logits_survive_conversion, enter, leave),
        cmocka_unit_test_setup_teardown(there_and_back_is_the_same, enter, leave),
        cmocka_unit_test_setup_teardown(companions_go_along, enter, leave),
        cmocka_unit_test_setup_teardown(settings_that_are_wrong_are_refused, enter, leave),
        cmocka_unit_test_setup_teardown(memory_runs_out, enter, leave),
        cmocka_unit_test_setup_teardown(names_of_bare_models, enter, leave),
        cmocka_unit_test(parts_are_parts_of_the_whole),
        cmocka_unit_test(parts_read_no_more),
    };
    return cmocka_run_group_tests(tests, open_search, close_search);
}
