/* SPDX-License-Identifier: Apache-2.0 */
/* weft bisect A.ini B.ini: which of their differences does it? */
#include "bisect.h"

#include "process.h"
#include "study/steps.h"
#include "study/subject.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/store.h>

/* ---- what makes a run bad ---- */

/* "loss > 2.5 @ 200". */
static weft_status read_until(bisection *b, const char *text, weft_error *err)
{
    char relation[3] = "";
    long long step = 0;
    int end = 0;
    if (strcmp(text, "bits") == 0)
        return WEFT_OK;
    if (sscanf(text, " %63[a-z_.A-Z0-9] %2[<>=] %lf @ %lld %n", b->metric, relation, &b->limit,
               &step, &end) != 4 ||
        text[end] || (relation[0] != '<' && relation[0] != '>') ||
        (relation[1] && relation[1] != '=') || !isfinite(b->limit) || step < 1)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--until %.60s: write bits, or a figure of metrics.jsonl, a limit and a "
                         "step, as in 'loss > 2.5 @ 200'",
                         text);
    memcpy(b->relation, relation, sizeof b->relation);
    b->steps = step;
    return WEFT_OK;
}

/* ---- the search ---- */

typedef struct search {
    bisection *b;
    bool *has, *kept; /* [n] */
    int *single;      /* [n]: 1: bad alone; -1: refused alone */
    weft_text *text, *why;
} search;

static weft_status try_set(search *s, bisect_outcome *outcome, json_t **lines, weft_error *err)
{
    json_t *own = NULL;
    weft_text_clear(s->why);
    weft_status status = bisect_try(s->b, s->has, outcome, &own, s->why, err);
    if (lines)
        *lines = own;
    else
        json_decref(own);
    return status;
}

static void set_all(search *s, bool value)
{
    for (int i = 0; i < s->b->n; i++)
        s->has[i] = value;
}

/* Each by itself, on top of the first run. */
static weft_status try_alone(search *s, int *found, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->b->n && !status; i++) {
        bisect_outcome outcome;
        json_t *lines;
        set_all(s, false);
        s->has[i] = true;
        status = try_set(s, &outcome, &lines, err);
        if (status)
            break;
        s->single[i] = outcome == BISECT_BAD ? 1 : outcome == BISECT_REFUSED ? -1 : 0;
        *found += s->single[i] > 0;
        if (s->single[i] > 0) {
            weft_text_add(s->text, "culprit: ");
            bisect_print_difference(s->b, i, s->text);
            weft_text_add(s->text, *s->b->metric ? "" : ", ");
            if (!*s->b->metric)
                bisect_print_first(s->b, lines, s->text);
            weft_text_add(s->text, "\n");
        }
        json_decref(lines);
    }
    return status;
}

static void print_set(const search *s, const bool *set, weft_text *text)
{
    bool first = true;
    for (int i = 0; i < s->b->n; i++)
        if (set[i]) {
            weft_text_add(text, first ? "" : " only together with ");
            bisect_print_difference(s->b, i, text);
            first = false;
        }
}

/* What is bad together though no one of it is: from all of it, each is taken out where what is left
 * is as bad. What stays is all needed. Large sets lose halves, quarters, ... first. */
static weft_status reduce(search *s, weft_error *err)
{
    const int n = s->b->n;
    int size = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < n; i++)
        size += s->kept[i];
    for (int chunk = size > 16 ? size / 2 : 1; chunk > 0 && !status; chunk /= 2)
        for (int from = 0; from < n && !status;) {
            bisect_outcome outcome;
            int taken = 0, i = from;
            memcpy(s->has, s->kept, (size_t)n * sizeof *s->has);
            for (; i < n && taken < chunk; i++)
                if (s->kept[i]) {
                    s->has[i] = false;
                    taken++;
                }
            from = i;
            if (taken == 0)
                break;
            status = try_set(s, &outcome, NULL, err);
            if (!status && outcome == BISECT_BAD)
                memcpy(s->kept, s->has, (size_t)n * sizeof *s->has);
        }
    return status;
}

/* Of those that are not bad alone: are they together? */
static weft_status try_together(search *s, bool *found, weft_error *err)
{
    bisect_outcome outcome;
    int n = 0;
    *found = false;
    for (int i = 0; i < s->b->n; i++) {
        s->has[i] = s->kept[i] = s->single[i] <= 0;
        n += s->has[i];
    }
    if (n < 2)
        return WEFT_OK;
    weft_status status = try_set(s, &outcome, NULL, err);
    *found = !status && outcome == BISECT_BAD;
    if (!*found)
        return status;
    status = reduce(s, err);
    if (!status) {
        weft_text_add(s->text, "culprit: ");
        print_set(s, s->kept, s->text);
        weft_text_add(s->text, "\n");
    }
    return status;
}

static void print_refused(const search *s)
{
    bool first = true;
    for (int i = 0; i < s->b->n; i++)
        if (s->single[i] < 0) {
            weft_text_add(s->text, first ? "refused alone: " : ", ");
            bisect_print_difference(s->b, i, s->text);
            first = false;
        }
    weft_text_add(s->text, first ? "" : "\n");
}

/* ---- whose doing it is ---- */

/* The lines of the oracle's that say where the runs part. */
static void take_lines(char *said, weft_text *text)
{
    static const char *const begins[] = {"first parted", "        which changes",
                                         "the forward does not part", "no gradient parts",
                                         "error: "};
    const size_t before = text->size;
    char *rest = NULL;
    for (char *line = said ? strtok_r(said, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            if (strncmp(line, begins[i], strlen(begins[i])) == 0)
                weft_text_print(text, "  %s\n", line + strspn(line, " "));
    if (text->size == before)
        weft_text_add(text, "  no value differs that oracle can compare\n");
}

static weft_status ask_oracle(search *s, const bool *culprit, weft_error *err)
{
    char *one = weft_format("%s/a.ini", s->b->dir), *other = weft_format("%s/b.ini", s->b->dir);
    const char *const steps = s->b->steps > 1 ? "2" : "1";
    const char *const argv[] = {"weft", "oracle",  one,   other, "--bitwise",
                                "all",  "--steps", steps, NULL};
    weft_text said = {0};
    set_all(s, false);
    weft_status status =
        one && other ? bisect_write_ini(s->b, s->has, one, err) : weft_fail_memory(err);
    status = status ? status : bisect_write_ini(s->b, culprit, other, err);
    if (!status) {
        weft_process_call(argv, NULL, 0, &said);
        weft_text_add(s->text, "by the oracle, ");
        print_set(s, culprit, s->text);
        weft_text_add(s->text, ":\n");
        take_lines(said.data, s->text);
    }
    weft_text_release(&said);
    weft_free(one);
    weft_free(other);
    return status;
}

/* ---- all of it ---- */

/* One that neither run has tells nothing of them. */
static weft_status check_metric(const bisection *b, const json_t *lines, weft_error *err)
{
    weft_text names = {0};
    if (!*b->metric || weft_lines_have(b->first, b->metric) || weft_lines_have(lines, b->metric))
        return WEFT_OK;
    weft_lines_names(b->first, &names);
    weft_status s =
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "--until: neither run has a figure '%s' within %lld steps; metrics.jsonl "
                  "has %s",
                  b->metric, (long long)b->steps, weft_text_get(&names));
    weft_text_release(&names);
    return s;
}

static weft_status try_ends(search *s, bool *same, weft_error *err)
{
    bisect_outcome outcome;
    bisection *b = s->b;
    set_all(s, false);
    weft_status status = try_set(s, &outcome, &b->first, err);
    if (!status && outcome == BISECT_REFUSED)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the first run cannot be run: %s",
                         weft_text_get(s->why));
    if (!status && outcome == BISECT_BAD)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--until holds for the first run, too, so no difference does it");
    set_all(s, true);
    json_t *lines = NULL;
    status = status ? status : try_set(s, &outcome, &lines, err);
    if (!status && lines)
        status = check_metric(b, lines, err);
    json_decref(lines);
    if (!status && outcome == BISECT_REFUSED)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the second run cannot be run: %s",
                         weft_text_get(s->why));
    *same = !status && outcome == BISECT_GOOD;
    return status;
}

static weft_status look(search *s, bool oracle, bool *same, weft_error *err)
{
    int singles = 0;
    bool together = false;
    weft_status status = try_ends(s, same, err);
    if (status || *same)
        return status;
    status = try_alone(s, &singles, err);
    status = status ? status : try_together(s, &together, err);
    if (status)
        return status;
    if (!singles && !together)
        weft_text_add(s->text, "all differences together do it, and no part of them that runs\n");
    print_refused(s);
    if (!oracle || (!singles && !together))
        return WEFT_OK;
    for (int i = 0; !together && i < s->b->n; i++)
        s->kept[i] = false;
    for (int i = 0; !together && i < s->b->n; i++)
        if (s->single[i] > 0) {
            s->kept[i] = true;
            break;
        }
    return ask_oracle(s, s->kept, err);
}

static weft_status search_all(bisection *b, bool oracle, weft_text *text, bool *same,
                              weft_error *err)
{
    const size_t n = (size_t)b->n + 1;
    weft_text why = {0};
    search s = {.b = b,
                .has = weft_alloc_zero(n, sizeof *s.has),
                .kept = weft_alloc_zero(n, sizeof *s.kept),
                .single = weft_alloc_zero(n, sizeof *s.single),
                .text = text,
                .why = &why};
    weft_status status =
        s.has && s.kept && s.single ? look(&s, oracle, same, err) : weft_fail_memory(err);
    weft_text_release(&why);
    weft_free(s.has);
    weft_free(s.kept);
    weft_free(s.single);
    return status;
}

static int conclude(const bisection *b, bool same, weft_text *text)
{
    if (b->n == 0)
        weft_text_add(text, "nothing differs\n");
    else if (same)
        weft_text_print(text, "the runs are the same for %lld steps: no difference does it\n",
                        (long long)b->steps);
    weft_text_print(text, "%d difference%s, %d runs of %lld step%s\n", b->n, b->n == 1 ? "" : "s",
                    b->runs, (long long)b->steps, b->steps == 1 ? "" : "s");
    const int code = weft_cli_print(text);
    return code ? code : b->n > 0 && !same;
}

/* A plan's settings are whoever's wrote the file: nothing is run by them. */
static weft_status check_subject(const weft_subject *s, weft_error *err)
{
    const bool runs = s->kind == WEFT_SUBJECT_RUN || s->kind == WEFT_SUBJECT_INI;
    if (runs && s->plan)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s cannot be planned, so it cannot be run: %s", s->name,
                     s->no_plan                           ? s->no_plan
                     : s->kind == WEFT_SUBJECT_CHECKPOINT ? "it is a checkpoint"
                                                          : "it is a plan");
}

/* No more steps than the longer of both makes; one that --until names must be among them. */
static weft_status find_steps(bisection *b, const weft_subject *subjects, weft_error *err)
{
    json_int_t most = 0;
    for (int i = 0; i < 2; i++) {
        const json_int_t steps = json_integer_value(json_object_get(subjects[i].plan, "steps"));
        most = steps > most ? steps : most;
    }
    if (!*b->metric && b->steps > most)
        b->steps = most;
    if (b->steps <= most)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "--until: there is no step %lld: the longer of both runs has %lld",
                     (long long)b->steps, (long long)most);
}

/* Of runs as many as they had, unless -n says how many: a number of ranks is no difference between
 * INIs, and could not be taken away. */
static weft_status find_ranks(bisection *b, const weft_subject *subjects, weft_error *err)
{
    int64_t had[2];
    for (int i = 0; i < 2; i++)
        had[i] = (int64_t)json_array_size(json_object_get(subjects[i].about, "ranks"));
    if (b->ranks > 0)
        return WEFT_OK;
    if (had[0] && had[1] && had[0] != had[1])
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "number of ranks: %s ran on %lld, %s on %lld; say with -n on how many both are to "
            "run",
            subjects[0].name, (long long)had[0], subjects[1].name, (long long)had[1]);
    b->ranks = had[0] ? had[0] : had[1];
    return WEFT_OK;
}

static int bisect(const weft_cli_options *options, bisection *b, bool oracle, weft_error *err)
{
    weft_subject subjects[2] = {0};
    weft_text text = {0};
    bool same = false;
    weft_status s = weft_subjects_read(subjects, options->arguments, 2, options, err);
    for (int i = 0; i < 2 && !s; i++)
        s = check_subject(&subjects[i], err);
    s = s ? s : find_steps(b, subjects, err);
    s = s ? s : find_ranks(b, subjects, err);
    b->a = subjects[0].plan;
    b->b = subjects[1].plan;
    s = s ? s : bisect_find_differences(b, err);
    s = s ? s : weft_steps_make_dir("bisect", &b->dir, err);
    if (!s && b->n > 0)
        s = search_all(b, oracle, &text, &same, err);
    int code = s ? weft_cli_conclude(s, err) : conclude(b, same, &text);
    if (b->dir)
        weft_io_remove_tree(weft_io_system(), b->dir, err);
    weft_text_release(&text);
    for (int i = 0; i < 2; i++)
        weft_subject_release(&subjects[i]);
    json_decref(b->list);
    json_decref(b->first);
    weft_free(b->dir);
    return code;
}

int weft_cmd_bisect(int argc, char **argv)
{
    bisection b = {.steps = 3};
    const char *until = "bits";
    bool no_oracle = false, trust = false;
    const weft_option extra[] = {
        {.name = "steps",
         .argument = "N",
         .help = "run so many steps (default 3)",
         .number = &b.steps,
         .min = 1,
         .max = 1000000000},
        {.name = "until",
         .argument = "WHAT",
         .help =
             "what makes a run bad: bits (default), it differs from A's; or a figure at a step, "
             "as 'loss > 2.5 @ 200'",
         .text = &until},
        {.name = "no-oracle",
         .help = "do not ask the oracle which value the culprit makes otherwise",
         .flag = &no_oracle},
        {.name = "trust",
         .help = "open what run folders name, plugins, libraries and files: they are your own",
         .flag = &trust},
        {.name = NULL}};
    const weft_cli_usage usage = {
        .command = "bisect",
        .arguments = "A.ini B.ini",
        .max_arguments = 2,
        .summary =
            "Finds which of the differences between two runs does it: a plugin, its place, a key, "
            "or several that only do so together. A is good, B is bad; INIs or run folders. Runs A "
            "with each difference alone, then with what is left of them. -o, --with and --without "
            "are "
            "for both INIs; A: or B: in front makes them that one's. Exit code 0: the runs are the "
            "same; 1: it says what does it; 2: bad input.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO) {
        weft_status s = read_until(&b, until, &err);
        if (options.n_arguments != 2)
            s = weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "bisect takes two: weft bisect A.ini B.ini");
        b.ranks = options.ranks;
        options.ini_trust = trust ? WEFT_TRUST_ALL : WEFT_TRUST_NONE;
        code = s ? weft_cli_report(&err) : bisect(&options, &b, !no_oracle && !*b.metric, &err);
    }
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
