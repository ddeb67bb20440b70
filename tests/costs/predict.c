/* SPDX-License-Identifier: Apache-2.0 */
/* predict INI VECTORS: what `weft plan` would predict of many runs, each by many sets of numbers. A
 * line of the input is a run: its name, its tags "a100,megatron", ranks and edits ("key=value" or
 * "+plugin@place"), separated by tabs. A line of VECTORS is a set: "a100.product*1.04
 * megatron.costs.enqueue*0.9", of runs with a tag, or of "all", what is multiplied by how much. A
 * line of the output: the name, bytes of the rank that holds most, seconds by each set. */
#include "cli.h"
#include "forecast/forecast.h"
#include "forecast/profiles.h"
#include "session.h"

#include "../../plugins/costs/costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EDITS = 64, MOST_LINE = 8192 };

typedef struct run {
    char *name, *tags;
    int ranks, n_edits;
    weft_cli_edit edits[MOST_EDITS];
} run;

/* ---- numbers ---- */

static bool change_cost(costs *c, const char *key, double factor)
{
    const struct {
        const char *key;
        double *at;
    } keys[] = {{"enqueue", &c->enqueue},
                {"beside", &c->beside},
                {"step", &c->step},
                {"micro_batch", &c->micro_batch},
                {"products", &c->products},
                {"products8", &c->products8},
                {"attention", &c->attention},
                {"elementwise", &c->elementwise},
                {"norms", &c->norms},
                {"loss", &c->loss},
                {"updates", &c->updates},
                {"gradients", &c->gradients},
                {"calls", &c->calls},
                {"scores", &c->scores},
                {"score_products", &c->score_products}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, key) == 0) {
            *keys[i].at *= factor;
            return true;
        }
    return false;
}

static bool has_tag(const run *r, const char *tag, size_t n)
{
    const char *at = r->tags;
    for (; at; at = strchr(at, ','), at += at != NULL)
        if (strcspn(at, ",") == n && memcmp(at, tag, n) == 0)
            return true;
    return n == 3 && memcmp(tag, "all", 3) == 0;
}

/* Words "a100.product*1.04", "megatron.costs.enqueue*2". */
static bool apply(const char *line, const run *r, weft_device_rates *rates, costs *own)
{
    char text[MOST_LINE], *rest = text;
    snprintf(text, sizeof text, "%s", line);
    for (char *word; (word = strtok_r(rest, " \n", &rest));) {
        char *dot = strchr(word, '.'), *star = dot ? strchr(dot, '*') : NULL;
        if (!star)
            return false;
        *star = '\0';
        const double factor = strtod(star + 1, NULL);
        if (!has_tag(r, word, (size_t)(dot - word)))
            continue;
        if (strncmp(dot, ".costs.", 7) == 0 ? !own || !change_cost(own, dot + 7, factor)
                                            : !weft_rates_scale(rates, dot + 1, factor))
            return false;
    }
    return true;
}

/* ---- a run ---- */

static weft_status most_bytes(const weft_plan *plan, const weft_forecast *f, double *bytes,
                              weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int r = 0; r < plan->tasks[WEFT_MODE_TRAIN]->ranks && !s; r++) {
        const weft_plan *of = f->ranks[r] == plan->lowered[WEFT_MODE_TRAIN] ? plan : &f->others[r];
        weft_libraries l;
        s = weft_plan_libraries(of, &l, err);
        if (!s)
            *bytes = fmax(*bytes, (double)weft_plan_bytes(of) +
                                      (double)(l.device + l.captured + l.loading + l.transport));
    }
    return s;
}

static weft_status predict(const weft_plan *plan, const run *r, char **vectors, int n,
                           double *seconds, double *bytes, weft_error *err)
{
    weft_roofline roofline;
    weft_forecast first, f;
    weft_plan_roofline(plan, &roofline);
    costs *own = roofline.model_self;
    const costs before = own ? *own : (costs){0};
    weft_device_rates zeroth = {0};
    costs zero = {0};
    weft_status s = weft_plan_forecast(plan, &roofline, &first, err);
    if (s)
        return s;
    s = most_bytes(plan, &first, bytes, err);
    for (int i = 0; i < n && !s; i++) {
        costs changed = before;
        weft_device_find_rates(plan, &roofline.rates);
        if (!apply(vectors[i], r, &roofline.rates, &changed))
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "not understood: %s", vectors[i]);
        if (own)
            *own = changed;
        weft_roofline_ask(&roofline);
        if (i == 0) {
            zeroth = roofline.rates;
            zero = changed;
        } else if (memcmp(&zeroth, &roofline.rates, sizeof zeroth) == 0 &&
                   memcmp(&zero, &changed, sizeof zero) == 0) {
            seconds[i] = seconds[0];
            continue;
        }
        s = s ? s : weft_plan_forecast_like(plan, &roofline, &first, &f, err);
        seconds[i] = s ? 0 : f.step_s;
        if (!s)
            weft_forecast_release(plan, &f);
    }
    if (own)
        *own = before;
    weft_forecast_release(plan, &first);
    return s;
}

static weft_status plan_one(const char *ini, run *r, char **vectors, int n, double *seconds,
                            double *bytes, weft_error *err)
{
    weft_session session = {0};
    weft_plan *plan = NULL;
    const weft_cli_options options = {
        .ini = ini, .edits = r->edits, .n_edits = r->n_edits, .ranks = r->ranks, .silent = true};
    const weft_plan_options how = {.ranks = r->ranks, .train_only = true};
    weft_status s = weft_session_init(&session, &options, 0, NULL, true, err);
    s = s ? s : weft_plan_create(session.plugins, session.settings, &how, &plan, err);
    s = s ? s : weft_plan_check(plan, err);
    if (!s && weft_plan_idle(plan))
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "more shares than samples");
    s = s ? s : predict(plan, r, vectors, n, seconds, bytes, err);
    weft_plan_destroy(plan);
    weft_session_release(&session);
    return s;
}

static void read_run(char *line, run *r)
{
    char *rest = line;
    *r = (run){.name = strsep(&rest, "\t")};
    r->tags = strsep(&rest, "\t");
    r->ranks = rest ? atoi(strsep(&rest, "\t")) : 1;
    for (char *word; rest && (word = strsep(&rest, "\t")) && r->n_edits < MOST_EDITS;) {
        word[strcspn(word, "\n")] = '\0';
        if (*word)
            r->edits[r->n_edits++] = (weft_cli_edit){*word == '+' ? WEFT_CLI_WITH : WEFT_CLI_SET,
                                                     word + (*word == '+'), NULL};
    }
}

int main(int argc, char **argv)
{
    char line[MOST_LINE], *vectors[512];
    int n = 0;
    FILE *file = argc == 3 ? fopen(argv[2], "r") : NULL;
    if (!file) {
        fprintf(stderr, "predict INI VECTORS <RUNS\n");
        return 2;
    }
    while (n < 512 && fgets(line, sizeof line, file))
        vectors[n++] = weft_strdup(line);
    fclose(file);
    while (fgets(line, sizeof line, stdin)) {
        run r;
        double seconds[512] = {0}, bytes = 0;
        weft_error err = {0};
        read_run(line, &r);
        if (plan_one(argv[1], &r, vectors, n, seconds, &bytes, &err)) {
            printf("%s\trefused\t%s\n", r.name, weft_error_text(&err));
        } else {
            printf("%s\t%.17g", r.name, bytes);
            for (int i = 0; i < n; i++)
                printf("\t%.9g", seconds[i]);
            printf("\n");
        }
        fflush(stdout);
        weft_error_release(&err);
    }
    for (int i = 0; i < n; i++)
        weft_free(vectors[i]);
    return 0;
}
