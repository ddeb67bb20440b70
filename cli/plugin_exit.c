/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that ends the process is found out: whoever calls exit runs what is to be done at the
 * exit on its own thread, and that is still in the plugin. */
#include "launch/job.h"
#include "record.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_t main_thread;
static pid_t process; /* its children are somebody else's business */

static void look_at_exit(int code, void *ctx)
{
    static atomic_flag looked = ATOMIC_FLAG_INIT;
    weft_blame blame = weft_blame_get();
    (void)ctx;
    if (getpid() != process || (!blame.plugin && pthread_equal(pthread_self(), main_thread)))
        return;                        /* from main */
    (void)on_exit(look_at_exit, NULL); /* for another rank's thread that exits beside this one */
    while (atomic_flag_test_and_set(&looked))
        pause(); /* until the first has told */
    if (blame.plugin)
        fprintf(stderr,
                "error: plugin '%s' has called exit(%d) in %s%s%s; it should return an "
                "error\n",
                blame.plugin, code, blame.hook ? blame.hook : "a hook", blame.op ? " of op " : "",
                blame.op ? blame.op : "");
    else
        fprintf(stderr, "error: a thread that a plugin has started has called exit(%d)\n", code);
    fflush(stderr);
    weft_record_end(1, "a plugin has called exit");
    weft_job_tell(1);
    _exit(1);
}

weft_status weft_cli_guard_exit(weft_error *err)
{
    main_thread = pthread_self();
    process = getpid();
    return on_exit(look_at_exit, NULL) == 0
               ? WEFT_OK
               : weft_fail(err, WEFT_ERR_MEMORY, WEFT_NOWHERE, "exits cannot be watched");
}
