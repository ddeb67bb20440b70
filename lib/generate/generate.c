/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing token after token, and the texts of a model that is being trained. */
#include "generate/generate.h"
#include "execute/run.h"

#include <string.h>

const char *weft_ending_name(weft_ending ending)
{
    static const char *const names[] = {"", "eos", "length", "context"};
    return names[ending];
}

static weft_status append(weft_continuation *t, int32_t id, weft_error *err)
{
    if (t->n == t->capacity) {
        size_t more = 2 * t->capacity + 64;
        int32_t *fresh = weft_realloc(t->ids, more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        t->ids = fresh;
        t->capacity = more;
    }
    t->ids[t->n++] = id;
    return WEFT_OK;
}

weft_status weft_continuation_init(weft_continuation *t, int number, const int32_t *ids, size_t n,
                                   weft_error *err)
{
    *t = (weft_continuation){.number = number, .n_prompt = n};
    weft_status s = WEFT_OK;
    for (size_t i = 0; i < n && !s; i++)
        s = append(t, ids[i], err);
    return s;
}

void weft_continuation_release(weft_continuation *t)
{
    weft_free(t->ids);
    memset(t, 0, sizeof *t);
}

/* ---- as text ---- */

weft_run_tokenizer weft_run_tokenizer_find(const weft_plugins *plugins)
{
    weft_run_tokenizer t;
    t.table = weft_plugins_service(plugins, "tokenizer", &t.self);
    return t;
}

static weft_status decode(const weft_run_tokenizer *t, const int32_t *ids, size_t n,
                          weft_text *text, weft_error *err)
{
    weft_text bytes = {0};
    weft_status s = t->table->decode(t->self, ids, n, &bytes, err);
    if (!s)
        weft_text_add_utf8(text, weft_text_get(&bytes), bytes.size);
    if (!s && (bytes.out_of_memory || text->out_of_memory))
        s = weft_fail_memory(err);
    weft_text_release(&bytes);
    return s;
}

/* Bytes that two texts have in common, in whole characters. */
static size_t common(const weft_text *a, const weft_text *b)
{
    const char *x = weft_text_get(a), *y = weft_text_get(b);
    size_t n = 0;
    while (n < a->size && n < b->size && x[n] == y[n])
        n++;
    while (n > 0 && n < b->size && ((unsigned char)y[n] & 0xc0) == 0x80)
        n--;
    return n;
}

weft_status weft_continuation_decode(const weft_continuation *t,
                                     const weft_run_tokenizer *tokenizer, weft_text *before,
                                     weft_text *after, weft_error *err)
{
    weft_text whole = {0};
    size_t bos = t->n_prompt > 0 &&
                 t->ids[0] == tokenizer->table->bos(tokenizer->self); /* nobody wrote that */
    weft_status s = decode(tokenizer, t->ids + bos, t->n_prompt - bos, before, err);
    s = s ? s : decode(tokenizer, t->ids + bos, t->n - bos, &whole, err);
    if (!s) {
        size_t from = common(before, &whole);
        weft_text_add_bytes(after, weft_text_get(&whole) + from, whole.size - from);
    }
    if (!s && after->out_of_memory)
        s = weft_fail_memory(err);
    weft_text_release(&whole);
    return s;
}

/* ---- the next token ---- */

static bool is_eos(const weft_generation *g, int32_t id)
{
    for (int i = 0; i < g->n_eos; i++)
        if (g->eos[i] == id)
            return true;
    return false;
}

static weft_status choose(const weft_decoder *d, const weft_generation *g, weft_continuation *t,
                          int row, int32_t *id, weft_error *err)
{
    const weft_plan *plan = d->plan;
    int64_t vocab = g->vocab > 0 && g->vocab < d->vocab ? g->vocab : d->vocab,
            added = (int64_t)(t->n - t->n_prompt);
    *id = plan->generator->pick(plan->generator_self, d->logits + row * d->vocab, vocab, d->step,
                                t->number, added);
    if (*id < 0)
        t->ending = WEFT_ENDING_LENGTH;
    else if (is_eos(g, *id))
        t->ending = WEFT_ENDING_EOS;
    else
        return append(t, *id, err);
    return WEFT_OK;
}

static void look_for_end(const weft_decoder *d, const weft_generation *g, weft_continuation *t)
{
    if (!t->ending && g->most > 0 && (int64_t)(t->n - t->n_prompt) >= g->most)
        t->ending = WEFT_ENDING_LENGTH;
    if (!t->ending && !g->slides && (int64_t)t->n >= d->plan->writing.context)
        t->ending = WEFT_ENDING_CONTEXT;
}

/* One token for each row that has not ended; the others get any. *going: some row goes on. */
static weft_status add_tokens(const weft_decoder *d, weft_generation *g, weft_continuation *texts,
                              int n, int32_t *next, bool *going, weft_error *err)
{
    *going = false;
    for (int r = 0; r < n; r++) {
        weft_continuation *t = &texts[r];
        next[r] = t->ids[t->n - 1];
        if (t->ending)
            continue;
        size_t before = t->n;
        weft_status s = choose(d, g, t, r, &next[r], err);
        if (s)
            return s;
        g->tokens += (int64_t)(t->n - before);
        look_for_end(d, g, t);
        *going = *going || !t->ending;
        if (g->added && (s = g->added(g->ctx, t, err)))
            return s;
    }
    return WEFT_OK;
}

/* ---- texts ---- */

static weft_status start(weft_decoder *d, const weft_continuation *texts, int n, size_t most,
                         weft_error *err)
{
    const int32_t **ids = weft_alloc((size_t)n * sizeof *ids);
    size_t *sizes = weft_alloc((size_t)n * sizeof *sizes);
    weft_status s = ids && sizes ? WEFT_OK : weft_fail_memory(err);
    for (int r = 0; r < n && !s; r++) { /* what is over is left out in front */
        sizes[r] = texts[r].n < most ? texts[r].n : most;
        ids[r] = texts[r].ids + texts[r].n - sizes[r];
    }
    if (!s)
        weft_decoder_start(d, ids, sizes, n);
    weft_free(ids);
    weft_free(sizes);
    return s;
}

weft_status weft_generate(weft_decoder *d, weft_generation *g, weft_continuation *texts, int n,
                          weft_error *err)
{
    const weft_plan *plan = d->plan;
    size_t context = (size_t)plan->writing.context, half = context > 1 ? context / 2 : 1;
    int32_t *next = weft_alloc_zero((size_t)d->rows, sizeof *next);
    weft_status s = next ? start(d, texts, n, g->slides ? context : (size_t)d->places, err)
                         : weft_fail_memory(err);
    bool going = false;
    for (int r = 0; r < n && !s; r++) {
        look_for_end(d, g, &texts[r]);
        going = going || !texts[r].ending;
    }
    while (going && !s) {
        s = weft_decoder_run(d, err);
        s = s ? s : add_tokens(d, g, texts, n, next, &going, err);
        if (!s && going && !weft_decoder_add(d, next))
            s = start(d, texts, n, half, err);
    }
    weft_free(next);
    return s;
}

/* ---- while a model is trained ---- */

static weft_status finish(weft_run *run, const weft_continuation *t, weft_error *err)
{
    weft_text before = {0}, after = {0};
    const weft_run_tokenizer tokenizer = {run->tokenizer, run->tokenizer_self};
    weft_status s = weft_continuation_decode(t, &tokenizer, &before, &after, err);
    for (size_t i = 0; i < after.size; i++) /* whoever gets it takes a C string */
        after.data[i] = after.data[i] ? after.data[i] : ' ';
    if (!s) {
        const weft_plan *plan = run->plan;
        plan->generator->done(plan->generator_self, run->step, t->number, weft_text_get(&before),
                              weft_text_get(&after), run->log);
        run->view.prompt = weft_text_get(&before);
        run->view.text = weft_text_get(&after);
        s = weft_observe(run, WEFT_EVENT_TEXT, err);
        run->view.prompt = run->view.text = NULL;
    }
    weft_text_release(&before);
    weft_text_release(&after);
    return s;
}

static weft_status write_text(weft_decoder *d, weft_generation *g, int number,
                              const int32_t *prompt, size_t n, weft_error *err)
{
    weft_continuation t;
    weft_status s = weft_continuation_init(&t, number, prompt, n, err);
    s = s ? s : weft_generate(d, g, &t, 1, err);
    s = s ? s : finish(d->run, &t, err);
    weft_continuation_release(&t);
    return s;
}

weft_status weft_generate_asked(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    if (plan->lowered[WEFT_MODE_GENERATE] && plan->generator->write)
        return plan->generator->write(plan->generator_self, &run->view, err);
    if (!plan->lowered[WEFT_MODE_GENERATE] || !run->tokenizer)
        return WEFT_OK;
    const weft_tokenizer *tokenizer = run->tokenizer;
    int32_t eos = tokenizer->eos(run->tokenizer_self);
    weft_generation g = {.eos = &eos,
                         .n_eos = eos >= 0,
                         .vocab = tokenizer->vocab_size(run->tokenizer_self),
                         .slides = true};
    weft_decoder d;
    weft_status s = weft_decoder_init(&d, plan, run, run->step, err);
    for (int i = 0; !s; i++) {
        const int32_t *prompt;
        size_t n = 0;
        s = plan->generator->prompt(plan->generator_self, i, run->tokenizer, run->tokenizer_self,
                                    &prompt, &n, err);
        if (s || n == 0)
            break;
        s = write_text(&d, &g, i, prompt, n, err);
    }
    weft_decoder_release(&d);
    return s;
}
