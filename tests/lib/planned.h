/* SPDX-License-Identifier: Apache-2.0 */
/* A model on a mesh, from a few words to the ordered joint graph: the way that a run takes, with
 * the plugins linked in instead of loaded. */
#ifndef WEFT_TESTS_PLANNED_H
#define WEFT_TESTS_PLANNED_H

#include "compile/graph/graph.h"
#include "settings/settings.h"

#include <weft/plugin.h>

typedef struct planned_spec {
    const char *axes;         /* "tp=2 dp_shard=4", innermost first; those of size 1 are left out */
    const char *passes;       /* plugins in order, each with its settings: "tp bf16 fsdp:zero=2" */
    const weft_plugin *model; /* NULL: llama3 */
    const char *ini; /* the model's settings, "n_layers = 2\n..." ; NULL: those of planned_tiny */
    int64_t batch, seq,
        micro;     /* of one micro-batch, over the whole mesh; how many a step. 0: 4, 8, 1 */
    int64_t chunk; /* tokens of one chunk of the head; 0: auto, one for what is small */
    weft_mode mode;
    uint64_t dice;
    const weft_op *instead; /* NULL, or an op that takes the place of the one of its name */
    bool placed_only;       /* neither differentiated nor updated */
    bool cuts;              /* axes say what they cut, as in a run; else parts of the head need not
                               divide shards */
} planned_spec;

typedef struct planned_plugin {
    const weft_plugin *plugin;
    weft_host host;
    void *self;
} planned_plugin;

enum { PLANNED_MAX_PLUGINS = 10 };

typedef struct planned {
    weft_settings *settings;
    planned_plugin list[PLANNED_MAX_PLUGINS]; /* the model first, adamw last */
    int n;
    weft_ops ops;
    weft_graph *g;
    weft_error err;
    double ms[4]; /* building, placing, differentiating, updating and ordering */
} planned;

/* Two blocks, embed 12, 12 heads and 6 kv_heads of 4, ffn 26, vocab 50: sizes that do not divide
 * well. */
extern const char planned_tiny[];

/* On failure `err` says why; release in any case. */
weft_status planned_init(planned *p, const planned_spec *spec);
void planned_release(planned *p);

/* The value that becomes the next content of a parameter. */
const weft_value *planned_report(const planned *p, const char *name);

#endif
