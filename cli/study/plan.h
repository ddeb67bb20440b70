/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as one JSON object: what `weft plan --json` prints, and what runs are compared by. Nothing
 * in it is measured, so that equal plans are equal texts. */
#ifndef WEFT_CLI_STUDY_PLAN_H
#define WEFT_CLI_STUDY_PLAN_H

#include "session.h"

#include <jansson.h>

/* {"weft_plan": 1, "ranks", "program", "plugins": [names], "numerics": {plugin: tier}, "settings":
 * {section: {key: value}}, "in_force": the same, of the model's words that stand for numbers,
 * "parameters", "trained", "steps", "tokens", "micro_batches", "flops", "model_flops", "products":
 * {dtype: flops}, "memory": {class: bytes}, "state" (of all ranks together), "sent", "collectives":
 * {words: [times, bytes]}, "passes": {words: nodes}}. All of a rank; bytes and flops of a step. */
weft_status weft_plan_to_json(const weft_session *session, const weft_plan *plan, json_t **out,
                              weft_error *err);
/* Of an INI and edits; nothing is opened. An INI that is data is refused if it names files that
 * would have to be. */
weft_status weft_study_plan(const weft_cli_options *options, json_t **out, weft_error *err);

#endif
