/* SPDX-License-Identifier: Apache-2.0 */
/* What a file says of a device that need not be there, and what the user says over that. */
#include "forecast/profiles.h"
#include "settings/values.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <weft/device.h>
#include <xxhash.h>

struct weft_profile {
    weft_settings *settings;
    weft_device_rates rates;
};

#define REAL(name_, min_, max_, help_)                                                             \
    {                                                                                              \
        .name = name_, .type = WEFT_PARAM_REAL, .flags = WEFT_PARAM_REQUIRED, .min = min_,         \
        .max = max_, .help = help_                                                                 \
    }
#define MAYBE(name_, value_, min_, max_, help_)                                                    \
    {                                                                                              \
        .name = name_, .type = WEFT_PARAM_REAL, .value = value_, .min = min_, .max = max_,         \
        .help = help_                                                                              \
    }

static const weft_param table[] = {
    {.name = "name", .type = WEFT_PARAM_STRING, .flags = WEFT_PARAM_REQUIRED, .help = "Its name."},
    REAL("bf16", 1, 1e18, "flop/s of products in 16 bits, as the vendor has it."),
    REAL("f8", 0, 1e18, "The same in 8 bits; 0: it has none."),
    REAL("f32", 1, 1e18, "flop/s of all but products."),
    REAL("bandwidth", 1, 1e16, "Bytes/s of its memory."),
    REAL("memory", 1, 1e15, "Bytes of its memory."),
    {.name = "sms", .type = WEFT_PARAM_INT, .flags = WEFT_PARAM_REQUIRED, .min = 1, .max = 10000},
    {.name = "host", .type = WEFT_PARAM_INT, .value = "8", .min = 1, .max = 1000000},
    {.name = "per_row_scales", .type = WEFT_PARAM_BOOL, .value = "no"},
    {.name = "waves", .type = WEFT_PARAM_BOOL, .value = "no"},
    REAL("link", 1, 1e15, "Bytes/s to another one of the host."),
    REAL("net", 1, 1e15, "Bytes/s to another host."),
    REAL("host_link", 1, 1e15, "Bytes/s to the host's memory."),
    REAL("product", 0.01, 1, "The share of the peak that products reach."),
    MAYBE("product8", "0", 0, 1, "The same in 8 bits; 0: as product."),
    REAL("attention", 0.01, 100,
         "The share that attention reaches; above 1 where less is computed than is counted."),
    MAYBE("cudnn", "0", 0, 1, "The share that cuDNN's attention reaches; 0: nobody knows."),
    MAYBE("attention_unsure", "1", 1, 100, "It may take so many times as long."),
    MAYBE("attention_edge", "0", 0, 1e6, "So many keys more are computed for every query."),
    MAYBE("attention_narrow", "1", 0.01, 1, "The share of it for heads below 128 elements."),
    MAYBE("k_half", "0", 0, 1e6, "Sums of so many terms reach half."),
    MAYBE("memory_reached", "1", 0.01, 1, "The share of bandwidth that is reached."),
    MAYBE("link_reached", "1", 0.01, 1, "The share of link that is reached."),
    MAYBE("net_reached", "1", 0.01, 1, "The share of net that is reached."),
    MAYBE("host_link_reached", "1", 0.01, 1, "The share of host_link that is reached."),
    MAYBE("launch", "0", 0, 1, "Seconds that every instruction takes besides."),
    MAYBE("call", "0", 0, 1, "Seconds that a collective within a host takes besides."),
    MAYBE("net_call", "0", 0, 1, "Seconds that one across hosts takes besides."),
    MAYBE("hop", "0", 0, 1, "Seconds of a hop within a host."),
    MAYBE("net_hop", "0", 0, 1, "Seconds of a hop to another host."),
    MAYBE("enqueue", "0", 0, 1, "Seconds that the host takes to enqueue an instruction."),
    MAYBE("beside", "0", 0, 1, "The share of a collective's time that it slows what is computed."),
    MAYBE("step", "0", 0, 1, "Seconds that a step takes besides."),
    MAYBE("thread_scaling", "1", 0, 1, "Of a thread: n reach n to this power as much."),
    MAYBE("half_bytes", "0", 0, 1e12, "Smaller calls take up to 1.5 times as long."),
    {0},
};

static bool is_path(const char *word)
{
    const size_t n = strlen(word);
    return strchr(word, '/') || (n > 4 && strcmp(word + n - 4, ".ini") == 0);
}

static weft_status refuse_name(weft_where at, const char *word, weft_error *err)
{
    enum { MOST = 64 };
    const char *names[MOST];
    weft_text text = {0};
    int n = 0;
    for (const weft_own_profile *p = weft_own_profiles; p->name && n < MOST; p++)
        names[n++] = p->name;
    for (int i = 0; i < n; i++)
        weft_text_print(&text, "%s%s", i ? ", " : "", names[i]);
    const char *near = weft_nearest(word, names, n);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, at,
                              "'%.60s' is not a profile that weft has%s%s%s; there are %s, and a "
                              "file of your own, as ./mine.ini",
                              word, near ? "; did you mean " : "", near ? near : "",
                              near ? "?" : "", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

static weft_status read_file(weft_where at, const char *path, weft_settings **out, weft_error *err)
{
    weft_status s = weft_settings_read(path, out, err);
    if (s || weft_section_find(*out, "gpu"))
        return s;
    return weft_fail(err, WEFT_ERR_INPUT, at,
                     "%s has no section [gpu], where the numbers of a GPU or a CPU stand: it is no "
                     "profile",
                     path);
}

static weft_status read_named(weft_where at, const char *word, weft_settings **out, weft_error *err)
{
    if (is_path(word))
        return read_file(at, word, out, err);
    for (const weft_own_profile *p = weft_own_profiles; p->name; p++)
        if (strcasecmp(p->name, word) == 0)
            return weft_settings_read_text(p->name, p->text, strlen(p->text), out, err);
    return refuse_name(at, word, err);
}

/* ---- what differs ---- */

/* Suffixes as whole numbers of an INI have them; a text that settings read as a number. NULL: no
 * memory. */
static const char *plain_number(weft_pool *pool, const char *text)
{
    double value;
    const bool plain = !text[strspn(text, "0123456789+-.eE")];
    return plain || !weft_parse_number(text, &value) ? text
                                                     : weft_pool_format(pool, "%.17g", value);
}

static const weft_param *find_param(const char *word, size_t n)
{
    for (const weft_param *p = table; p->name; p++)
        if (strlen(p->name) == n && memcmp(p->name, word, n) == 0)
            return p;
    return NULL;
}

static weft_status refuse_key(const char *word, weft_where at, weft_error *err)
{
    weft_text text = {0};
    for (const weft_param *p = table; p->name; p++)
        weft_text_print(&text, "%s%s", p == table ? "" : ", ", p->name);
    weft_status s = weft_fail(err, WEFT_ERR_INPUT, at,
                              "'%.60s' says nothing of a GPU; behind its name may stand, as "
                              "bf16=8e14, any of %s",
                              word, weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

static weft_status override(weft_settings *settings, const char *word, weft_where at,
                            weft_error *err)
{
    const size_t n = strcspn(word, "=");
    const weft_param *p = word[n] ? find_param(word, n) : NULL;
    if (!p)
        return refuse_key(word, at, err);
    weft_section *section = weft_section_add(settings, "gpu", at);
    weft_ini_line *line = weft_pool_alloc(&settings->pool, sizeof *line);
    const char *text = weft_pool_strdup(&settings->pool, word + n + 1);
    const char *file = at.file ? weft_pool_strdup(&settings->pool, at.file) : NULL;
    if (text && p->type == WEFT_PARAM_REAL)
        text = plain_number(&settings->pool, text);
    if (!section || !line || !text)
        return weft_fail_memory(err);
    *line = (weft_ini_line){.text = text, .where = {file, at.line}};
    const weft_ini_key *before = weft_setting_find(section, p->name);
    if (before && before->lines && before->lines->where.file && file &&
        strcmp(before->lines->where.file, file) == 0 && before->lines->where.line == at.line)
        return weft_fail(err, WEFT_ERR_INPUT, at, "'%.60s': %s is there twice", word, p->name);
    return weft_setting_put(settings, section, p->name, line, line->where, err);
}

/* ---- rates ---- */

static void fill(const weft_params *p, weft_device_rates *r)
{
    const double bf16 = weft_params_real(p, "bf16"), f8 = weft_params_real(p, "f8"),
                 share = weft_params_real(p, "product"), share8 = weft_params_real(p, "product8");
    r->name = weft_params_text(p, "name");
    r->narrow = f8 > 0;
    r->narrow_rows = r->narrow && weft_params_bool(p, "per_row_scales");
    r->peak[WEFT_BF16] = bf16;
    r->peak[WEFT_F32] = weft_params_real(p, "f32");
    r->peak[WEFT_F8E4M3] = r->peak[WEFT_F8E5M2] = r->narrow ? f8 : bf16; /* else widened */
    for (int i = 0; i < WEFT_DTYPES; i++) {
        const bool narrow = weft_dtype_is_f8((weft_dtype)i) && r->narrow && share8 > 0;
        r->product[i] = r->peak[i] * (narrow ? share8 : share);
        r->attention[i] = r->peak[i] * weft_params_real(p, "attention");
    }
    r->other = r->peak[WEFT_F32];
    r->memory = weft_params_real(p, "bandwidth") * weft_params_real(p, "memory_reached");
    r->memory_bytes = (int64_t)weft_params_real(p, "memory");
    r->launch_s = weft_params_real(p, "launch");
    r->skips_masked = r->one_a_process = true;
    r->host = (int)weft_params_int(p, "host");
    r->sms = (int)weft_params_int(p, "sms");
    r->waves = weft_params_bool(p, "waves");
    r->k_half = weft_params_real(p, "k_half");
    r->link = weft_params_real(p, "link") * weft_params_real(p, "link_reached");
    r->net = weft_params_real(p, "net") * weft_params_real(p, "net_reached");
    r->host_link = weft_params_real(p, "host_link") * weft_params_real(p, "host_link_reached");
    r->link_s = weft_params_real(p, "hop");
    r->net_s = weft_params_real(p, "net_hop");
    r->call_s = weft_params_real(p, "call");
    r->net_call_s = weft_params_real(p, "net_call");
    r->half_bytes = weft_params_real(p, "half_bytes");
    r->attention_edge = weft_params_real(p, "attention_edge");
    r->attention_narrow = weft_params_real(p, "attention_narrow");
    r->enqueue_s = weft_params_real(p, "enqueue");
    r->beside = weft_params_real(p, "beside");
    r->step_s = weft_params_real(p, "step");
    r->thread_scaling = weft_params_real(p, "thread_scaling");
    r->library_attention = weft_params_real(p, "cudnn") / weft_params_real(p, "attention");
    r->unsure = weft_params_real(p, "attention_unsure");
}

static void scale(double *x, int n, double factor)
{
    for (int i = 0; i < n; i++)
        x[i] *= factor;
}

/* A peak, and what is a share of it. */
static void scale_peak(weft_device_rates *r, weft_dtype dtype, double factor)
{
    r->peak[dtype] *= factor;
    r->product[dtype] *= factor;
    r->attention[dtype] *= factor;
}

bool weft_rates_scale(weft_device_rates *r, const char *number, double factor)
{
    const struct {
        const char *key;
        double *at;
        int n;
    } keys[] = {{"product", r->product, WEFT_DTYPES},
                {"product8", &r->product[WEFT_F8E4M3], 1},
                {"attention", r->attention, WEFT_DTYPES},
                {"attention_edge", &r->attention_edge, 1},
                {"k_half", &r->k_half, 1},
                {"memory_reached", &r->memory, 1},
                {"launch", &r->launch_s, 1},
                {"link_reached", &r->link, 1},
                {"net_reached", &r->net, 1},
                {"call", &r->call_s, 1},
                {"net_call", &r->net_call_s, 1},
                {"hop", &r->link_s, 1},
                {"half_bytes", &r->half_bytes, 1},
                {"enqueue", &r->enqueue_s, 1},
                {"step", &r->step_s, 1}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, number) == 0) {
            scale(keys[i].at, keys[i].n, factor);
            return true;
        }
    if (strcmp(number, "f32") == 0) {
        scale_peak(r, WEFT_F32, factor);
        r->other *= factor;
        return true;
    }
    if (strcmp(number, "bf16") != 0)
        return false;
    scale_peak(r, WEFT_BF16, factor);
    if (!r->narrow) { /* 8 bits are widened */
        scale_peak(r, WEFT_F8E4M3, factor);
        scale_peak(r, WEFT_F8E5M2, factor);
    }
    return true;
}

/* The shares are what these rates are of the peaks; the others are reached as they are. */
void weft_rates_print(const weft_device_rates *r, weft_text *text)
{
    const double bf16 = r->peak[WEFT_BF16], f8 = r->narrow ? r->peak[WEFT_F8E4M3] : 0;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"bf16", bf16},
                   {"f8", f8},
                   {"f32", r->other},
                   {"product", r->product[WEFT_BF16] / bf16},
                   {"product8", f8 > 0 ? r->product[WEFT_F8E4M3] / f8 : 0},
                   {"attention", r->attention[WEFT_BF16] / bf16},
                   {"attention_unsure", r->unsure > 1 ? r->unsure : 1},
                   {"attention_edge", r->attention_edge},
                   {"attention_narrow", r->attention_narrow > 0 ? r->attention_narrow : 1},
                   {"cudnn", r->library_attention * r->attention[WEFT_BF16] / bf16},
                   {"k_half", r->k_half},
                   {"bandwidth", r->memory},
                   {"memory", (double)r->memory_bytes},
                   {"sms", r->sms},
                   {"host", r->host},
                   {"link", r->link},
                   {"net", r->net},
                   {"host_link", r->host_link},
                   {"launch", r->launch_s},
                   {"call", r->call_s},
                   {"net_call", r->net_call_s},
                   {"hop", r->link_s},
                   {"net_hop", r->net_s},
                   {"half_bytes", r->half_bytes},
                   {"enqueue", r->enqueue_s},
                   {"beside", r->beside},
                   {"thread_scaling", r->thread_scaling},
                   {"step", r->step_s}};
    weft_text_print(text, "[gpu]\nname = %s\nper_row_scales = %s\nwaves = %s\n", r->name,
                    r->narrow_rows ? "yes" : "no", r->waves ? "yes" : "no");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        weft_text_print(text, "%s = %.9g\n", numbers[i].key, numbers[i].value);
}

static uint64_t hash_of(const weft_params *p)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return 0;
    XXH3_64bits_reset(state);
    for (const weft_param *q = table; q->name; q++) {
        const char *text = weft_params_text(p, q->name);
        XXH3_64bits_update(state, text, strlen(text) + 1);
    }
    const uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

static bool says(const char *word, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(word, key, n) == 0 && word[n] == '=';
}

static weft_status fill_in(const weft_params *params, const char *key, weft_profile *profile,
                           weft_error *err)
{
    weft_settings *settings = profile->settings;
    const weft_params *p;
    const char *word;
    bool known = false; /* attention, by whoever knows */
    weft_status s = WEFT_OK;
    for (int i = 1; (word = weft_params_word(params, key, i)); i++) {
        const weft_status one =
            override(settings, word, weft_params_word_where(params, key, i), err);
        s = s ? s : one;
        known = known || says(word, "attention");
    }
    const weft_status checked = weft_settings_section(settings, "gpu", table, &p, err),
                      finished = weft_settings_finish(settings, NULL, false, err);
    s = s ? s : checked ? checked : finished;
    if (s)
        return s;
    fill(p, &profile->rates);
    profile->rates.hash = hash_of(p);
    if (known)
        profile->rates.unsure = 0;
    if (weft_params_word(params, key, 1))
        profile->rates.name = weft_params_text(params, key);
    return WEFT_OK;
}

weft_status weft_profile_read(const weft_params *params, const char *key, weft_profile **out,
                              weft_error *err)
{
    const char *word = weft_params_word(params, key, 0);
    *out = NULL;
    weft_profile *profile = weft_alloc_zero(1, sizeof *profile);
    if (!profile)
        return weft_fail_memory(err);
    weft_status s = read_named(weft_params_word_where(params, key, 0), word ? word : "",
                               &profile->settings, err);
    s = s ? s : fill_in(params, key, profile, err);
    if (s)
        weft_profile_destroy(profile);
    else
        *out = profile;
    return s;
}

const weft_device_rates *weft_profile_rates(const weft_profile *profile)
{
    return &profile->rates;
}

void weft_profile_destroy(weft_profile *profile)
{
    if (profile)
        weft_settings_destroy(profile->settings);
    weft_free(profile);
}

/* ---- memory beside the plan's: guesses, none of them measured ---- */

/* A context: what the driver keeps, and a stack of 1 KiB for each of 2048 threads of every
 * multiprocessor; weft's kernels and those of cuBLASLt that are called; a node of a graph with its
 * arguments. */
enum {
    CONTEXT = 256 << 20,
    STACKS = 2 << 20,
    KERNELS = 96 << 20,
    NODE = 4 << 10,
    TYPICAL_SMS = 80
};

size_t weft_gpu_bytes(const weft_device_rates *rates, int64_t captured)
{
    const int sms = rates->sms ? rates->sms : TYPICAL_SMS;
    return (size_t)CONTEXT + (size_t)KERNELS + (size_t)sms * STACKS + (size_t)captured * NODE;
}
