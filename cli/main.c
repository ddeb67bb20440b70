/* SPDX-License-Identifier: Apache-2.0 */
/* The weft command: one subcommand after another. */
#include "cli.h"

#include "console/crash.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"train", "run a training run", weft_cmd_train},
    {"plan", "compile a run for any number of ranks and show it; nothing is started",
     weft_cmd_plan},
    {"tune", "find the fastest settings of a run's parallelism that fit", weft_cmd_tune},
    {"generate", "continue texts with a trained model", weft_cmd_generate},
    {"oracle", "run two INI files and compare losses, gradients and parameters", weft_cmd_oracle},
    {"ablate", "run variants over several seeds, and say what difference each makes",
     weft_cmd_ablate},
    {"bisect", "find which of the differences between two runs does it", weft_cmd_bisect},
    {"compare", "say what differs between runs, INI files, plans and checkpoints",
     weft_cmd_compare},
    {"status", "say how far a run is, and whether it goes on", weft_cmd_status},
    {"report", "write a run as one page for a browser", weft_cmd_report},
    {"config", "print every effective value of an INI file", weft_cmd_config},
    {"plugins", "list the plugins that can be found", weft_cmd_plugins},
    {"inspect", "describe a plugin and its parameters", weft_cmd_inspect},
    {"vet", "write down which plugins may be opened, and check files against that", weft_cmd_vet},
    {"conform", "check a plugin against what it declares", weft_cmd_conform},
    {"new-plugin", "make a folder with a plugin to begin with", weft_cmd_new_plugin},
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char *const *own_names(void)
{
    static const char *names[N_COMMANDS + 2] = {[N_COMMANDS] = "help"};
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    return names;
}

static int print_help(void)
{
    weft_text text = {0};
    int code;

    weft_text_add(&text, "usage: weft COMMAND [arguments]\n\nTrains large language models. A run "
                         "is an INI file that lists its plugins.\n\ncommands:\n");
    for (int i = 0; i < N_COMMANDS; i++)
        weft_text_print(&text, "  %-10s %s\n", commands[i].name, commands[i].summary);
    weft_command_list(&text);
    weft_text_add(
        &text, "\nweft COMMAND --help says more about one; weft --version prints the version.\n");
    code = weft_cli_print(&text);
    weft_text_release(&text);
    return code;
}

extern const char weft_commit[]; /* made by the build */

static int print_version(void)
{
    weft_text text = {0};
    int code;

    weft_text_print(&text, "weft %s (plugin ABI %d.%d)\ncommit: %s\nbuilt with: %s\n", WEFT_VERSION,
                    WEFT_ABI_MAJOR, WEFT_ABI_MINOR, weft_commit, WEFT_FEATURES);
    code = weft_cli_print(&text);
    weft_text_release(&text);
    return code;
}

static int refuse(const char *word)
{
    enum { MAX_PLUGIN_COMMANDS = 16 };
    const char *names[N_COMMANDS + MAX_PLUGIN_COMMANDS], *near;
    weft_error err = {0};
    int code;

    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    near = weft_nearest(word, names,
                        N_COMMANDS + weft_command_names(names + N_COMMANDS, MAX_PLUGIN_COMMANDS));
    weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE,
              "unknown command '%.60s'%s%s%s (weft --help lists all)", word,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    code = weft_cli_report(&err);
    weft_error_release(&err);
    return code;
}

/* Where a standard stream is closed, the next file that is opened would take its place and be
 * written into. What is opened here instead can only be used the wrong way round, so that who
 * writes to it still learns that nobody reads. */
static void fill_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return;
}

/* UCX, which transports may bring along, would say itself what a crash was, in place of weft, which
 * knows the plugin. It reads that when it is loaded. */
static void keep_crashes(void)
{
    if (setenv("UCX_HANDLE_ERRORS", "none", 0) != 0)
        return; /* then both say it */
}

/* Streams of a GPU share hardware connections, 8 unless CUDA is told otherwise when it starts; what
 * waits in one holds up what stands behind it there. There are 32. */
static void widen_connections(void)
{
    if (setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) != 0)
        return; /* then there are 8 */
}

/* Threads that wait for each other between kernels spin, with OpenMP's own settings for
 * milliseconds. Where other processes want the processors that is time in which nobody computes,
 * and each meeting of threads costs a time slice. Some 20 us bridge the gaps within a step; who
 * waits longer sleeps. OpenMP reads its environment when it is loaded, which is when a plugin first
 * needs it. */
static void bound_spinning(char **argv)
{
    static const char *const settings[][2] = {{"GOMP_SPINCOUNT", "1000"}, {"KMP_BLOCKTIME", "0"}};
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME"))
        return; /* somebody knows better, or we have been here */
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (setenv(settings[i][0], settings[i][1], 0) != 0)
            return;
    if (dlsym(RTLD_DEFAULT, "omp_get_max_threads"))
        execv("/proc/self/exe",
              argv); /* with plugins built in it is loaded; if this fails, so be it */
}

int main(int argc, char **argv)
{
    fill_streams();
    keep_crashes();
    widen_connections();
    bound_spinning(argv);
    signal(SIGXFSZ,
           SIG_IGN); /* a file that may not grow is an error like a full disk, and told like one */
    weft_error err = {0};
    int code = weft_crash_install(&err) || weft_cli_guard_exit(&err) ? weft_cli_report(&err) : 0;
    weft_error_release(&err);
    if (code)
        return code;
    weft_command_set_own(own_names());
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        fputs("error: no command given; weft --help lists all\n", stderr);
        return 2;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return print_help();
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
        return print_version();
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(word, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return weft_command_is(word) ? weft_command_run(argc - 1, argv + 1) : refuse(word);
}
