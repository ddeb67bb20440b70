/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of wrapped data, tokenizers, generators and schedules: see wrap.h. */
#include "host/wrap.h"

/* ---- data ---- */

static weft_status data_begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_data, begin));
    const weft_data *t = l->table;
    const weft_entry entry = weft_link_enter(l, "begin", err);
    return weft_leave(&entry, t->begin(l->self, seq_len, seed, err));
}

static int64_t data_samples(void *self, weft_split split)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_data, samples));
    const weft_data *t = l->table;
    const weft_entry entry = weft_link_enter(l, "samples", NULL);
    int64_t answer = t->samples(l->self, split);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status data_sample(void *self, weft_split split, int64_t i, const weft_sample *out,
                               weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_data, sample));
    const weft_data *t = l->table;
    const weft_entry entry = weft_link_enter(l, "sample", err);
    return weft_leave(&entry, t->sample(l->self, split, i, out, err));
}

static void data_describe(void *self, weft_text *text)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_data, describe));
    const weft_data *t = l->table;
    const weft_entry entry = weft_link_enter(l, "describe", NULL);
    t->describe(l->self, text);
    weft_leave(&entry, WEFT_OK);
}

static uint64_t data_fingerprint(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_data, fingerprint));
    const weft_data *t = l->table;
    const weft_entry entry = weft_link_enter(l, "fingerprint", NULL);
    uint64_t answer = t->fingerprint(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

const weft_data weft_forward_data = {
    .begin = data_begin,
    .samples = data_samples,
    .sample = data_sample,
    .describe = data_describe,
    .fingerprint = data_fingerprint,
};

/* ---- tokenizer ---- */

static int tokenizer_vocab_size(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_tokenizer, vocab_size));
    const weft_tokenizer *t = l->table;
    const weft_entry entry = weft_link_enter(l, "vocab_size", NULL);
    int answer = t->vocab_size(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static int tokenizer_bos(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_tokenizer, bos));
    const weft_tokenizer *t = l->table;
    const weft_entry entry = weft_link_enter(l, "bos", NULL);
    int answer = t->bos(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static int tokenizer_eos(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_tokenizer, eos));
    const weft_tokenizer *t = l->table;
    const weft_entry entry = weft_link_enter(l, "eos", NULL);
    int answer = t->eos(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status tokenizer_encode(void *self, const char *text, size_t n, int32_t **ids,
                                    size_t *n_ids, size_t *capacity, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_tokenizer, encode));
    const weft_tokenizer *t = l->table;
    const weft_entry entry = weft_link_enter(l, "encode", err);
    return weft_leave(&entry, t->encode(l->self, text, n, ids, n_ids, capacity, err));
}

static weft_status tokenizer_decode(void *self, const int32_t *ids, size_t n, weft_text *text,
                                    weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_tokenizer, decode));
    const weft_tokenizer *t = l->table;
    const weft_entry entry = weft_link_enter(l, "decode", err);
    return weft_leave(&entry, t->decode(l->self, ids, n, text, err));
}

static const char *const *tokenizer_files(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_tokenizer, files));
    const weft_tokenizer *t = l->table;
    const weft_entry entry = weft_link_enter(l, "files", NULL);
    const char *const *answer = t->files(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

const weft_tokenizer weft_forward_tokenizer = {
    .vocab_size = tokenizer_vocab_size,
    .bos = tokenizer_bos,
    .eos = tokenizer_eos,
    .encode = tokenizer_encode,
    .decode = tokenizer_decode,
    .files = tokenizer_files,
};

/* ---- generator ---- */

static int64_t generator_context(void *self)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_generator, context));
    const weft_generator *t = l->table;
    const weft_entry entry = weft_link_enter(l, "context", NULL);
    int64_t answer = t->context(l->self);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static bool generator_want(void *self, int64_t step, bool last)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_generator, want));
    const weft_generator *t = l->table;
    const weft_entry entry = weft_link_enter(l, "want", NULL);
    bool answer = t->want(l->self, step, last);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static weft_status generator_prompt(void *self, int i, const weft_tokenizer *tokenizer,
                                    void *tokenizer_self, const int32_t **ids, size_t *n,
                                    weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_generator, prompt));
    const weft_generator *t = l->table;
    const weft_entry entry = weft_link_enter(l, "prompt", err);
    return weft_leave(&entry, t->prompt(l->self, i, tokenizer, tokenizer_self, ids, n, err));
}

static int32_t generator_pick(void *self, const float *logits, int64_t vocab, int64_t step,
                              int text_number, int64_t n)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_generator, pick));
    const weft_generator *t = l->table;
    const weft_entry entry = weft_link_enter(l, "pick", NULL);
    int32_t answer = t->pick(l->self, logits, vocab, step, text_number, n);
    weft_leave(&entry, WEFT_OK);
    return answer;
}

static void generator_done(void *self, int64_t step, int text_number, const char *prompt,
                           const char *continuation, const weft_log *log)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_generator, done));
    const weft_generator *t = l->table;
    const weft_entry entry = weft_link_enter(l, "done", NULL);
    t->done(l->self, step, text_number, prompt, continuation, log);
    weft_leave(&entry, WEFT_OK);
}

const weft_generator weft_forward_generator = {
    .context = generator_context,
    .want = generator_want,
    .prompt = generator_prompt,
    .pick = generator_pick,
    .done = generator_done,
};

/* ---- schedule ---- */

static weft_status schedule_generate(void *self, int ranks, int stages, int64_t micro_batches,
                                     weft_tasks *tasks, weft_error *err)
{
    const weft_link *l = weft_link_find(self, offsetof(weft_schedule, generate));
    const weft_schedule *t = l->table;
    const weft_entry entry = weft_link_enter(l, "generate", err);
    return weft_leave(&entry, t->generate(l->self, ranks, stages, micro_batches, tasks, err));
}

const weft_schedule weft_forward_schedule = {
    .generate = schedule_generate,
};
