/* SPDX-License-Identifier: Apache-2.0 */
/* The files in cli/templates as text: make turns each FILE.in into an array. */
#ifndef WEFT_CLI_TEMPLATES_H
#define WEFT_CLI_TEMPLATES_H

extern const char weft_template_axis_c[];
extern const char weft_template_command_c[];
extern const char weft_template_makefile[];
extern const char weft_template_makefile_gradient[];
extern const char weft_template_observer_c[];
extern const char weft_template_op_c[];
extern const char weft_template_optimizer_c[];
extern const char weft_template_pass_c[];
extern const char weft_template_readme_md[];
extern const char weft_template_report_html[];
extern const char weft_template_study_html[];
extern const char weft_template_test_gradient_c[];
extern const char weft_template_test_sh[];
extern const char weft_template_model_c[];
extern const char weft_template_data_c[];
extern const char weft_template_wrap_c[];

#endif
