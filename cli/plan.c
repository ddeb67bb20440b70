/* SPDX-License-Identifier: Apache-2.0 */
/* weft plan: the run as a program, read before it runs. Opens no hardware, peers or data. */
#include "study/plan.h"
#include "console/built_in.h"
#include "forecast/forecast.h"
#include "kit/task_lists.h"
#include "plan_changed.h"
#include "plan_ranks.h"
#include "plan_timeline.h"
#include "session.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wishes {
    const char *print_after, *stop_after, *program, *rank, *mode, *format, *changed_by, *gpu;
    bool print_changed, graph, whole, schedule, json;
    weft_cli_timeline timeline;
} wishes;

/* Pass i changes the graph before its backward, and no later pass of its plugin does. */
static bool ends_a_plugin(const weft_plugins *plugins, int i)
{
    const weft_slot *passes = plugins->passes;
    for (int k = i + 1; k < plugins->n_passes; k++)
        if (passes[k].plugin == passes[i].plugin && passes[k].item->stage <= WEFT_STAGE_PLACED)
            return false;
    return passes[i].item->stage == WEFT_STAGE_GRAPH || passes[i].item->stage == WEFT_STAGE_PLACED;
}

static const char *pass_name(const weft_plugins *plugins, int i)
{
    return plugins->list[plugins->passes[i].plugin].module.plugin->name;
}

static bool is_graph_pass(const weft_plugins *plugins, const char *name)
{
    for (int i = 0; i < plugins->n_passes; i++)
        if (ends_a_plugin(plugins, i) && strcmp(pass_name(plugins, i), name) == 0)
            return true;
    return false;
}

/* The training graph as it is, placed, when the passes up to `name` are done. */
static weft_status text_after(weft_session *s, const char *name, unsigned how, weft_text *text,
                              weft_error *err)
{
    weft_plan *plan;
    const weft_plan_options options = {.rank = s->host.rank,
                                       .ranks = s->host.ranks,
                                       .stop_after = name,
                                       .spread = WEFT_SPREAD,
                                       .broken = weft_plan_keep_broken};
    weft_status status = weft_plan_create(s->plugins, s->settings, &options, &plan, err);
    if (!status)
        weft_graph_print(plan->graphs[WEFT_MODE_TRAIN], how, text);
    if (!status && text->out_of_memory)
        status = weft_fail_memory(err);
    weft_plan_destroy(plan);
    return status;
}

static weft_status no_graph_pass(const weft_plugins *plugins, const char *option, const char *name,
                                 weft_error *err)
{
    weft_text known = {0};
    for (int i = 0; i < plugins->n_passes; i++)
        if (ends_a_plugin(plugins, i))
            weft_text_print(&known, "%s%s", weft_text_get(&known)[0] ? ", " : "",
                            pass_name(plugins, i));
    weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
              "%s'%s' is not a listed plugin with a pass of stage graph or placed; those that are: "
              "%s",
              option, name, weft_text_get(&known));
    weft_text_release(&known);
    return WEFT_ERR_INPUT;
}

static weft_status print_after(weft_session *s, const char *name, bool whole, weft_text *text,
                               weft_error *err)
{
    if (!is_graph_pass(s->plugins, name))
        return no_graph_pass(s->plugins, "", name, err);
    weft_text_print(text, "# after %s\n", name);
    return text_after(s, name, whole ? WEFT_PRINT_WHOLE : 0, text, err);
}

/* ---- --print-changed ---- */

/* The passes of a list, "bf16,fsdp", by their plugins' names; NULL: all. */
static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ','), p += p != NULL)
        if (strcspn(p, ",") == n && memcmp(p, name, n) == 0)
            return true;
    return !list;
}

static weft_status check_list(const weft_session *s, const char *list, weft_error *err)
{
    for (const char *p = list; p; p = strchr(p, ','), p += p != NULL) {
        char *name = weft_format("%.*s", (int)strcspn(p, ","), p);
        weft_status status = !name ? weft_fail_memory(err)
                             : is_graph_pass(s->plugins, name)
                                 ? WEFT_OK
                                 : no_graph_pass(s->plugins, "--print-changed=", name, err);
        weft_free(name);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status print_changed(weft_session *s, const char *list, weft_text *out, weft_error *err)
{
    weft_text before = {0}, after = {0};
    weft_status status = check_list(s, list, err);
    for (int i = 0; i < s->plugins->n_passes && !status; i++) {
        const char *name = pass_name(s->plugins, i);
        if (!ends_a_plugin(s->plugins, i))
            continue;
        weft_text_clear(&after);
        status = text_after(s, name, WEFT_PRINT_SIZES, &after, err);
        if (status)
            break;
        if (is_listed(list, name)) {
            weft_text_print(out, "changed by %s\n", name);
            if (!weft_cli_print_changed(&before, &after, out))
                status = weft_fail_memory(err);
        }
        weft_text now = before;
        before = after;
        after = now;
    }
    weft_text_release(&before);
    weft_text_release(&after);
    return status;
}

/* ---- the modes of a run ---- */

static const char *const modes[] = {"train", "evaluate", "generate", "decode", NULL};

/* The mode whose name are the first n bytes; WEFT_MODES: there is none. */
static weft_mode find_mode(const char *name, size_t n)
{
    int m = 0;
    while (m < WEFT_MODES && (strncmp(modes[m], name, n) != 0 || modes[m][n]))
        m++;
    return (weft_mode)m;
}

static weft_status check_mode(const weft_plan *plan, weft_mode mode, weft_error *err)
{
    if (plan->graphs[mode])
        return WEFT_OK;
    const bool validates = mode == WEFT_MODE_EVALUATE;
    return weft_fail(err, WEFT_ERR_INPUT,
                     validates ? weft_params_where(plan->train, "eval_every") : WEFT_NOWHERE,
                     validates ? "there is no graph of mode %s: the run never validates; set "
                                 "[train] eval_every, as -o train.eval_every=100"
                               : "there is no graph of mode %s: the run writes no text; list a "
                                 "plugin that asks for some, as --with sample",
                     modes[mode]);
}

static weft_status print_graph(const weft_plan *plan, const wishes *w, weft_text *text,
                               weft_error *err)
{
    const weft_mode mode = w->mode ? find_mode(w->mode, strlen(w->mode)) : WEFT_MODE_TRAIN;
    weft_status s = check_mode(plan, mode, err);
    if (!s)
        weft_graph_print(plan->graphs[mode], w->whole ? WEFT_PRINT_WHOLE : 0, text);
    return s;
}

/* The part is there, and this rank runs nothing of it. */
static weft_status no_instructions(const weft_plan *plan, const char *name, weft_mode mode,
                                   weft_part part, int stage, weft_error *err)
{
    const weft_tasks *t = plan->tasks[mode];
    if (stage >= t->stages)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "there is no program '%s': stages are 0 to %d", name, t->stages - 1);
    if (part == WEFT_PART_W && !t->split[stage < 0 ? 0 : stage])
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "there is no program '%s': no schedule here takes gradients of weights "
                         "apart; [pp] schedule = zb_h1 does",
                         name);
    if (stage >= 0 && t->ranks > 1)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "there is no program '%s' here: stage %d is of rank %d of the pipeline; "
                         "--rank R plans another rank, and --rank all lists them",
                         name, stage, t->rank_of[stage]);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "program '%s' has no instructions", name);
}

/* "forward", of one stage of a pipeline "forward.0", of another mode than training
 * "decode.forward". */
static weft_status print_program(const weft_plan *plan, const char *name, weft_text *text,
                                 weft_error *err)
{
    const char *last = strrchr(name, '.');
    char *end = NULL;
    const long number = last && last[1] >= '0' && last[1] <= '9' ? strtol(last + 1, &end, 10) : -1;
    const int stage = end && !*end && number < INT_MAX ? (int)number : -1;
    const size_t n = stage < 0 ? strlen(name) : (size_t)(last - name), before = text->size;
    const char *dot = memchr(name, '.', n), *part = dot ? dot + 1 : name;
    const weft_mode mode = dot ? find_mode(name, (size_t)(dot - name)) : WEFT_MODE_TRAIN;
    for (int a = 0; a < WEFT_PARTS && mode < WEFT_MODES; a++) {
        const char *is = weft_part_name((weft_part)a);
        if (strlen(is) != (size_t)(name + n - part) || strncmp(is, part, strlen(is)) != 0)
            continue;
        weft_status s = check_mode(plan, mode, err);
        if (!s)
            weft_plan_print_program(plan, mode, (weft_part)a, stage, text);
        if (s || text->size > before)
            return s;
        return no_instructions(plan, name, mode, (weft_part)a, stage, err);
    }
    return weft_fail(
        err, WEFT_ERR_INPUT, WEFT_NOWHERE,
        "there is no program '%s'; there are begin, forward, backward, weights, "
        "step_end, update, of one stage of a pipeline forward.0, and those of other modes, as "
        "evaluate.forward or decode.forward",
        name);
}

static weft_status print_json(const weft_session *s, const weft_plan *plan, weft_text *text,
                              weft_error *err)
{
    json_t *object = NULL;
    weft_status status = weft_plan_to_json(s, plan, &object, err);
    char *words = status ? NULL : json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (words)
        weft_text_print(text, "%s\n", words);
    if (!status && !words)
        status = weft_fail_memory(err);
    free(words); /* jansson's */
    json_decref(object);
    return status;
}

static weft_status print_plan(weft_session *s, const wishes *w, weft_text *text, weft_error *err)
{
    if (w->print_changed)
        return print_changed(s, w->changed_by, text, err);
    if (w->print_after || w->stop_after) {
        weft_status status =
            print_after(s, w->print_after ? w->print_after : w->stop_after, w->whole, text, err);
        if (status || w->stop_after)
            return status;
    }
    weft_plan *plan;
    weft_plan_options options = {
        .ranks = s->host.ranks, .spread = WEFT_SPREAD, .broken = weft_plan_keep_broken};
    weft_status status = weft_cli_read_rank(w->rank, s->host.ranks, &options.rank, err);
    if (status)
        return status;
    if (w->rank && strcmp(w->rank, "all") == 0)
        return weft_cli_print_ranks(s, text, err);
    status = weft_plan_create(s->plugins, s->settings, &options, &plan, err);
    if (!status)
        status = weft_plan_check(plan, err);
    if (!status && w->graph)
        status = print_graph(plan, w, text, err);
    if (!status && w->schedule)
        (w->format && strcmp(w->format, "csv") == 0 ? weft_tasks_print_csv : weft_tasks_print)(
            plan->tasks[WEFT_MODE_TRAIN], text);
    if (!status && w->program)
        status = print_program(plan, w->program, text, err);
    if (!status && w->json)
        status = print_json(s, plan, text, err);
    else if (!status && weft_cli_wants_timeline(&w->timeline))
        status = weft_cli_print_timeline(plan, &w->timeline, text, err);
    else if (!status && !w->schedule && !w->program)
        weft_plan_print(plan, true, text);
    weft_plan_destroy(plan);
    return status;
}

int weft_cmd_plan(int argc, char **argv)
{
    wishes w = {.timeline = {.width = 100}};
    weft_cli_timeline *timeline = &w.timeline;
    static const char *const formats[] = {"text", "csv", NULL};
    const weft_option extra[] = {
        {.name = "print-after",
         .argument = "PLUGIN",
         .help = "print the placed graph as it is after this plugin's pass, too",
         .text = &w.print_after},
        {.name = "stop-after",
         .argument = "PLUGIN",
         .help = "print the placed graph after this plugin's pass and nothing more",
         .text = &w.stop_after},
        {.name = "print-changed",
         .argument = "PLUGIN,...",
         .help = "print what each pass changed, or only those of these plugins",
         .flag = &w.print_changed,
         .text = &w.changed_by},
        {.name = "graph",
         .argument = "[MODE]",
         .help = "print the joint graph (forward, backward, update); of another mode than train: "
                 "evaluate, generate, decode",
         .flag = &w.graph,
         .text = &w.mode,
         .choices = modes},
        {.name = "whole",
         .help = "print every block of a graph, with whole names and all sizes",
         .flag = &w.whole},
        {.name = "program",
         .argument = "NAME",
         .help =
             "print a program's instructions: begin, forward, backward, weights, step_end, update; "
             "of another mode than train MODE.NAME",
         .text = &w.program},
        {.name = "rank",
         .argument = "R",
         .help = "plan this rank (default 0); all: a line for each rank of the pipeline",
         .text = &w.rank},
        {.name = "schedule",
         .argument = "FORMAT",
         .help = "print what every rank of the pipeline runs, in which order; csv: as PyTorch "
                 "reads it",
         .choices = formats,
         .flag = &w.schedule,
         .text = &w.format},
        {.name = "simulate",
         .help = "print how long a step takes, and how long each rank of the pipeline waits",
         .flag = &timeline->simulate},
        {.name = "timeline",
         .help = "the same, with a row of tasks for every rank",
         .flag = &timeline->rows},
        {.name = "timeline-svg",
         .argument = "FILE",
         .help = "the same as a picture for a browser",
         .text = &timeline->svg},
        {.name = "trace",
         .argument = "FILE",
         .help = "the same as a trace for ui.perfetto.dev, with every instruction of the planned "
                 "rank",
         .text = &timeline->trace},
        {.name = "times",
         .argument = "FILE",
         .help = "tasks take what a run has measured: its metrics.jsonl",
         .text = &timeline->times},
        {.name = "flops-per-s",
         .argument = "RATE",
         .help = "tasks take their operations at this rate of one rank (default 1e12)",
         .text = &timeline->flops_per_s},
        {.name = "bytes-per-s",
         .argument = "RATE",
         .help = "what is sent takes its bytes at this rate of one rank (default 1e10)",
         .text = &timeline->bytes_per_s},
        {.name = "gpu",
         .argument = "GPU",
         .help = "plan for such a GPU, whatever device is listed: h100, a100, ... or a file",
         .text = &w.gpu},
        {.name = "json",
         .help = "print one JSON object, without times: equal plans are equal texts",
         .flag = &w.json},
        {.name = "width",
         .argument = "N",
         .help = "columns of a timeline (default 100)",
         .number = &timeline->width,
         .min = 40,
         .max = 10000},
        {.name = NULL},
    };
    const weft_cli_usage usage = {
        .command = "plan",
        .arguments = "run.ini",
        .max_arguments = 1,
        .summary = "Prints what a run will compute, hold and send, without starting it.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
        .extra = extra,
    };
    weft_cli_options options;
    weft_session session = {0};
    weft_error err = {0};
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    options.gpu = w.gpu;
    if (code == WEFT_CLI_GO) {
        weft_status s = weft_session_init(&session, &options, 0, NULL, true, &err);
        if (!s)
            s = print_plan(&session, &w, &text, &err);
        code = s ? weft_cli_conclude(s, &err) : weft_cli_print(&text);
    }
    weft_text_release(&text);
    weft_session_release(&session);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
