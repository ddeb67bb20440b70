/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline as an SVG file: opens in any browser, needs no fonts, scripts or other files. */
#include "forecast/timeline.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = 70, RIGHT = 20, TOP = 64, ROW = 30, BOX = 24, LEAST = 960, MOST = 16000 };
enum { DIGIT = 7, MARGIN = 4 }; /* of a number in a box */

/* By forward, backward, weights; a rank's stages take turns, darker at first. */
enum { SHADES = 4 };
static const char *const colours[3][SHADES] = {{"#5b8fd6", "#8fb5e8", "#3f6fb0", "#b9d2f2"},
                                               {"#e08a4a", "#f0b384", "#bf6a2b", "#f7d3b5"},
                                               {"#5aa469", "#94cba0", "#3c7d4a", "#c3e3ca"}};
static const char *const other = "#9a9a9a";

static const char *colour_of(const weft_tasks *t, const weft_task *k)
{
    return weft_part_is_micro(k->part)
               ? colours[k->part - WEFT_PART_F][weft_timeline_turn(t, k->stage) % SHADES]
               : other;
}

/* Wide enough for the numbers in most boxes, as far as that is no wall of a picture. */
static double pixels_per_second(const weft_timeline *t)
{
    double boxes = 0, seconds = 0;
    for (int r = 0; r < t->tasks->ranks; r++)
        for (int i = 0; i < t->tasks->of[r].n; i++)
            if (t->tasks->of[r].list[i].part == WEFT_PART_F) {
                boxes++;
                seconds += t->of[r][i].end - t->of[r][i].start;
            }
    double width = seconds > 0 ? t->step_s * boxes / seconds * 3.5 * DIGIT : 0;
    return fmin(fmax(width, LEAST), MOST) / t->step_s;
}

static void print_box(const weft_timeline *t, int rank, int i, double scale, weft_text *text)
{
    const weft_task *k = &t->tasks->of[rank].list[i];
    const weft_task_time *at = &t->of[rank][i];
    double x = LEFT + at->start * scale, w = (at->end - at->start) * scale;
    int y = TOP + rank * ROW + (ROW - BOX) / 2;
    if (w <= 0)
        return;
    weft_text_print(text, "<g><title>rank %d: ", rank);
    weft_task_print(t->tasks, k, text);
    weft_text_add(text, ", from ");
    weft_print_seconds(text, at->start);
    weft_text_add(text, " to ");
    weft_print_seconds(text, at->end);
    weft_text_print(text,
                    "</title><rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" "
                    "stroke=\"#fff\" stroke-width=\"%s\"/>",
                    x, y, w, BOX, colour_of(t->tasks, k), w > 3 ? "0.8" : "0");
    int digits = snprintf(NULL, 0, "%lld", (long long)k->micro_batch);
    if (weft_part_is_micro(k->part) && w >= digits * DIGIT + MARGIN)
        weft_text_print(text, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%lld</text>",
                        x + w / 2, y + BOX / 2 + 4, (long long)k->micro_batch);
    weft_text_add(text, "</g>\n");
}

/* The whole step is shaded, and tasks lie on it: what is left are waits. */
static void print_row(const weft_timeline *t, int rank, double scale, weft_text *text)
{
    int y = TOP + rank * ROW;
    weft_text_print(text,
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">rank %d</text>\n<rect x=\"%d\" "
                    "y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"url(#wait)\"/>\n",
                    LEFT - 8, y + ROW / 2 + 4, rank, LEFT, y + (ROW - BOX) / 2, t->step_s * scale,
                    BOX);
    for (int i = 0; i < t->tasks->of[rank].n; i++)
        print_box(t, rank, i, scale, text);
}

static void print_axis(const weft_timeline *t, double scale, weft_text *text)
{
    double about = t->step_s / fmax(4, t->step_s * scale / 160),
           step = pow(10, floor(log10(about)));
    int bottom = TOP + t->tasks->ranks * ROW;
    step *= about / step > 5 ? 10 : about / step > 2 ? 5 : about / step > 1 ? 2 : 1;
    for (int i = 0; i * step <= t->step_s * 1.000001; i++) {
        double x = LEFT + i * step * scale;
        weft_text_print(text,
                        "<path d=\"M%.2f %dv6\" stroke=\"#666\"/><text x=\"%.2f\" y=\"%d\" "
                        "text-anchor=\"middle\">",
                        x, bottom, x, bottom + 20);
        weft_print_seconds(text, i * step);
        weft_text_add(text, "</text>\n");
    }
}

static void print_key(int *x, const char *fill, const char *what, int letters, weft_text *text)
{
    weft_text_print(text,
                    "<rect x=\"%d\" y=\"36\" width=\"16\" height=\"14\" fill=\"%s\"/><text "
                    "x=\"%d\" y=\"47\">%s</text>\n",
                    *x, fill, *x + 22, what);
    *x += 22 + letters * DIGIT + 16;
}

static void print_legend(const weft_timeline *t, weft_text *text)
{
    int x = LEFT, stages = (t->tasks->stages + t->tasks->ranks - 1) / t->tasks->ranks;
    char what[64];
    bool split = false;
    for (int s = 0; s < t->tasks->stages; s++)
        split = split || t->tasks->split[s];
    for (int i = 0, kinds = split ? 3 : 2; i < kinds * stages && i < kinds * SHADES; i++) {
        int stage = i / kinds, kind = i % kinds, n;
        const char *part = weft_part_name((weft_part)(WEFT_PART_F + kind));
        if (stages == 1)
            n = snprintf(what, sizeof what, "%s", part);
        else
            n = snprintf(what, sizeof what, "%s, stage %d of a rank", part, stage + 1);
        print_key(&x, colours[kind][stage], what, n, text);
    }
    print_key(&x, other, "begin, step_end, update", 23, text);
    print_key(&x, "url(#wait)", "waits", 5, text);
}

void weft_timeline_print_svg(const weft_timeline *t, weft_text *text)
{
    double scale = t->step_s > 0 ? pixels_per_second(t) : 1;
    int width = LEFT + RIGHT + (int)ceil(t->step_s * scale),
        height = TOP + t->tasks->ranks * ROW + 34;
    weft_text_print(text,
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
                    "xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" "
                    "fill=\"#222\">\n",
                    width, height, width, height);
    weft_text_add(text, "<defs><pattern id=\"wait\" width=\"6\" height=\"6\" "
                        "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect "
                        "width=\"6\" height=\"6\" fill=\"#f3f3f3\"/><path d=\"M0 0v6\" "
                        "stroke=\"#d0d0d0\" stroke-width=\"2\"/></pattern></defs>\n"
                        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    weft_text_print(text, "<text x=\"%d\" y=\"22\" font-size=\"14\">step ", LEFT);
    weft_print_seconds(text, t->step_s);
    weft_text_print(text, ", bubble %.1f %%</text>\n", 100 * t->bubble);
    print_legend(t, text);
    for (int r = 0; r < t->tasks->ranks; r++)
        print_row(t, r, scale, text);
    if (t->step_s > 0)
        print_axis(t, scale, text);
    weft_text_add(text, "</svg>\n");
}
