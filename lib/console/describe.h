/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin described from its descriptor. */
#ifndef WEFT_LIB_CONSOLE_DESCRIBE_H
#define WEFT_LIB_CONSOLE_DESCRIBE_H

#include "host/plugins.h"

/* Words for the enums; "?" for a value out of range. */
const char *weft_kind_name(weft_kind kind);
const char *weft_param_type_name(weft_param_type type);
/* The names of an op's flags (WEFT_OP_*) by blanks: "half matmul". */
void weft_op_flags_print(unsigned flags, weft_text *text);
/* `weft inspect NAME` from the descriptor: text or JSON. all: advanced parameters too. */
void weft_plugin_describe(const weft_module *module, bool all, weft_text *text);
void weft_plugin_describe_json(const weft_module *module, weft_text *text);
/* The keys of one section, as the text above has them; for man, as a part of a page. */
void weft_params_describe(const char *section, const weft_param *params, bool all, weft_text *text);
void weft_params_describe_man(const weft_param *params, weft_text *text);
/* As a page for man, section 7. */
void weft_plugin_describe_man(const weft_module *module, weft_text *text);

#endif
