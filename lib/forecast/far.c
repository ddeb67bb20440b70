/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in far memory, what moves between there and the device's in a step, and how long that
 * takes. */
#include "forecast/course.h"
#include "forecast/forecast.h"
#include "forecast/roofline.h"

#include <math.h>

/* Of a step of this rank. */
typedef struct traffic {
    double read, written; /* bytes */
    double link_s, compute_s;
} traffic;

static void count(const weft_lowered *l, const weft_roofline *r, traffic *t)
{
    const double repeats = (double)l->graph->config.sizes.micro_batches;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            const bool far = weft_course_is_far(in), sum = weft_course_sums(in);
            const double times = weft_part_is_micro(l->programs[a].part) ? repeats - sum : 1,
                         s = times * weft_roofline_cost(r, l, in).seconds;
            if (far)
                *(in->kind == WEFT_FETCH ? &t->read : &t->written) +=
                    times * (double)weft_tensor_count(&in->tensors[0]) *
                    (double)weft_dtype_size(in->tensors[0].dtype);
            *(far ? &t->link_s : &t->compute_s) += s;
        }
}

static void print_time(const weft_plan *plan, const traffic *t, bool known, weft_text *text)
{
    const double step_s = known ? t->compute_s + t->link_s : t->link_s;
    weft_text_print(text, "; that takes %.3g s", t->link_s);
    if (known) {
        weft_text_print(text, ", beside or behind %.3g s of computing", t->compute_s);
        if (t->compute_s > 0)
            weft_text_print(text, " (ten times as much from %.3g %s a step on)",
                            ceil((double)plan->units * 10 * t->link_s / t->compute_s), plan->unit);
    }
    if (!plan->far->in_host_memory) /* which does not wear */
        weft_text_print(text, "; at %s %.3g TB are written a day", known ? "this rate" : "most",
                        step_s > 0 ? t->written * 86400 / step_s / 1e12 : 0);
}

void weft_plan_print_far(const weft_plan *plan, weft_text *text)
{
    const weft_far *far = plan->far;
    traffic t = {0};
    weft_roofline r;
    if (!plan->states.far_bytes)
        return;
    const bool known = weft_plan_roofline(plan, &r);
    count(plan->lowered[WEFT_MODE_TRAIN], &r, &t);
    weft_text_add(text, "  far, ");
    if (far && far->describe)
        far->describe(plan->far_self, text);
    weft_text_add(text, "  ");
    weft_print_bytes(text, (double)plan->states.far_bytes);
    weft_text_print(text, "\n  of it a step reads %.4g GB and writes %.4g GB", t.read / 1e9,
                    t.written / 1e9);
    if (r.far.read > 0)
        print_time(plan, &t, known, text);
    weft_text_add(text, "\n");
}
