/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tasks as text, and as the tables that PyTorch reads. */
#include "kit/task_lists.h"

enum { WIDTH = 100 };

void weft_tasks_print(const weft_tasks *t, weft_text *text)
{
    for (int r = 0; r < t->ranks; r++) {
        size_t line = text->size;
        weft_text_print(text, "rank %d:", r);
        for (int i = 0; i < t->of[r].n; i++) {
            size_t before = text->size;
            weft_text_add(text, " ");
            weft_task_print(t, &t->of[r].list[i], text);
            if (text->size - line <= WIDTH || text->out_of_memory)
                continue;
            text->size = before; /* it begins the next line */
            weft_text_print(text, "\n   ");
            line = text->size - 3;
            weft_text_add(text, " ");
            weft_task_print(t, &t->of[r].list[i], text);
        }
        weft_text_add(text, "\n");
    }
}

static void print_cell(const weft_tasks *t, const weft_task *task, bool first, weft_text *text)
{
    weft_text_add(text, first ? "" : ",");
    weft_task_print(t, task, text);
}

void weft_tasks_print_csv(const weft_tasks *t, weft_text *text)
{
    for (int r = 0; r < t->ranks; r++) {
        bool first = true;
        for (int i = 0; i < t->of[r].n; i++)
            if (weft_part_is_micro(t->of[r].list[i].part)) {
                print_cell(t, &t->of[r].list[i], first, text);
                first = false;
            }
        weft_text_add(text, "\r\n");
    }
}
