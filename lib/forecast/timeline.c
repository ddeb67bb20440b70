/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline as text: a row a rank, a column a piece of time. */
#include "forecast/timeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LETTERS = 26 };

void weft_print_seconds(weft_text *text, double seconds)
{
    static const char *const units[] = {"s", "ms", "us", "ns"};
    int u = 0;
    if (seconds < 0.5e-9) { /* nothing, but for rounding */
        weft_text_add(text, "0 s");
        return;
    }
    for (; seconds < 0.9995 && u < 3; u++)
        seconds *= 1000;
    weft_text_print(text, "%.*f %s",
                    seconds < 9.995   ? 2
                    : seconds < 99.95 ? 1
                                      : 0,
                    seconds, units[u]);
}

static bool is_split(const weft_tasks *t)
{
    int s = 0;
    while (s < t->stages && !t->split[s])
        s++;
    return s < t->stages;
}

void weft_timeline_print_summary(const weft_timeline *t, weft_text *text)
{
    const weft_tasks *tasks = t->tasks;
    weft_text_add(text, "step ");
    weft_print_seconds(text, t->step_s);
    weft_text_print(text, ", bubble %.1f %%: ", 100 * t->bubble);
    weft_text_print(text, "%d rank%s, %d stage%s, %lld micro-batch%s\n", tasks->ranks,
                    tasks->ranks == 1 ? "" : "s", tasks->stages, tasks->stages == 1 ? "" : "s",
                    (long long)tasks->micro_batches, tasks->micro_batches == 1 ? "" : "es");
    if (is_split(tasks))
        weft_text_print(text, "  %.1f %% of the step is its end, behind the last task\n",
                        100 * t->end);
    if (tasks->sending > 1)
        weft_text_print(text, "  %lld places for what a stage sends at once\n",
                        (long long)tasks->sending);
    for (int r = 0; r < tasks->ranks; r++) {
        weft_text_print(text, "  rank %d waits ", r);
        weft_print_seconds(text, t->idle_s[r]);
        weft_text_print(text, "; %lld micro-batch%s alive at most", (long long)t->alive[r],
                        t->alive[r] == 1 ? "" : "es");
        if (t->held[r])
            weft_text_print(text, ", %lld held for weights", (long long)t->held[r]);
        weft_text_add(text, "\n");
    }
}

int weft_timeline_turn(const weft_tasks *t, int stage)
{
    int turn = 0;
    for (int s = 0; s < stage; s++)
        turn += t->rank_of[s] == t->rank_of[stage];
    return turn;
}

/* What fills a task's columns. With several stages a rank a letter says which of them it is. */
static char fill_of(const weft_tasks *t, const weft_task *k)
{
    if (!weft_part_is_micro(k->part))
        return '+';
    if (k->part == WEFT_PART_W)
        return '~';
    bool forward = k->part == WEFT_PART_F;
    if (t->stages <= t->ranks)
        return forward ? '-' : '=';
    return (char)((forward ? 'a' : 'A') + weft_timeline_turn(t, k->stage) % LETTERS);
}

/* The first column whose middle is not before this time. */
static int column_at(const weft_timeline *t, double seconds, int columns)
{
    return (int)ceil(seconds / t->step_s * columns - 0.5);
}

/* Its number, where one column more has room. */
static void draw(const weft_timeline *t, const weft_task *k, const weft_task_time *at, char *row,
                 int columns)
{
    char number[32];
    int from = column_at(t, at->start, columns), to = column_at(t, at->end, columns);
    if (to > from)
        memset(row + from, fill_of(t->tasks, k), (size_t)(to - from));
    int n = snprintf(number, sizeof number, "%lld", (long long)k->micro_batch);
    if (k->micro_batch >= 0 && n < to - from)
        memcpy(row + from, number, (size_t)n);
}

static void print_legend(const weft_timeline *t, int columns, weft_text *text)
{
    if (t->tasks->stages > t->tasks->ranks)
        weft_text_add(text, "  a forward, A backward (b, B: a rank's second stage, and so on), ");
    else
        weft_text_add(text, "  - forward, = backward, ");
    if (is_split(t->tasks))
        weft_text_add(text, "~ gradients of weights, ");
    weft_text_add(text,
                  ". waits,\n  + begin, step_end, update; numbers are micro-batches; a column "
                  "is ");
    weft_print_seconds(text, t->step_s / columns);
    weft_text_add(text, "\n");
}

void weft_timeline_print(const weft_timeline *t, int width, weft_text *text)
{
    const weft_tasks *tasks = t->tasks;
    int head = snprintf(NULL, 0, "rank %d ", tasks->ranks - 1);
    int columns = width > head + 8 ? width - head : 8;
    char *row = weft_alloc((size_t)columns + 1);
    if (!row) {
        text->out_of_memory = true;
        return;
    }
    for (int r = 0; r < tasks->ranks && t->step_s > 0; r++) {
        memset(row, '.', (size_t)columns);
        row[columns] = '\0';
        for (int i = 0; i < tasks->of[r].n; i++)
            draw(t, &tasks->of[r].list[i], &t->of[r][i], row, columns);
        size_t line = text->size;
        weft_text_print(text, "rank %d", r);
        while (text->size - line < (size_t)head && !text->out_of_memory)
            weft_text_add(text, " ");
        weft_text_print(text, "%s\n", row);
    }
    print_legend(t, columns, text);
    weft_free(row);
}
