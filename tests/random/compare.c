/* SPDX-License-Identifier: Apache-2.0 */
/* What two run folders say: are the numbers the same within what their dtypes allow? */
#include "random.h"

#include "../lib/read_safetensors.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 8, MOST_TEXT = 4096, MOST_DIMS = 6 };

/* As docs/oracle.md has it; steps behind the first part further. */
double random_bound(const random_case *c, int step)
{
    const char *dtype = random_get(c, RANDOM_ONE, "train", "dtype");
    bool wide = strcmp(dtype, "f64") == 0, half = random_lists(c, RANDOM_ONE, "bf16");
    if (!wide && random_lists(c, RANDOM_ONE, "float8"))
        return INFINITY; /* depends on what rounds to its other neighbour, which the oracle knows */
    double blocks = random_layers(c),
           tokens = random_number(c, RANDOM_ONE, "train", "seq_len",
                                  2 * random_number(c, RANDOM_ONE, "flux", "text", 1)) *
                    random_number(c, RANDOM_ONE, "train", "global_batch", 1),
           eps = ldexp(1, wide ? -53 : -24), activations = half ? ldexp(1, -8) : eps;
    double bound = 4 * (activations * sqrt(10 * (blocks + 1)) + eps * sqrt(tokens));
    return bound * (1 + 3 * (step - 1));
}

/* ---- metrics.jsonl ---- */

typedef struct figures {
    double loss, norm, validation, validated; /* NaN: not there */
} figures;

static void read_line(const char *line, figures steps[MOST_STEPS])
{
    json_t *object = json_loads(line, 0, NULL);
    json_int_t step = json_integer_value(json_object_get(object, "step"));
    static const char *const names[] = {"loss", "grad_norm", "eval_loss", "eval_tokens"};
    for (int i = 0; i < 4 && step >= 0 && step < MOST_STEPS; i++) {
        const json_t *value = json_object_get(object, names[i]);
        double *at[] = {&steps[step].loss, &steps[step].norm, &steps[step].validation,
                        &steps[step].validated};
        if (json_is_number(value))
            *at[i] = json_number_value(value);
    }
    json_decref(object);
}

static void read_metrics(const char *folder, figures steps[MOST_STEPS])
{
    char path[RANDOM_VALUE], line[MOST_TEXT];
    for (int i = 0; i < MOST_STEPS; i++)
        steps[i] = (figures){NAN, NAN, NAN, NAN};
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        read_line(line, steps);
    if (file)
        fclose(file);
}

static bool parts(double a, double b, double bound)
{
    return isnan(a) != isnan(b) || fabs(b - a) > bound * fabs(a);
}

static void tell(random_verdict *v, random_fault fault, const char *what, int step, double a,
                 double b, double bound)
{
    snprintf(v->like, sizeof v->like, "%s", what);
    random_say(v, fault, "%s of step %d: %.17g and %.17g, relative difference %.3g, bound %.3g",
               what, step, a, b, fabs(b - a) / fabs(a), bound);
}

void random_compare_metrics(const random_case *c, const char *one, const char *many, int from,
                            random_verdict *v)
{
    const double summed = ldexp(1, -44); /* a norm's own sum, of some 2^18 elements in f64 */
    figures a[MOST_STEPS], b[MOST_STEPS];
    read_metrics(one, a);
    read_metrics(many, b);
    int steps = random_number(c, RANDOM_ONE, "train", "steps", 0);
    for (int s = from + 1; s <= steps && s < MOST_STEPS && !v->fault; s++) {
        double now = random_bound(c, s), updated = random_bound(c, s + 1);
        if (isnan(a[s].loss) || parts(a[s].loss, b[s].loss, now))
            tell(v, RANDOM_LOSS, "loss", s, a[s].loss, b[s].loss, now);
        else if (parts(a[s].norm, b[s].norm, now + summed))
            tell(v, RANDOM_NORM, "gradient norm", s, a[s].norm, b[s].norm, now + summed);
        else if (parts(a[s].validated, b[s].validated, 0))
            tell(v, RANDOM_VALIDATION, "tokens validated", s, a[s].validated, b[s].validated, 0);
        else if (parts(a[s].validation, b[s].validation, updated))
            tell(v, RANDOM_VALIDATION, "validation loss", s, a[s].validation, b[s].validation,
                 updated);
    }
}

/* ---- texts ---- */

/* What follows the time in a line that shows a text: step N  "prompt"text. */
static const char *text_of(const char *line)
{
    const char *step = strstr(line, " step "), *quote = step ? strchr(step, '"') : NULL;
    return quote && quote > step + 2 && strncmp(quote - 2, "  \"", 3) == 0 ? step : NULL;
}

static void read_texts(const char *folder, char out[MOST_TEXT])
{
    char path[RANDOM_VALUE], line[MOST_TEXT];
    size_t used = 0;
    snprintf(path, sizeof path, "%s/log.txt", folder);
    FILE *file = fopen(path, "r");
    out[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        const char *text = text_of(line);
        if (text && used + strlen(text) < MOST_TEXT) {
            snprintf(out + used, MOST_TEXT - used, "%s", text);
            used += strlen(text);
        }
    }
    if (file)
        fclose(file);
}

void random_compare_texts(const char *one, const char *many, random_verdict *v)
{
    char a[MOST_TEXT], b[MOST_TEXT];
    read_texts(one, a);
    read_texts(many, b);
    if (strcmp(a, b) == 0 && *a)
        return;
    snprintf(v->like, sizeof v->like, "text");
    random_say(v, RANDOM_TEXT, "other texts:\n%.700sand\n%.700s", a, b);
}

/* ---- dumps ---- */

typedef struct whole {
    const char *name;
    double *x;
    bool *there;
    int64_t size[MOST_DIMS], count;
    int n_dims;
} whole;

static bool begin_whole(const weft_safetensor *t, whole *w)
{
    *w = (whole){.name = t->name, .count = safetensor_count(t), .n_dims = t->n_dims};
    memcpy(w->size, t->size, (size_t)t->n_dims * sizeof *w->size);
    w->x = weft_alloc_zero((size_t)w->count + 1, sizeof *w->x);
    w->there = weft_alloc_zero((size_t)w->count + 1, sizeof *w->there);
    return w->x && w->there;
}

static void end_whole(whole *w)
{
    weft_free(w->x);
    weft_free(w->there);
}

/* Where element i of a part lies in the whole. */
static int64_t place(const whole *w, const weft_safetensor *t, const int64_t first[MOST_DIMS],
                     int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        at += (first[d] + i % t->size[d]) * stride;
        i /= t->size[d];
        stride *= w->size[d];
    }
    return at;
}

/* "0,4 of 8,8", or nothing. */
static void read_first(const char *part, int64_t first[MOST_DIMS])
{
    memset(first, 0, MOST_DIMS * sizeof *first);
    for (int d = 0; part && d < MOST_DIMS; d++) {
        char *end = NULL;
        first[d] = strtoll(part, &end, 10);
        if (*end != ',')
            return;
        part = end + 1;
    }
}

static const char *add_part(const safetensors *file, const weft_safetensor *t, whole *w)
{
    char key[4 * RANDOM_VALUE];
    int64_t first[MOST_DIMS];
    snprintf(key, sizeof key, "part:%s", t->name);
    read_first(safetensors_metadata(file, key), first);
    for (int64_t i = 0; i < safetensor_count(t); i++) {
        int64_t at = place(w, t, first, i);
        if (at < 0 || at >= w->count)
            return "a part lies outside";
        double x = safetensor_get(t, i);
        if (w->there[at] && memcmp(&w->x[at], &x, sizeof x) != 0)
            return "replicas differ";
        w->there[at] = true;
        w->x[at] = x;
    }
    return NULL;
}

typedef struct dumps {
    safetensors *files[16];
    int n;
} dumps;

static bool open_dumps(const char *folder, int step, const char *group, int ranks, dumps *d)
{
    char path[4 * RANDOM_VALUE];
    weft_error err = {0};
    *d = (dumps){.n = 0};
    for (; d->n < ranks; d->n++) {
        if (ranks == 1)
            snprintf(path, sizeof path, "%s/dump/step-%d/%s.safetensors", folder, step, group);
        else
            snprintf(path, sizeof path, "%s/dump/step-%d/%s-rank-%d.safetensors", folder, step,
                     group, d->n);
        if (safetensors_read(path, &d->files[d->n], &err))
            break;
    }
    weft_error_release(&err);
    return d->n == ranks;
}

static void close_dumps(dumps *d)
{
    for (int i = 0; i < d->n; i++)
        safetensors_destroy(d->files[i]);
}

/* NULL: it is whole. */
static const char *assemble(const dumps *d, whole *w)
{
    const char *wrong = NULL;
    for (int i = 0; i < d->n && !wrong; i++) {
        const weft_safetensor *t = safetensors_find(d->files[i], w->name);
        wrong = t ? add_part(d->files[i], t, w) : NULL;
    }
    for (int64_t i = 0; i < w->count && !wrong; i++)
        wrong = w->there[i] ? NULL : "a part is nowhere";
    return wrong;
}

/* elements: of all tensors together. */
static double norm_of(const dumps *d, int64_t *elements)
{
    double sum = 0;
    *elements = 0;
    const weft_safetensor *t;
    for (int i = 0; (t = safetensors_at(d->files[0], i)); i++) {
        *elements += safetensor_count(t);
        for (int64_t k = 0; k < safetensor_count(t); k++)
            sum += safetensor_get(t, k) * safetensor_get(t, k);
    }
    return sqrt(sum);
}

/* Relative to the tensor, or to `least` where that is more: what is less is rounding alone. */
static double error_of(const weft_safetensor *t, const double *x, double least)
{
    double squares = 0, size = 0;
    for (int64_t i = 0; i < safetensor_count(t); i++) {
        double y = safetensor_get(t, i);
        squares += (x[i] - y) * (x[i] - y);
        size += y * y;
    }
    double scale = fmax(sqrt(size), least);
    return squares == 0 ? 0 : sqrt(squares) / scale;
}

static void compare_tensor(const weft_safetensor *t, const dumps *many, double least, double bound,
                           const char *group, int step, random_verdict *v)
{
    whole w;
    const char *wrong = begin_whole(t, &w) ? assemble(many, &w) : "out of memory";
    double error = wrong ? 0 : error_of(t, w.x, least);
    end_whole(&w);
    if (!wrong && error <= bound)
        return;
    snprintf(v->like, sizeof v->like, "%s: %s", group, wrong ? wrong : "part");
    if (wrong)
        random_say(v, RANDOM_DUMP, "dumped %s of step %d, %s: %s", group, step, t->name, wrong);
    else
        random_say(v, RANDOM_DUMP, "dumped %s of step %d, %s: relative difference %.3g, bound %.3g",
                   group, step, t->name, error, bound);
}

static void compare_step(const random_case *c, const char *one, const char *many, int step,
                         bool gradients, random_verdict *v)
{
    const char *group = gradients ? "gradients" : "parameters";
    dumps a, b = {.n = 0};
    bool there = open_dumps(one, step, group, 1, &a) &&
                 open_dumps(many, step, group, random_ranks(c, RANDOM_MANY), &b);
    if (!there) {
        snprintf(v->like, sizeof v->like, "no dump");
        random_say(v, RANDOM_DUMP, "the dump of %s of step %d cannot be read", group, step);
    }
    const weft_safetensor *t;
    int64_t elements = 1;
    double all = there ? norm_of(&a, &elements) : 0,
           bound = random_bound(c, step) * (gradients ? 1 : 4);
    for (int i = 0; there && !v->fault && (t = safetensors_at(a.files[0], i)); i++) {
        /* as weft oracle has it: a 64th of the tensor's share */
        double share = all * sqrt((double)safetensor_count(t) / (double)elements);
        compare_tensor(t, &b, fmax(share / 64, all / 1000), bound, group, step, v);
    }
    close_dumps(&b);
    close_dumps(&a);
}

void random_compare_dumps(const random_case *c, const char *one, const char *many,
                          random_verdict *v)
{
    for (int i = 0; i < c->n_settings && !v->fault; i++) {
        const random_setting *s = &c->settings[i];
        if (strcmp(s->section, "dump") != 0 || strcmp(s->key, "steps") != 0)
            continue;
        compare_step(c, one, many, atoi(s->value), false, v);
        if (!v->fault)
            compare_step(c, one, many, atoi(s->value), true, v);
    }
}
