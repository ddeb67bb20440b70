/* SPDX-License-Identifier: Apache-2.0 */
#include "parity.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const double tolerance = 1e-12;

static weft_tensor keep(weft_pool *pool, weft_tensor t)
{
    const void *from = t.data;
    sim_allocate(&t, pool);
    memcpy(t.data, from, (size_t)weft_tensor_count(&t) * sizeof(double));
    return t;
}

void parity_run(const planned *p, int steps, bool (*stuck)(const weft_node *), double replicas,
                parity_result *r)
{
    sim m;
    memset(r, 0, sizeof *r);
    sim_init(&m, p->g, 1);
    m.stuck = stuck;
    if (replicas > 0)
        m.tolerance = replicas;
    for (int i = 0; i < steps; i++)
        sim_run(&m);
    r->loss = sim_scalar(&m, p->g->loss_report);
    r->norm = sim_scalar(&m, planned_report(p, "grad_norm"));
    weft_value *v;
    for (int i = 0; (v = weft_graph_parameter(p->g, i)); i++) {
        assert_true(i < PARITY_MAX_PARAMETERS);
        r->name[i] = weft_pool_strdup(&r->pool, v->name);
        r->gradient[i] = keep(&r->pool, sim_value(&m, v->gradient));
        r->now[i] = keep(&r->pool, sim_value(&m, v));
        r->n = i + 1;
    }
    sim_release(&m);
}

void parity_release(parity_result *r)
{
    weft_pool_release(&r->pool);
    memset(r, 0, sizeof *r);
}

/* |a - b| / |b|; floor: what counts as nothing (a key's bias has no gradient but rounding). */
static double distance(const weft_tensor *a, const weft_tensor *b, double floor)
{
    double d = 0, n = floor * floor;
    assert_int_equal(weft_tensor_count(a), weft_tensor_count(b));
    for (int64_t i = 0; i < weft_tensor_count(b); i++) {
        double x = weft_tensor_get(a, i), y = weft_tensor_get(b, i);
        d += (x - y) * (x - y);
        n += y * y;
    }
    return sqrt(d / n);
}

static void take_worse(double d, const char *what, double *worst, const char **of)
{
    if (d <= *worst) /* not a number is worse */
        return;
    *worst = d;
    *of = what;
}

double parity_worst(const parity_result *a, const parity_result *one, const char **what)
{
    double worst = 0;
    *what = "nothing";
    assert_int_equal(a->n, one->n);
    take_worse(fabs(a->loss - one->loss) / fabs(one->loss), "the loss", &worst, what);
    take_worse(fabs(a->norm - one->norm) / one->norm, "the gradients' norm", &worst, what);
    for (int i = 0; i < one->n; i++) {
        assert_string_equal(a->name[i], one->name[i]);
        take_worse(distance(&a->gradient[i], &one->gradient[i], 1e-3 * one->norm), one->name[i],
                   &worst, what);
        take_worse(distance(&a->now[i], &one->now[i], 0), one->name[i], &worst, what);
    }
    return worst;
}

static void words_of(const weft_error *err, weft_text *why)
{
    for (int i = 0; i < err->n_items; i++)
        weft_text_print(why, "%s%s", i ? "; " : "", err->items[i].text);
}

typedef struct reference {
    planned_spec spec;
    int steps;
    parity_result result;
} reference;

static bool same_model(const planned_spec *a, const planned_spec *b)
{
    return a->model == b->model && a->ini == b->ini && a->seq == b->seq && a->batch == b->batch;
}

const parity_result *parity_reference(const planned_spec *spec, int steps)
{
    static reference known[32];
    static int n;
    planned_spec one = {
        .axes = "", .passes = "", .model = spec->model, .ini = spec->ini, .seq = spec->seq};
    one.batch = (spec->batch ? spec->batch : 4) * (spec->micro ? spec->micro : 1);
    for (int i = 0; i < n; i++)
        if (same_model(&known[i].spec, &one) && known[i].steps == steps)
            return &known[i].result;
    assert_true(n < 32);
    planned p;
    if (planned_init(&p, &one))
        fail_msg("one rank: %s", weft_error_text(&p.err));
    known[n] = (reference){.spec = one, .steps = steps};
    parity_run(&p, steps, NULL, 0, &known[n].result);
    planned_release(&p);
    return &known[n++].result;
}

weft_status parity_check(const planned_spec *spec, int steps, weft_text *why)
{
    planned p;
    weft_status s = planned_init(&p, spec);
    if (s == WEFT_OK) {
        parity_result r;
        const char *what;
        parity_run(&p, steps, NULL, 0, &r);
        double worst = parity_worst(&r, parity_reference(spec, steps), &what);
        if (!(worst < tolerance))
            fail_msg("mesh %s, passes %s, dice %d: %s is off by %.2g", spec->axes, spec->passes,
                     (int)spec->dice, what, worst);
        parity_release(&r);
    } else {
        words_of(&p.err, why);
    }
    planned_release(&p);
    return s;
}

void parity_must(const planned_spec *spec, int steps)
{
    weft_text why = {0};
    if (parity_check(spec, steps, &why))
        fail_msg("mesh %s, passes %s: %s", spec->axes, spec->passes, weft_text_get(&why));
    weft_text_release(&why);
}
