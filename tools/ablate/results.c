/* SPDX-License-Identifier: Apache-2.0 */
/* What the cells have made of it. */
#include "ablate.h"

#include "folder.h"
#include "study/differ.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has(const json_t *lines, const char *key)
{
    return isfinite(weft_lines_last(lines, key, NULL));
}

/* What all have: the head's own loss where somebody's has several terms, for the others have no
 * other; else validation's, if all validate; else the loss of training. */
static const char *choose_metric(const ablation *a)
{
    bool terms = false, validation = true, any = false;
    for (int i = 0; i < a->n_cells; i++) {
        if (!a->cells[i].lines)
            continue;
        any = true;
        terms = terms || has(a->cells[i].lines, "loss.head");
        validation = validation && has(a->cells[i].lines, "eval_loss");
    }
    return terms ? "loss.head" : any && validation ? "eval_loss" : "loss";
}

weft_status ablate_read_cells(ablation *a, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < a->n_cells && !s; i++)
        if (a->cells[i].state == ABLATE_DONE && !a->cells[i].lines)
            s = weft_folder_read_metrics(a->cells[i].dir, 0, &a->cells[i].lines, err);
    if (!a->metric)
        a->metric = choose_metric(a);
    return s;
}

const ablate_cell *ablate_cell_of(const ablation *a, int variant, int seed)
{
    const ablate_cell *cell = &a->cells[variant * a->n_seeds + seed];
    return cell->lines ? cell : NULL;
}

/* A loss of one term has that as its head's. */
double ablate_value(const ablation *a, const json_t *line)
{
    const json_t *x = json_object_get(line, a->metric);
    if (!x && strcmp(a->metric, "loss.head") == 0)
        x = json_object_get(line, "loss");
    return json_is_number(x) ? json_number_value(x) : NAN;
}

bool ablate_has(const ablation *a, const json_t *lines)
{
    return weft_lines_have(lines, a->metric) ||
           (strcmp(a->metric, "loss.head") == 0 && weft_lines_have(lines, "loss"));
}

static double last_value(const ablation *a, const ablate_cell *cell)
{
    for (size_t i = cell ? json_array_size(cell->lines) : 0; i > 0; i--) {
        const double x = ablate_value(a, json_array_get(cell->lines, i - 1));
        if (isfinite(x))
            return x;
    }
    return NAN;
}

/* ---- bits ---- */

/* The first step that tells the bits of two apart; 0: none does. */
static int64_t first_apart(const ablate_cell *x, const ablate_cell *y, bool *same_bits)
{
    json_t *values = json_array();
    weft_differ_values(x->lines, y->lines, values, same_bits);
    const int64_t first = json_integer_value(json_object_get(weft_differ_parting(values), "step"));
    json_decref(values);
    return first;
}

static void find_bits(const ablation *a, int variant, ablate_result *r)
{
    int compared = 0;
    bool all_same = true;
    for (int k = 0; k < a->n_seeds; k++) {
        const ablate_cell *x = ablate_cell_of(a, 0, k), *y = ablate_cell_of(a, variant, k);
        bool same = false;
        if (!x || !y)
            continue;
        compared++;
        const int64_t first = first_apart(x, y, &same);
        all_same = all_same && same && !first;
        if (first && (!r->from || first < r->from))
            r->from = first;
    }
    r->bits = !compared ? "" : r->from ? "from step" : all_same ? "equal" : "same figures";
}

/* ---- did plugins keep what they declare? ---- */

static int tier_of(const json_t *plan, const char *plugin)
{
    static const char *const tiers[] = {"bitwise", "tolerance", "changes"};
    const char *word =
        json_string_value(json_object_get(json_object_get(plan, "numerics"), plugin));
    for (int i = 0; word && i < 3; i++)
        if (strcmp(word, tiers[i]) == 0)
            return i;
    return 2;
}

/* The least strict of what the plugins that are listed otherwise declare; -1: the variant is
 * another for other reasons, too, or for none. */
static int declared(const json_t *base, const json_t *plan)
{
    json_t *list = json_array();
    int tier = -1;
    size_t i;
    const json_t *o;
    weft_differ_settings(base, plan, list);
    json_array_foreach(list, i, o) {
        const char *kind = json_string_value(json_object_get(o, "kind")),
                   *what = json_string_value(json_object_get(o, "what"));
        if (strcmp(kind, "plugin") != 0) {
            tier = -1;
            break;
        }
        const int own = tier_of(json_is_null(json_object_get(o, "b")) ? base : plan, what);
        tier = own > tier ? own : tier;
    }
    json_decref(list);
    return tier;
}

static double first_loss(const ablate_cell *cell)
{
    const json_t *x = cell ? json_object_get(json_array_get(cell->lines, 0), "loss") : NULL;
    return json_is_number(x) ? json_number_value(x) : NAN;
}

/* Of the first loss, which no update has touched yet. */
static double first_error(const ablation *a, int variant)
{
    double worst = 0;
    for (int k = 0; k < a->n_seeds; k++) {
        const double x = first_loss(ablate_cell_of(a, 0, k)),
                     y = first_loss(ablate_cell_of(a, variant, k));
        if (isfinite(x) && isfinite(y) && x != 0)
            worst = fmax(worst, fabs(y - x) / fabs(x));
    }
    return worst;
}

static void judge(const ablation *a, int variant, ablate_result *r)
{
    static const double allowed = 1e-4; /* rounding in f32 leaves far less, an error far more */
    const int tier = variant ? declared(a->plans[0], a->plans[variant]) : -1;
    const double error = first_error(a, variant);
    if (tier == 0)
        snprintf(r->numerics, sizeof r->numerics, "bitwise: %s",
                 r->from                         ? "NOT KEPT"
                 : strcmp(r->bits, "equal") == 0 ? "kept"
                                                 : "as it seems");
    else if (tier == 1)
        snprintf(r->numerics, sizeof r->numerics, "tolerance: %s (%.1g)",
                 error <= allowed ? "kept" : "NOT KEPT", error);
    else if (tier == 2)
        snprintf(r->numerics, sizeof r->numerics, "changes");
}

/* ---- one line of the table ---- */

ablate_result ablate_result_of(const ablation *a, int variant)
{
    ablate_result r = {.bits = ""};
    double values[1000], differences[1000];
    int n = 0, pairs = 0, rates = 0;
    for (int k = 0; k < a->n_seeds; k++) {
        const ablate_cell *cell = ablate_cell_of(a, variant, k);
        const double x = last_value(a, cell), base = last_value(a, ablate_cell_of(a, 0, k));
        if (!cell)
            continue;
        if (isfinite(x))
            values[n++] = x;
        if (isfinite(x) && isfinite(base))
            differences[pairs++] = x - base;
        const double rate = weft_lines_median(cell->lines, weft_lines_rate(cell->lines));
        if (isfinite(rate)) {
            r.rate += rate;
            rates++;
        }
        r.peak = fmax(r.peak, weft_lines_most(cell->lines, "peak_bytes"));
    }
    r.rate = rates ? r.rate / rates : NAN;
    r.value = ablate_describe(values, n);
    r.difference = ablate_describe(differences, pairs);
    if (variant)
        find_bits(a, variant, &r);
    judge(a, variant, &r);
    return r;
}
