/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of a pipeline's tasks as text, and their proof. */
#include "compile/schedule/schedule.h"
#include "fuzz.h"
#include "kit/task_lists.h"
#include "plugins/pp/pp.h"

#include <stdlib.h>
#include <string.h>

static const char *const seeds[] = {
    "# two ranks\n"
    "rank 0: begin 0F0 0F1 2F0 2F1 2B0\n"
    "    2B1 0B0 0B1 step_end update\n"
    "rank 1: begin 1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1 step_end update\n",
    "rank 0: begin 0F0 0B0\nrank 1: begin 1F0 1B0 rank 0: step_end update",
    "rank 0: begin 0F0 3F0 3I0 3W0 0I0 0W0\nrank 1: 1F0 2F0 2B0 1B0 2W0 1I0 1W0\n",
    "0F0,0F1,,\"3F0\",3I0,3W0,(0F3;7B1)OVERLAP_F_B\r\n1F0,2F0,2UNSHARD,2SEND_F1\r\n", NULL};
static const char *const words[] = {
    "rank ",   "rank 1:", "0:",          "2:",       "begin",      "step_end",
    "update",  " 0F0 ",   " 3B1 ",       " 3F2",     "F",          "B",
    "\n",      "#",       " ",           ",",        "\"",         "(",
    ")",       ";",       "OVERLAP_F_B", "3I0",      "0W1",        "\r\n",
    "RESHARD", "-1",      "65536",       "16777217", "2147483648", "9223372036854775808",
    NULL};

enum { RANKS = 2 };

static weft_status parse(const char *data, size_t n)
{
    weft_error err = {0};
    weft_tasks *t = NULL;
    if (weft_tasks_create(RANKS, 4, 2, true, &t, &err))
        abort();
    pp_lists lists;
    weft_status s = pp_lists_read("x", data, n, &lists, &err);
    if (!s && lists.ranks > RANKS) /* as the plugin refuses it */
        s = weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE, "rank %d", lists.ranks - 1);
    s = s ? s : pp_lists_fill(&lists, t, &err);
    fuzz_check(s, &err);
    if (!s) {
        weft_text out = {0};
        weft_tasks_print(t, &out);
        fuzz_check(weft_tasks_verify(t, 0, NULL, &err), &err);
        weft_text_release(&out);
    }
    weft_tasks_destroy(t);
    pp_lists_release(&lists); /* whose name the tasks have */
    weft_error_release(&err);
    return s;
}

int main(int argc, char **argv)
{
    return fuzz_main(&(fuzz_target){"fuzz_schedule", seeds, words, parse}, argc, argv);
}
