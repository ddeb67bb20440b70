/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_run.h"

#include "console/built_in.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static void log_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

weft_status plan_run_init(plan_run *p, const char *plugins, const char *rest,
                          const weft_plan_options *options)
{
    const char *fixtures = getenv("WEFT_TEST_FIXTURES");
    memset(p, 0, sizeof *p);
    if (!fixtures)
        fail_msg("set WEFT_TEST_FIXTURES to the folder that holds the fixture plugins' .so files");
    p->log = (weft_log){log_line, &p->seen};
    p->host =
        (weft_host){.log = &p->log, .rank = options->rank, .ranks = options->ranks, .threads = 1};
    weft_text ini = {0};
    weft_text_print(&ini, "[weft]\nplugin_path = %s/../run\nplugins = given %s\n%s", fixtures,
                    plugins, rest);
    weft_status s =
        weft_settings_read_text("test.ini", weft_text_get(&ini), ini.size, &p->settings, &p->err);
    weft_text_release(&ini);
    s = s ? s : weft_settings_fall_back(p->settings, WEFT_BUILT_IN, weft_built_in, &p->err);
    s = s ? s : weft_plugins_load(p->settings, &p->log, &p->plugins, &p->err);
    s = s ? s : weft_plugins_create(p->plugins, &p->host, &p->err);
    return s ? s : weft_plan_create(p->plugins, p->settings, options, &p->plan, &p->err);
}

void plan_run_start(plan_run *p, const char *plugins, const char *rest,
                    const weft_plan_options *options)
{
    if (plan_run_init(p, plugins, rest, options))
        fail_msg("planning: %s", plan_run_errors(p));
}

const char *plan_run_errors(plan_run *p)
{
    weft_text_clear(&p->seen);
    for (int i = 0; i < p->err.n_items; i++)
        weft_text_print(&p->seen, "%s\n", p->err.items[i].text);
    return weft_text_get(&p->seen);
}

void plan_run_release(plan_run *p)
{
    weft_plan_destroy(p->plan);
    weft_plugins_destroy(p->plugins);
    weft_settings_destroy(p->settings);
    weft_error_release(&p->err);
    weft_text_release(&p->seen);
    memset(p, 0, sizeof *p);
}
