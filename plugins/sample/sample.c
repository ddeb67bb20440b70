/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the capability "generator": while a model trains, text shows what it has learnt. */
#include "sample.h"

#include <inttypes.h>
#include <string.h>
#include <weft/pass.h>
#include <weft/random.h>

typedef struct prompt {
    char *text;
    int32_t *ids; /* NULL until asked for */
    size_t n_ids;
} prompt;

typedef struct sample {
    const weft_host *host;
    sample_how how;
    int64_t every, tokens, context;
    uint64_t seed;
    prompt *prompts;
    int n_prompts;
    int eos;         /* -1: none or not yet known */
    int64_t n_vocab; /* ids the tokenizer knows; 0: not yet known */
    sample_candidate *scratch;
    int64_t scratch_size;
} sample;

static const char *const auto_word[] = {"auto", NULL};

static const weft_param params[] = {
    {.name = "every",
     .type = WEFT_PARAM_INT,
     .value = "100",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .help = "Steps from one text to the next; 0: after the last step alone."},
    {.name = "prompt",
     .type = WEFT_PARAM_STRING,
     .value = "Once upon a time",
     .help = "What the text begins with; several are separated by ' | '. | alone: the beginning of "
             "a text."},
    {.name = "tokens",
     .type = WEFT_PARAM_INT,
     .value = "100",
     .min = 1,
     .max = 1e9,
     .unit = "tokens",
     .help = "The most that is added to a prompt."},
    {.name = "temperature",
     .type = WEFT_PARAM_REAL,
     .value = "0.8",
     .min = 0,
     .max = 1000,
     .help = "Divides the logits; 0: always the likeliest token."},
    {.name = "top_k",
     .type = WEFT_PARAM_INT,
     .value = "40",
     .min = 0,
     .max = 1e9,
     .unit = "tokens",
     .help = "Choose among this many likeliest tokens; 0: among all."},
    {.name = "top_p",
     .type = WEFT_PARAM_REAL,
     .value = "1.0",
     .min = 0,
     .max = 1,
     .help = "Choose among the likeliest tokens that together have this probability."},
    {.name = "seed",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 0,
     .max = 9e18,
     .choices = auto_word,
     .help = "Seed of the choices; auto: that of the run."},
    {.name = "context",
     .type = WEFT_PARAM_INT,
     .value = "128",
     .min = 2,
     .max = 1e9,
     .unit = "tokens",
     .help = "The model sees at most this many tokens when it writes; a text that fills them goes "
             "on from its last half."},
    {.name = NULL},
};

/* ---- prompts ---- */

static int count_prompts(const char *text)
{
    int n = 1;
    for (; (text = strstr(text, " | ")); text += 3)
        n++;
    return n;
}

static weft_status split_prompts(sample *self, const char *text, weft_error *err)
{
    if (strcmp(text, "|") == 0) /* an empty value is one that is not set */
        text = "";
    int n = count_prompts(text);
    self->prompts = weft_alloc_zero((size_t)n, sizeof *self->prompts);
    if (!self->prompts)
        return weft_fail_memory(err);
    for (; self->n_prompts < n; self->n_prompts++) {
        const char *end = strstr(text, " | ");
        size_t length = end ? (size_t)(end - text) : strlen(text);
        char *copy = weft_format("%.*s", (int)length, text);
        if (!copy)
            return weft_fail_memory(err);
        self->prompts[self->n_prompts].text = copy;
        text += length + (end ? 3 : 0);
    }
    return WEFT_OK;
}

static weft_status encode(sample *self, prompt *p, const weft_tokenizer *tokenizer,
                          void *tokenizer_self, weft_error *err)
{
    int bos = tokenizer->bos(tokenizer_self);
    size_t capacity = 16, n = 0;
    int32_t *ids = weft_alloc(capacity * sizeof *ids);
    if (!ids)
        return weft_fail_memory(err);
    if (bos >= 0)
        ids[n++] = bos;
    weft_status status =
        tokenizer->encode(tokenizer_self, p->text, strlen(p->text), &ids, &n, &capacity, err);
    if (status == WEFT_OK && n == 0)
        status = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "prompt"),
                           "prompt: an empty prompt needs a tokenizer that marks the beginning of "
                           "a text; write a word");
    if (status != WEFT_OK) {
        weft_free(ids);
        return status;
    }
    p->ids = ids;
    p->n_ids = n;
    return WEFT_OK;
}

/* For the whole vocabulary before the first token, and not in pick: one rank that fails must fail
 * before it goes another way than the others. */
static bool make_room(sample *self, int64_t n)
{
    if (n <= self->scratch_size)
        return true;
    sample_candidate *more = weft_realloc(self->scratch, (size_t)n * sizeof *more);
    if (!more)
        return false;
    self->scratch = more;
    self->scratch_size = n;
    return true;
}

static weft_status get_prompt(void *self_, int i, const weft_tokenizer *tokenizer,
                              void *tokenizer_self, const int32_t **ids, size_t *n, weft_error *err)
{
    sample *self = self_;
    *ids = NULL;
    *n = 0;
    if (i < 0 || i >= self->n_prompts)
        return WEFT_OK;
    prompt *p = &self->prompts[i];
    weft_status status = p->ids ? WEFT_OK : encode(self, p, tokenizer, tokenizer_self, err);
    if (status != WEFT_OK)
        return status;
    self->eos = tokenizer->eos(tokenizer_self);
    self->n_vocab = tokenizer->vocab_size(tokenizer_self);
    if (!make_room(self, self->n_vocab))
        return weft_fail_memory(err);
    *ids = p->ids;
    *n = p->n_ids;
    return WEFT_OK;
}

/* ---- the generator ---- */

static int64_t context(void *self_)
{
    const sample *self = self_;
    return self->context;
}

static bool want(void *self_, int64_t step, bool last)
{
    const sample *self = self_;
    return last || (self->every > 0 && step % self->every == 0);
}

/* The model may have more rows than the tokenizer has ids: padding is never chosen. */
static int32_t pick(void *self_, const float *logits, int64_t vocab, int64_t step, int text_number,
                    int64_t n)
{
    sample *self = self_;
    if (self->n_vocab > 0 && vocab > self->n_vocab)
        vocab = self->n_vocab;
    if (n >= self->tokens)
        return -1;
    if (!make_room(self, vocab))
        return -1;
    const int64_t which[] = {step, text_number};
    uint64_t stream = weft_hash_bytes(weft_hash_name("sample"), which, sizeof which);
    int32_t id = sample_choose(&self->how, logits, vocab,
                               weft_random_uniform(self->seed, stream, (uint64_t)n), self->scratch);
    return id == self->eos ? -1 : id;
}

void sample_add_flat(weft_text *to, const char *text)
{
    bool blank = false;
    for (; *text; text++) {
        bool is_blank = (unsigned char)*text <= ' ' || *text == 0x7f;
        if (is_blank && !blank)
            weft_text_add(to, " ");
        if (!is_blank)
            weft_text_add_bytes(to, text, 1);
        blank = is_blank;
    }
}

static void done(void *self, int64_t step, int text_number, const char *prompt_text,
                 const char *continuation, const weft_log *log)
{
    (void)self, (void)text_number;
    weft_text line = {0};
    weft_text_print(&line, "step %" PRId64 "  \"", step);
    sample_add_flat(&line, prompt_text);
    weft_text_add(&line, "\"");
    sample_add_flat(&line, continuation);
    weft_log_print(log, WEFT_LOG_INFO, "%s", weft_text_get(&line));
    weft_text_release(&line);
}

static const weft_generator generator = {
    .size = sizeof(weft_generator),
    .context = context,
    .want = want,
    .prompt = get_prompt,
    .pick = pick,
    .done = done,
};

/* ---- the plugin ---- */

static void destroy(void *self_)
{
    sample *self = self_;
    for (int i = 0; i < self->n_prompts; i++) {
        weft_free(self->prompts[i].text);
        weft_free(self->prompts[i].ids);
    }
    weft_free(self->prompts);
    weft_free(self->scratch);
}

/* `weft generate` has ids for prompts, too, and asks for them elsewhere. */
static weft_status check_tokenizer(const weft_host *host, weft_error *err)
{
    void *tokenizer;
    if (host->no_data || host->service(host, "tokenizer", &tokenizer))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "'sample' writes text, and no listed plugin gives a tokenizer to read its "
                     "prompts with; list one before it, as text, or take sample off the list");
}

static weft_status create(void *self_, weft_error *err)
{
    sample *self = self_;
    const weft_host *host = self->host;
    const weft_params *p = host->params;
    self->how = (sample_how){weft_params_real(p, "temperature"), weft_params_int(p, "top_k"),
                             weft_params_real(p, "top_p")};
    self->every = weft_params_int(p, "every");
    self->tokens = weft_params_int(p, "tokens");
    self->context = weft_params_int(p, "context");
    self->seed = (uint64_t)(weft_params_is(p, "seed", "auto") ? weft_params_int(host->train, "seed")
                                                              : weft_params_int(p, "seed"));
    self->eos = -1;
    weft_status status = check_tokenizer(host, err);
    return status ? status : split_prompts(self, weft_params_text(p, "prompt"), err);
}

static void add_caches(void *self, weft_graph *g)
{
    (void)self;
    weft_add_caches(g);
}

static const char *const needs[] = {"tokenizer?", NULL};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .needs = needs, .service = "generator", .table = &generator},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_TABLE,
     .modes = WEFT_IN_GENERATE | WEFT_IN_DECODE,
     .graph = add_caches},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(sample) = {
    WEFT_PLUGIN_HEAD,
    .name = "sample",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "writes text with the model while it trains",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(sample),
    .create = create,
    .destroy = destroy,
};
