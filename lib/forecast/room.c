/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of libraries, and what is left of a device whose size is known, for `weft plan`. */
#include "forecast/forecast.h"

enum { WIDTH = 21 };

/* Of ranks that share a device each takes what this one does, but for what a process has once. */
static double needed(const weft_plan *plan, const weft_libraries *of, int sharers)
{
    const double own =
        (double)weft_plan_bytes(plan) + (double)(of->captured + of->loading + of->transport);
    return sharers * own + (double)of->device;
}

static void print_room(const weft_plan *plan, const weft_libraries *of, weft_text *text)
{
    weft_device_rates rates;
    if (!weft_device_find_rates(plan, &rates) || rates.memory_bytes == 0)
        return;
    const int sharers = weft_device_sharers(plan, &rates);
    const double all = (double)rates.memory_bytes, needs = needed(plan, of, sharers);
    if (sharers > 1) {
        weft_text_print(
            text, "  the %d ranks are threads of one process and share one device: ", sharers);
        weft_print_bytes(text, needs);
        weft_text_add(text, "\n");
    }
    weft_text_add(text, "  of the ");
    weft_print_bytes(text, all);
    weft_text_print(text, " of %s ", rates.name);
    weft_print_bytes(text, all < needs ? needs - all : all - needs);
    weft_text_add(text, all < needs ? " too few\n" : " are left\n");
}

void weft_plan_print_libraries(const weft_plan *plan, weft_text *text)
{
    weft_libraries of;
    if (weft_plan_libraries(plan, &of, NULL)) {
        text->out_of_memory = true;
        return;
    }
    weft_print_named(text, "libraries (estimate)", WIDTH,
                     (double)(of.device + of.captured + of.loading + of.transport));
    if (of.captured || of.loading || of.transport_name)
        weft_print_named(text, "  the device's", WIDTH, (double)of.device);
    if (of.captured)
        weft_print_named(text, "  captured launches", WIDTH, (double)of.captured);
    if (of.loading)
        weft_print_named(text, "  loading kernels", WIDTH, (double)of.loading);
    if (of.transport_name)
        weft_print_named(text, "  the transport's", WIDTH, (double)of.transport);
    print_room(plan, &of, text);
}
