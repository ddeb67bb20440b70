/* SPDX-License-Identifier: Apache-2.0 */
/* A case as INIs, and as a line of text. */
#include "random.h"

#include <stdlib.h>
#include <string.h>

const char *random_get(const random_case *c, unsigned run, const char *section, const char *key)
{
    for (int i = 0; i < c->n_settings; i++) {
        const random_setting *s = &c->settings[i];
        if ((s->runs & run) && strcmp(s->section, section) == 0 && strcmp(s->key, key) == 0)
            return s->value;
    }
    return NULL;
}

int random_number(const random_case *c, unsigned run, const char *section, const char *key,
                  int otherwise)
{
    const char *value = random_get(c, run, section, key);
    return value ? atoi(value) : otherwise;
}

bool random_lists(const random_case *c, unsigned run, const char *plugin)
{
    for (int i = 0; i < c->n_plugins; i++)
        if ((c->plugins[i].runs & run) && strcmp(c->plugins[i].name, plugin) == 0)
            return true;
    return false;
}

const char *random_model(const random_case *c)
{
    static const char *const names[] = {"llama3", "gpt2", "mixtral", "qwen3", "deepseek3", "flux"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (random_lists(c, RANDOM_ONE, names[i]))
            return names[i];
    return "";
}

int random_layers(const random_case *c)
{
    const char *model = random_model(c);
    return strcmp(model, "flux") == 0 ? random_number(c, RANDOM_ONE, model, "n_double", 1) +
                                            random_number(c, RANDOM_ONE, model, "n_single", 1)
                                      : random_number(c, RANDOM_ONE, model, "n_layers", 2);
}

int random_ranks(const random_case *c, unsigned run)
{
    static const struct {
        const char *section, *key;
    } axes[] = {{"tp", "degree"}, {"cp", "degree"},   {"pp", "degree"},
                {"ep", "degree"}, {"fsdp", "degree"}, {"fsdp", "replicate"}};
    int n = 1;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        n *= random_number(c, run, axes[i].section, axes[i].key, 1);
    return n;
}

static bool watches(const char *plugin)
{
    static const char *const names[] = {"ckpt", "dump", "metrics", "sample"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(plugin, names[i]) == 0)
            return true;
    return false;
}

static const char *between(const char *key)
{
    return strcmp(key, "rule") == 0 ? ", " : strcmp(key, "prompt") == 0 ? " | " : " ";
}

/* The setting at i is the first of its key in this run. */
static bool is_first(const random_case *c, unsigned run, int i)
{
    return random_get(c, run, c->settings[i].section, c->settings[i].key) == c->settings[i].value;
}

static void print_section(const random_case *c, unsigned run, const char *section, weft_text *out)
{
    bool begun = false;
    for (int i = 0; i < c->n_settings; i++) {
        const random_setting *s = &c->settings[i];
        if (!(s->runs & run) || strcmp(s->section, section) != 0 || !is_first(c, run, i))
            continue;
        if (!begun && strcmp(section, "weft") != 0)
            weft_text_print(out, "[%s]\n", section);
        begun = true;
        weft_text_print(out, "%s = %s", s->key, s->value);
        for (int k = i + 1; k < c->n_settings; k++)
            if ((c->settings[k].runs & run) && strcmp(c->settings[k].section, section) == 0 &&
                strcmp(c->settings[k].key, s->key) == 0)
                weft_text_print(out, "%s%s", between(s->key), c->settings[k].value);
        weft_text_add(out, "\n");
    }
}

void random_print(const random_case *c, unsigned run, bool bare, weft_text *out)
{
    weft_text_add(out, "[weft]\nplugins =");
    for (int i = 0; i < c->n_plugins; i++)
        if ((c->plugins[i].runs & run) && !(bare && watches(c->plugins[i].name)))
            weft_text_print(out, " %s", c->plugins[i].name);
    weft_text_add(out, "\n");
    print_section(c, run, "weft", out);
    print_section(c, run, "train", out);
    print_section(c, run, "mesh", out);
    for (int i = 0; i < c->n_plugins; i++)
        if ((c->plugins[i].runs & run) && !(bare && watches(c->plugins[i].name)))
            print_section(c, run, c->plugins[i].name, out);
}

static void describe_mesh(const random_case *c, unsigned run, weft_text *out)
{
    for (int i = 0; i < c->n_plugins; i++) {
        const char *name = c->plugins[i].name, *degree = random_get(c, run, name, "degree"),
                   *replicate = random_get(c, run, name, "replicate"),
                   *schedule = random_get(c, run, name, "schedule");
        if (!(c->plugins[i].runs & run) || (!degree && strcmp(name, "ac") != 0))
            continue;
        weft_text_print(out, " %s", name);
        if (degree)
            weft_text_print(out, " %s", degree);
        if (replicate)
            weft_text_print(out, " x %s", replicate);
        for (int k = 0; k < c->n_settings; k++)
            if ((c->settings[k].runs & run) && strcmp(c->settings[k].key, "over") == 0 &&
                strcmp(name, "ep") == 0)
                weft_text_print(out, " over %s", c->settings[k].value);
        if (schedule)
            weft_text_print(out, " %s", schedule);
    }
}

void random_describe(const random_case *c, weft_text *out)
{
    const char *recipe = random_get(c, RANDOM_MANY, "float8", "recipe"), *model = random_model(c),
               *tied = random_get(c, RANDOM_MANY, model, "tied");
    weft_text_print(out, "seed %llu: %s%s, %s", (unsigned long long)c->seed, model,
                    tied && strcmp(tied, "yes") == 0 ? " tied" : "",
                    random_lists(c, RANDOM_MANY, "bf16")
                        ? "bf16"
                        : random_get(c, RANDOM_MANY, "train", "dtype"));
    if (random_lists(c, RANDOM_MANY, "float8"))
        weft_text_print(out, ", float8 %s", recipe ? recipe : "");
    weft_text_add(out, ",");
    describe_mesh(c, RANDOM_MANY, out);
    static const char *const told[][3] = {{"train", "eval_every", "validated"},
                                          {"sample", "every", "writes text"},
                                          {"dump", "steps", "dumped"},
                                          {"text", "reset", "packed"},
                                          {"weft", "check", "checked"}};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (random_get(c, RANDOM_MANY, told[i][0], told[i][1]))
            weft_text_print(out, ", %s", told[i][2]);
    static const char *const also[] = {"masked", "offload", "join", "overlap"};
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        if (random_lists(c, RANDOM_MANY, also[i]))
            weft_text_print(out, ", %s", also[i]);
    if (c->goes_on) {
        weft_text_add(out, ", then");
        describe_mesh(c, RANDOM_OTHER, out);
        if (random_ranks(c, RANDOM_OTHER) == 1)
            weft_text_add(out, " one rank");
    }
}

void random_drop_setting(random_case *c, int i)
{
    c->n_settings--;
    memmove(&c->settings[i], &c->settings[i + 1],
            (size_t)(c->n_settings - i) * sizeof *c->settings);
}

void random_drop_plugin(random_case *c, int i)
{
    const char *name = c->plugins[i].name;
    for (int k = c->n_settings - 1; k >= 0; k--)
        if (strcmp(c->settings[k].section, name) == 0)
            random_drop_setting(c, k);
    c->n_plugins--;
    memmove(&c->plugins[i], &c->plugins[i + 1], (size_t)(c->n_plugins - i) * sizeof *c->plugins);
}
