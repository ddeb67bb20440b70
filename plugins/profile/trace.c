/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's record as Chrome trace JSON: a process a rank, in it a row for steps, one for the tasks
 * of a step, and one for each queue. */
#include "profile.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { STEPS, TASKS, QUEUES }; /* rows: queue q is QUEUES + q */

char *profile_folder(const char *dir)
{
    return weft_format("%s/profile", dir);
}

char *profile_path(const char *dir, int rank)
{
    return weft_format("%s/profile/rank-%d.json", dir, rank);
}

/* Microseconds, as the format wants them, without what a double would lose. */
static void add_us(weft_text *text, const char *key, int64_t ns)
{
    weft_text_print(text, ", \"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void begin_slice(weft_text *text, const char *name, const char *kind, int rank, int row,
                        int64_t start_ns, int64_t end_ns)
{
    weft_text_add(text, ",\n{\"ph\": \"X\", \"name\": ");
    weft_text_add_json(text, name);
    weft_text_print(text, ", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d", kind, rank, row);
    add_us(text, "ts", start_ns);
    add_us(text, "dur", end_ns - start_ns);
    weft_text_add(text, ", \"args\": {");
}

static void add_text(weft_text *text, const char *key, const char *value)
{
    weft_text_print(text, ", \"%s\": ", key);
    weft_text_add_json(text, value);
}

static void name_row(weft_text *text, int rank, int row, const char *name)
{
    weft_text_print(text,
                    ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, "
                    "\"args\": {\"name\": \"%s\"}}",
                    rank, row, name);
}

static const char *kind_name(weft_instruction_kind kind)
{
    switch (kind) {
    case WEFT_COMPUTE:
        return "compute";
    case WEFT_COLLECTIVE:
        return "collective";
    case WEFT_POST_SEND:
    case WEFT_POST_RECV:
    case WEFT_AWAIT:
    case WEFT_FETCH:
    case WEFT_EVICT:
    case WEFT_ARRIVE:
        return "transfer";
    default:
        return "memory";
    }
}

static void add_event(weft_text *text, const profile_record *r, const profile_event *e, int rank)
{
    const profile_kind *k = &r->kinds[e->kind];
    begin_slice(text, k->op, kind_name(k->kind), rank, QUEUES + k->queue, e->start_ns, e->end_ns);
    weft_text_print(text,
                    "\"step\": %" PRId64 ", \"mode\": \"%s\", \"program\": \"%s\", "
                    "\"stage\": %d, \"micro_batch\": %d, \"block\": %d, \"queue\": %d",
                    e->step, k->mode, k->program, k->stage, (int)e->micro_batch, k->block,
                    k->queue);
    add_text(text, "value", k->value);
    add_text(text, "plugin", k->by);
    if (k->kernel)
        add_text(text, "kernel", k->kernel);
    weft_text_print(text, ", \"flops\": %.17g, \"bytes\": %" PRId64 "}}", k->flops, k->bytes);
}

/* ---- tasks: neighbouring instructions of one program and micro-batch ---- */

static bool is_one_task(const profile_record *r, const profile_event *a, const profile_event *b)
{
    const profile_kind *x = &r->kinds[a->kind], *y = &r->kinds[b->kind];
    return a->step == b->step && a->micro_batch == b->micro_batch && x->stage == y->stage &&
           strcmp(x->program, y->program) == 0 && strcmp(x->mode, y->mode) == 0;
}

/* What is sent lies in the programs of the stages at both ends, and would be tasks of stages that a
 * rank does not have. */
static bool is_transfer(const profile_record *r, const profile_event *e)
{
    const weft_instruction_kind kind = r->kinds[e->kind].kind;
    return kind == WEFT_POST_SEND || kind == WEFT_POST_RECV || kind == WEFT_AWAIT;
}

static void add_task(weft_text *text, const profile_record *r, int64_t first, int64_t last,
                     int rank)
{
    const profile_event *e = &r->events[first];
    const profile_kind *k = &r->kinds[e->kind];
    begin_slice(text, k->program, "task", rank, TASKS, e->start_ns, r->events[last].end_ns);
    weft_text_print(text,
                    "\"step\": %" PRId64 ", \"mode\": \"%s\", \"stage\": %d, "
                    "\"micro_batch\": %d}}",
                    e->step, k->mode, k->stage, (int)e->micro_batch);
}

static void add_tasks(weft_text *text, const profile_record *r, int rank)
{
    int64_t first = -1, last = -1;
    for (int64_t i = 0; i < r->n_events; i++) {
        if (is_transfer(r, &r->events[i]))
            continue;
        if (first >= 0 && !is_one_task(r, &r->events[first], &r->events[i])) {
            add_task(text, r, first, last, rank);
            first = -1;
        }
        first = first < 0 ? i : first;
        last = i;
    }
    if (first >= 0)
        add_task(text, r, first, last, rank);
}

/* ---- the file ---- */

static void add_names(weft_text *text, const profile_record *r, int rank, const char *host)
{
    int queues = 1;
    for (int i = 0; i < r->n_kinds; i++)
        queues = r->kinds[i].queue >= queues ? r->kinds[i].queue + 1 : queues;
    weft_text_print(text,
                    "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": "
                    "{\"name\": ",
                    rank);
    char *name = weft_format("rank %d, %s", rank, host);
    weft_text_add_json(text, name ? name : "");
    weft_free(name);
    weft_text_print(text,
                    "}},\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %d, "
                    "\"args\": {\"sort_index\": %d}}",
                    rank, rank);
    name_row(text, rank, STEPS, "steps");
    name_row(text, rank, TASKS, "tasks");
    for (int q = 0; q < queues; q++) {
        char row[32] = "queue";
        if (queues > 1) {
            row[5] = ' ';
            row[6] = (char)('0' + q % 10);
        }
        name_row(text, rank, QUEUES + q, row);
    }
}

void profile_trace_print(const profile_record *r, const profile_limits *l, int rank, int ranks,
                         weft_text *text)
{
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    weft_text_add(text, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"weft\": \"" WEFT_VERSION
                        "\", \"host\": ");
    weft_text_add_json(text, host);
    weft_text_print(text,
                    ", \"rank\": %d, \"ranks\": %d, \"epoch_ns\": \"%" PRId64
                    "\", \"flops_per_s\": %.17g, \"bytes_per_s\": %.17g, \"sent_per_s\": %.17g},\n"
                    "\"traceEvents\": [\n",
                    rank, ranks, r->epoch_utc_ns, l->flops_per_s, l->bytes_per_s, l->sent_per_s);
    add_names(text, r, rank, host);
    for (int i = 0; i < r->n_steps; i++) {
        const profile_step *s = &r->steps[i];
        char name[32] = "step";
        begin_slice(text, name, "step", rank, STEPS, s->start_ns, s->end_ns);
        weft_text_print(text, "\"step\": %" PRId64 "}}", s->step);
    }
    add_tasks(text, r, rank);
    for (int64_t i = 0; i < r->n_events; i++)
        add_event(text, r, &r->events[i], rank);
    weft_text_add(text, "\n]}\n");
}
