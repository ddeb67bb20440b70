/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two subjects, as data and as text. */
#ifndef WEFT_CLI_STUDY_DIFFER_H
#define WEFT_CLI_STUDY_DIFFER_H

#include "study/subject.h"

/* A list of objects {"kind", "what", "a", "b"}; a or b null: that one does not have it. Kinds:
 *     plugin      only one lists it, or, "moved" true, it stands elsewhere: a and b are the plugin
 *                 before it there
 *     setting     "[section] key", of plugins that both list
 *     plan        "memory: arena", "collectives: ...": what the plans come to
 *     data, code  the data's hash, plugins' bytes, the version
 *     value       the first step ("step") whose `what` is another in metrics.jsonl
 *     steps       one has made more
 *     tensor      of checkpoints */
weft_status weft_differ(const weft_subject *a, const weft_subject *b, json_t **out,
                        weft_error *err);
/* Only settings and plugins: of two plans. */
void weft_differ_settings(const json_t *a, const json_t *b, json_t *out);
/* The first values that differ, a member of `out` for each key; *same_bits: both have hashes of
 * their last step, and these are equal. */
void weft_differ_values(const json_t *a, const json_t *b, json_t *out, bool *same_bits);
/* Of these the first that tells bits apart: loss, eval_loss, grad_norm or hash; NULL: none does.
 * Whether two runs are equal is decided by this, and by same_bits. */
const json_t *weft_differ_parting(const json_t *values);
/* A few lines each kind. */
void weft_differ_print(const json_t *differences, weft_text *text);

#endif
