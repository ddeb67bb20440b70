/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that a pass has broken, as it was before. */
#include "forecast/forecast.h"
#include "print/graph.h"

#include <unistd.h>
#include <weft/files.h>

/* The run folder if there is one, else the user's cache; NULL: neither. What is wrong is told; the
 * graph would have helped to find it. */
static const char *find_folder(const weft_plan *p)
{
    const char *dir = weft_params_text(p->weft, "dir"),
               *cache = p->plugins->n ? p->plugins->list[0].host.cache_dir : NULL;
    if (*dir && access(dir, W_OK) == 0)
        return dir;
    return cache && !weft_make_dirs(cache, NULL) ? cache : NULL;
}

static weft_status write_graph(const char *path, const weft_graph *g, weft_error *err)
{
    weft_text text = {0};
    weft_graph_print_whole(g, &text);
    weft_status s = text.out_of_memory
                        ? weft_fail_memory(err)
                        : weft_write_file(path, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    return s;
}

void weft_plan_keep_broken(const weft_plan *p, const char *plugin, const weft_graph *graph,
                           weft_error *err)
{
    weft_error why = {0};
    const char *dir = find_folder(p);
    char *path = dir ? weft_format("%s/before-%s.graph", dir, plugin) : NULL;
    if (!dir)
        return;
    if (!path)
        weft_fail_memory(err);
    else if (write_graph(path, graph, &why))
        weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                  "the graph before %s's pass could not be written: %s", plugin,
                  weft_error_text(&why));
    else
        weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                  "the graph before %s's pass was written to %s", plugin, path);
    weft_free(path);
    weft_error_release(&why);
}
