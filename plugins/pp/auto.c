/* SPDX-License-Identifier: Apache-2.0 */
/* schedule = auto. What stages take is known when there is a plan: the first one, and another with
 * two stages a rank, run micro-batch after micro-batch, and are there to be looked at. The best
 * lists for these times are what the next plan is made with; the run folder keeps them. */
#include "search.h"

#include <math.h>
#include <string.h>
#include <weft/files.h>

typedef struct pp_auto {
    char *path, *settings; /* of the run folder's file, and its first line; path NULL: no folder */
    const char *times;     /* NULL: predicted */
    bool either;           /* one stage a rank or two, as is better */
    bool kept;             /* the lists are those of the run folder */
    bool written;
    char *notes;   /* lines that say what was chosen, and what else there was */
    int shift;     /* a unit of time: 2^-shift seconds */
    int64_t least; /* bytes of one micro-batch where they are most, and that rank */
    int least_rank;
    pp_choice choice;
} pp_auto;

/* ---- settings ---- */

static char *print_settings(const pp *self)
{
    static const char *const keys[] = {"degree",           "placement", "virtual_stages", "split",
                                       "layers_per_stage", "alive",     "times"};
    const weft_params *train = self->host->train;
    weft_text text = {0};
    weft_text_add(&text, "# schedule = auto:");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        weft_text_print(&text, " %s = %s,", keys[i], weft_params_text(self->params, keys[i]));
    weft_text_print(&text, " global_batch = %s, micro_batch = %s\n",
                    weft_params_text(train, "global_batch"),
                    weft_params_text(train, "micro_batch"));
    char *out = text.out_of_memory ? NULL : weft_strdup(weft_text_get(&text));
    weft_text_release(&text);
    return out;
}

/* Micro-batches are a whole number, bytes have a unit. */
weft_status pp_alive_read(pp *self, weft_error *err)
{
    const char *text = weft_params_text(self->params, "alive");
    double n = 0;
    if (strcmp(text, "auto") == 0)
        return WEFT_OK;
    if (weft_parse_bytes(text, &n) && n >= 1) {
        const bool unit = text[strlen(text) - 1] > '9';
        *(unit ? &self->bytes : &self->alive) = (int64_t)n;
        if (unit || (n <= 1 << 20 && !text[strspn(text, "0123456789")]))
            return WEFT_OK;
    }
    return weft_fail(
        err, WEFT_ERR_INPUT, weft_params_where(self->params, "alive"),
        "[pp] alive = %s: it is a number of micro-batches from 1 to 1048576, bytes with "
        "their unit, as 20 GiB, or auto",
        text);
}

weft_status pp_auto_create(pp *self, weft_error *err)
{
    const weft_params *p = self->params;
    const char *dir = self->host->no_data ? "" : weft_params_text(self->host->weft, "dir"),
               *times = weft_params_text(p, "times");
    pp_auto *a = self->automatic = weft_alloc_zero(1, sizeof *a);
    if (!a)
        return weft_fail_memory(err);
    a->settings = print_settings(self);
    a->path = *dir ? weft_format("%s/schedule.txt", dir) : NULL;
    a->times = *times ? times : NULL;
    a->either = weft_params_is(p, "virtual_stages", "auto") && weft_params_is(p, "split", "auto") &&
                weft_params_is(p, "layers_per_stage", "auto");
    return a->settings && (a->path || !*dir) ? WEFT_OK : weft_fail_memory(err);
}

void pp_auto_destroy(pp *self)
{
    pp_auto *a = self->automatic;
    if (!a)
        return;
    pp_choice_release(&a->choice);
    weft_free(a->path);
    weft_free(a->settings);
    weft_free(a->notes);
    weft_free(a);
}

/* ---- the run folder ---- */

/* Comments that begin a text, without their signs. */
static char *take_notes(const char *text)
{
    weft_text notes = {0};
    for (size_t n; *text == '#' && text[n = strcspn(text, "\n")]; text += n + 1)
        if (n > 2)
            weft_text_add_bytes(&notes, text + 2, n - 1);
    char *out = notes.out_of_memory ? NULL : weft_strdup(weft_text_get(&notes));
    weft_text_release(&notes);
    return out;
}

/* Lists that were made for other settings are none. */
static weft_status read_kept(pp *self, weft_error *err)
{
    pp_auto *a = self->automatic;
    weft_error none = {0};
    char *text = NULL;
    size_t size = 0;
    const weft_status there = a->path ? weft_read_file(a->path, &text, &size, &none) : WEFT_ERR_IO;
    weft_error_release(&none);
    if (there)
        return WEFT_OK;
    weft_status s = WEFT_OK;
    if (strncmp(text, a->settings, strlen(a->settings)) == 0) {
        a->notes = take_notes(text + strlen(a->settings));
        s = a->notes ? pp_lists_read(a->path, text, size, &self->lists, err)
                     : weft_fail_memory(err);
    } else {
        weft_inform(self->host, "%s is of other settings: a schedule is looked for anew", a->path);
    }
    weft_free(text);
    a->kept = !s && self->lists.name;
    if (a->kept)
        weft_inform(self->host, "[pp] schedule = auto: lists are those of %s", a->path);
    return s;
}

weft_status pp_auto_begin(pp *self, weft_error *err)
{
    pp_auto *a = self->automatic;
    pp_lists_release(&self->lists);
    pp_choice_release(&a->choice);
    pp_forget_split(self);
    weft_free(a->notes);
    a->notes = NULL;
    a->least = 0;
    self->trying = 0;
    const weft_status s = read_kept(self, err);
    self->trying = a->kept ? 0 : 1;
    return s;
}

unsigned pp_auto_wants(void *self)
{
    const pp *p = self;
    const bool writes = p->automatic && p->host->rank == 0 && !p->automatic->kept;
    return writes ? WEFT_EVENT_STEP_END : 0;
}

static void print_lists(const pp_lists *l, weft_text *text)
{
    for (size_t i = 0; i < l->n; i++) {
        const pp_item *item = &l->items[i];
        if (i == 0 || item->rank != l->items[i - 1].rank)
            weft_text_print(text, "%srank %d:", i ? "\n" : "", item->rank);
        weft_text_print(text, " %d%c%lld", item->stage, item->letter, (long long)item->micro);
    }
    weft_text_add(text, "\n");
}

weft_status pp_auto_observe(void *self, weft_event event, const weft_run_view *run, weft_error *err)
{
    pp *p = self;
    pp_auto *a = p->automatic;
    weft_text text = {0};
    (void)event;
    if (a->written || !a->path || !run->dir || !p->lists.n)
        return WEFT_OK;
    weft_text_add(&text, a->settings);
    for (const char *line = a->notes; *line; line += strcspn(line, "\n") + 1)
        weft_text_print(&text, "# %.*s\n", (int)strcspn(line, "\n"), line);
    print_lists(&p->lists, &text);
    weft_status s = text.out_of_memory ? weft_fail_memory(err)
                                       : weft_write_file(a->path, text.data, text.size, err);
    weft_text_release(&text);
    a->written = !s;
    return s;
}

/* ---- plans that are there to be looked at ---- */

weft_status pp_auto_fill(const weft_pipeline_view *view, weft_tasks *tasks, weft_error *err)
{
    static const weft_part back[] = {WEFT_PART_B, WEFT_PART_W};
    weft_status s = WEFT_OK;
    for (int64_t m = 0; m < view->micro_batches && !s; m++) {
        for (int i = 0; i < view->stages && !s; i++)
            s = weft_tasks_add(tasks, view->rank_of[i], WEFT_PART_F, i, m, err);
        for (int i = 2 * view->stages - 1; i >= 0 && !s; i--)
            s = weft_tasks_add(tasks, view->rank_of[i / 2], back[1 - i % 2], i / 2, m, err);
    }
    return s;
}

static int64_t ticks(double seconds, int shift)
{
    return llrint(ldexp(seconds, shift));
}

/* The unit is a power of two, so that the last digit of a prediction, which another machine may
 * round otherwise, changes nothing. */
static void find_unit(pp_auto *a, const weft_planned_stage *planned, int n)
{
    double most = 0;
    int exponent;
    for (int i = 0; i < n; i++)
        most = fmax(most, fmax(planned[i].forward, planned[i].backward + planned[i].weights));
    frexp(most, &exponent);
    a->shift = 20 - exponent;
}

static pp_stage stage_of(const weft_planned_stage *p, int shift)
{
    return (pp_stage){
        .takes = {ticks(p->forward, shift), ticks(p->backward, shift), ticks(p->weights, shift)},
        .sends = {ticks(p->sends_on, shift), ticks(p->sends_back, shift)},
        .kept = p->kept,
        .held = p->held};
}

/* No schedule holds less than one micro-batch. Of placements that are tried the one that needs
 * least. */
static void find_least(pp_auto *a, const pp_pipeline *p)
{
    int most = 0;
    for (int r = 1; r < p->view.ranks; r++)
        most = pp_unit(p, r) > pp_unit(p, most) ? r : most;
    if (a->least && a->least <= pp_unit(p, most))
        return;
    a->least = pp_unit(p, most);
    a->least_rank = most;
}

static weft_status choose_placed(pp_auto *a, pp_pipeline *p, bool v, int *rank_of, weft_error *err)
{
    const int ranks = p->view.ranks;
    pp_choice one = {0};
    for (int s = 0; s < p->view.stages; s++)
        rank_of[s] = v && s / ranks % 2 ? ranks - 1 - s % ranks : s % ranks;
    p->view.rank_of = rank_of;
    find_least(a, p);
    weft_status s = pp_choose(p, v, &one, err);
    s = s ? s : pp_improve(p, &one, err);
    s = s ? s : pp_choice_add(&a->choice, &one, err);
    pp_choice_release(&one);
    return s;
}

static weft_status choose(const pp *self, weft_plan *plan, weft_error *err)
{
    pp_auto *a = self->automatic;
    const weft_pipeline_view view = weft_plan_pipeline(plan);
    const size_t n = (size_t)view.stages;
    weft_planned_stage *planned = weft_alloc_zero(n, sizeof *planned);
    pp_stage *stages = weft_alloc_zero(n, sizeof *stages);
    int *rank_of = weft_alloc_zero(n, sizeof *rank_of);
    weft_status s = planned && stages && rank_of ? weft_plan_stages(plan, a->times, planned, err)
                                                 : weft_fail_memory(err);
    if (!s && a->choice.n == 0)
        find_unit(a, planned, view.stages);
    for (size_t i = 0; i < n && !s; i++)
        stages[i] = stage_of(&planned[i], a->shift);
    pp_pipeline p = {.view = view,
                     .stages = stages,
                     .alive = self->alive ? self->alive : view.ranks + 1,
                     .bytes = self->bytes};
    const bool one = view.stages == view.ranks;
    for (int v = 0; v < 2 && !s; v++)
        if (one ? !v : !weft_params_is(self->params, "placement", v ? "loop" : "v"))
            s = choose_placed(a, &p, v, rank_of, err);
    weft_free(planned);
    weft_free(stages);
    weft_free(rank_of);
    return s;
}

/* ---- what is said ---- */

static void print_candidate(const pp_auto *a, const pp_candidate *c, weft_text *text)
{
    weft_text_add(text, c->name);
    if (c->turns > 1)
        weft_text_print(text, " with %d stages a rank%s", c->turns, c->v ? " on a V" : "");
    const double seconds = ldexp((double)c->length.ends, -a->shift);
    const int unit = seconds >= 1 ? 0 : seconds >= 1e-3 ? 1 : 2;
    static const char *const units[] = {"s", "ms", "us"};
    static const double of[] = {1, 1e3, 1e6};
    weft_text_print(text, " %.4g %s, idle %.2f %%, alive %.1f", of[unit] * seconds, units[unit],
                    100 * c->idle, (double)c->length.thousand / 1000);
}

static bool is_greedy(const pp_candidate *c)
{
    return strncmp(c->name, "greedy", 6) == 0;
}

/* Of greedy lists the one of each placement that ends first; of all others each. */
static bool is_told(const pp_auto *a, int i)
{
    const pp_candidate *c = &a->choice.list[i];
    for (int k = 0; k < a->choice.n && is_greedy(c); k++) {
        const pp_candidate *o = &a->choice.list[k];
        const int64_t more = o->length.ends - c->length.ends;
        if (is_greedy(o) && o->turns == c->turns && o->v == c->v &&
            (more < 0 || (more == 0 && k < i)))
            return false;
    }
    return true;
}

static char *print_notes(const pp_auto *a)
{
    weft_text text = {0};
    weft_text_add(&text, "schedule, from the first forward to the last backward: ");
    print_candidate(a, &a->choice.best, &text);
    weft_text_add(&text, "\n");
    for (int i = 0; i < a->choice.n; i++) {
        if (!is_told(a, i))
            continue;
        weft_text_add(&text, "instead: ");
        print_candidate(a, &a->choice.list[i], &text);
        weft_text_print(&text, "%s\n", a->choice.list[i].length.fits ? "" : ", which is too many");
    }
    char *out = text.out_of_memory ? NULL : weft_strdup(weft_text_get(&text));
    weft_text_release(&text);
    return out;
}

void pp_auto_note(const pp *self, weft_graph *g)
{
    const pp_auto *a = self->automatic;
    if (!a || self->trying || !a->notes)
        return;
    for (const char *line = a->notes; *line; line += strcspn(line, "\n") + 1)
        weft_graph_note(g, "%.*s", (int)strcspn(line, "\n"), line);
    if (a->kept)
        weft_graph_note(g, "lists are those of %s", a->path);
}

static weft_status ask(weft_plan *plan, weft_text *text, weft_error *err)
{
    weft_status s = text->out_of_memory
                        ? weft_fail_memory(err)
                        : weft_plan_ask(plan, "pp schedule", weft_text_get(text), err);
    weft_text_release(text);
    return s;
}

static weft_status too_little(const pp *self, weft_error *err)
{
    const pp_auto *a = self->automatic;
    weft_text text = {0};
    weft_print_bytes(&text, (double)a->least);
    const weft_status s = weft_fail(
        err, WEFT_ERR_INPUT, weft_params_where(self->params, "alive"),
        "[pp] alive = %s: rank %d of the pipeline holds %s of one micro-batch alone, from "
        "its forward to the last that is read of it; give at least that, or list ac, with another "
        "mode "
        "than budget, which keeps all while a schedule is looked for",
        weft_params_text(self->params, "alive"), a->least_rank, weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* The best is what the next plan is made with. */
static weft_status adopt(pp *self, weft_plan *plan, weft_error *err)
{
    pp_auto *a = self->automatic;
    weft_text text = {0}, lists = {0};
    if (self->bytes && !a->choice.best.length.fits)
        return too_little(self, err);
    self->trying = 0;
    self->lists = a->choice.lists;
    a->choice.lists = (pp_lists){0};
    self->lists.ranks = (int)self->degree;
    self->lists.name = weft_strdup("auto");
    a->notes = print_notes(a);
    weft_status s =
        self->lists.name && a->notes ? pp_lists_sum_up(&self->lists, err) : weft_fail_memory(err);
    print_lists(&self->lists, &lists);
    print_candidate(a, &a->choice.best, &text);
    weft_text_print(&text, " (%08x)",
                    (unsigned)weft_hash_bytes(0, weft_text_get(&lists), lists.size));
    if (!s)
        weft_inform(self->host, "[pp] schedule = auto: %s", weft_text_get(&text));
    s = s || !lists.out_of_memory ? s : weft_fail_memory(err);
    weft_text_release(&lists);
    if (!s)
        return ask(plan, &text, err);
    weft_text_release(&text);
    return s;
}

/* Measured times are of one number of stages alone. */
static weft_status nothing(const pp *self, const weft_error *why, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->params, "times"),
                     "[pp] times = %s: %s", self->automatic->times,
                     why->n_items ? why->items[0].text : "");
}

weft_status pp_auto_review(void *self, weft_plan *plan, weft_error *err)
{
    pp *p = self;
    pp_auto *a = p->automatic;
    weft_error own = {0};
    weft_text text = {0};
    if (!a || !p->trying)
        return WEFT_OK;
    const bool more = a->either && p->trying == 1 &&
                      2 * p->degree <= weft_graph_blocks(weft_plan_trained(plan)) + 2;
    weft_status s = choose(p, plan, &own);
    if (s == WEFT_ERR_INPUT && a->times && (more || a->choice.n))
        s = WEFT_OK;
    else if (s == WEFT_ERR_INPUT && a->times)
        s = nothing(p, &own, err);
    else if (s)
        s = weft_fail(err, s, WEFT_NOWHERE, "%s",
                      own.n_items ? own.items[0].text : "no memory is left");
    weft_error_release(&own);
    if (s)
        return s;
    pp_forget_split(p);
    if (!more)
        return adopt(p, plan, err);
    p->trying = 2;
    weft_text_add(&text, "looked for with 2 stages a rank");
    return ask(plan, &text, err);
}
