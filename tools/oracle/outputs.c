/* SPDX-License-Identifier: Apache-2.0 */
/* What two trained models say of data that they have not learnt from: their loss on several batches
 * of validation data, and the text that they write. The reference always takes the likeliest token,
 * and the other run reads the same ones, so that a choice between two that are as likely does not
 * part all that comes behind it. */
#include "generate/decoder.h"
#include "net/agree.h"
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TEXTS = 4, TOKENS = 16, MOST = MOST_TEXTS * TOKENS };

static int32_t likeliest(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static weft_status reserve(oracle_record *r, int64_t vocab, weft_error *err)
{
    r->said.vocab = vocab;
    r->said.ids = weft_pool_alloc(&r->pool, MOST * sizeof *r->said.ids);
    r->said.text_of = weft_pool_alloc(&r->pool, MOST * sizeof *r->said.text_of);
    r->said.logits = weft_pool_alloc(&r->pool, MOST * (size_t)vocab * sizeof(float));
    return r->said.ids && r->said.text_of && r->said.logits ? WEFT_OK : weft_fail_memory(err);
}

/* One rank notes what all have found. Returns what comes next. */
static int32_t note(oracle_record *r, const weft_decoder *d, int text, int at)
{
    const oracle_said *before = r->reference ? &r->reference->said : NULL;
    int32_t id = likeliest(d->logits, d->vocab);
    if (d->plan->rank == 0) {
        r->said.ids[at] = id;
        r->said.text_of[at] = text;
        memcpy(&r->said.logits[at * d->vocab], d->logits, (size_t)d->vocab * sizeof(float));
        r->said.n = at + 1;
    }
    return before && at < before->n && before->vocab == d->vocab ? before->ids[at] : id;
}

static weft_status write_text(oracle_record *r, weft_decoder *d, const int32_t *prompt, size_t n,
                              int text, int *at, weft_error *err)
{
    weft_status s = WEFT_OK;
    size_t most = (size_t)d->places > TOKENS ? (size_t)d->places - TOKENS : 1;
    const int32_t *ids = n > most ? prompt + (n - most) : prompt;
    n = n > most ? most : n;
    int32_t *next = weft_alloc_zero((size_t)d->rows, sizeof *next);
    if (!next)
        return weft_fail_memory(err);
    weft_decoder_start(d, &ids, &n, 1);
    for (int k = 0; k < TOKENS && !s; k++) {
        s = weft_decoder_run(d, err);
        if (s)
            break;
        int32_t id = note(r, d, text, (*at)++);
        for (int64_t row = 0; row < d->rows; row++)
            next[row] = id;
        if (!weft_decoder_add(d, next))
            break;
    }
    weft_free(next);
    return s;
}

static weft_status write_texts(oracle_record *r, weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_decoder d = {0};
    weft_status s = weft_decoder_init(&d, run->plan, run, run->step, err);
    if (!s && plan->rank == 0)
        s = reserve(r, d.vocab, err);
    if (plan->plugins->control)
        s = weft_control_agree(plan->plugins->control, plan->rank, "recording", s, err);
    for (int i = 0, at = 0; !s && i < MOST_TEXTS; i++) {
        const int32_t *prompt;
        size_t n = 0;
        s = plan->generator->prompt(plan->generator_self, i, run->tokenizer, run->tokenizer_self,
                                    &prompt, &n, err);
        if (s || n == 0)
            break;
        s = write_text(r, &d, prompt, n, i, &at, err);
    }
    weft_decoder_release(&d);
    return s;
}

weft_status oracle_listen(oracle_record *r, weft_run *run, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (r->evaluate)
        s = weft_run_evaluate(run, err);
    if (!s && r->evaluate && run->plan->rank == 0) {
        r->said.loss = run->view.eval_loss;
        r->said.tokens = run->view.eval_tokens;
        r->said.unit = run->plan->unit;
    }
    bool writes = r->generate && run->plan->lowered[WEFT_MODE_GENERATE] && run->tokenizer;
    return s || !writes ? s : write_texts(r, run, err);
}

/* ---- comparing ---- */

/* A step has gone before, from which parameters part. Values of 8 bits are not looked at here: one
 * that turns is much of a row. */
static oracle_errors bound_of(oracle_record *a, const oracle_record *b)
{
    if (a->eighth || b->eighth)
        return (oracle_errors){.whole = ORACLE_TURNED, .scale = ORACLE_TURNED / 4};
    return oracle_bound(a, b, 1);
}

static void compare_loss(const oracle_record *a, const oracle_record *b, double bound,
                         oracle_verdict *v, weft_text *out)
{
    const oracle_said *x = &a->said, *y = &b->said;
    if (x->tokens == 0 && y->tokens == 0)
        return;
    weft_text_print(out, "validation: loss %.9g and %.9g, of %lld and %lld %s\n", x->loss, y->loss,
                    (long long)x->tokens, (long long)y->tokens, x->unit ? x->unit : y->unit);
    oracle_judge(v, x->tokens == y->tokens ? fabs(y->loss - x->loss) / fabs(x->loss) : INFINITY,
                 bound, "validation loss", a->n_steps - 1, "");
}

static double apart(const oracle_said *x, const oracle_said *y, int at)
{
    double difference = 0, size = 0;
    for (int64_t i = at * x->vocab; i < (at + 1) * x->vocab; i++) {
        double p = (double)x->logits[i], q = (double)y->logits[i];
        difference += (p - q) * (p - q);
        size += p * p;
    }
    return difference == 0 ? 0 : size > 0 ? sqrt(difference / size) : INFINITY;
}

static void compare_texts(const oracle_record *a, const oracle_record *b, double bound,
                          oracle_verdict *v, weft_text *out)
{
    const oracle_said *x = &a->said, *y = &b->said;
    double worst = 0;
    int others = 0;
    if (x->n == 0 && y->n == 0)
        return;
    if (x->n != y->n || x->vocab != y->vocab) {
        weft_text_print(out, "texts: %d and %d tokens of %lld and %lld ids\n", x->n, y->n,
                        (long long)x->vocab, (long long)y->vocab);
        oracle_judge(v, INFINITY, bound, "number of tokens written", a->n_steps - 1, "");
        return;
    }
    for (int i = 0; i < x->n; i++) {
        double error = apart(x, y, i);
        char name[48];
        snprintf(name, sizeof name, "token %d of text %d", i % TOKENS + 1, x->text_of[i] + 1);
        others += x->ids[i] != y->ids[i];
        worst = error > worst || error != error ? error : worst;
        oracle_judge(v, error, bound, "logits", a->n_steps - 1, name);
    }
    weft_text_print(out, "texts: %d tokens, logits up to %.2g apart", x->n, worst);
    if (others)
        weft_text_print(out, ", %d times another token the likeliest", others);
    weft_text_add(out, "\n");
}

void oracle_compare_said(oracle_record *a, const oracle_record *b, oracle_verdict *v,
                         weft_text *out)
{
    const oracle_errors bound = bound_of(a, b);
    compare_loss(a, b, bound.scale, v, out);
    compare_texts(a, b, bound.whole, v, out);
}
