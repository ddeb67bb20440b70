/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths that are read at run time: where a dim has one, only the places below it are to be
 * touched. A kernel that does not know them refuses such calls. */
#include "trial.h"

#include <math.h>
#include <string.h>

/* One index of the rule, with a length below its extent. */
typedef struct trial_length {
    conform_trial *t;
    int letter;
    int32_t length;
} trial_length;

static const weft_rule_part *part_of(const conform_use *u, int i)
{
    return i < u->node->n_ins ? &u->rule.in[i] : &u->rule.out[i - u->node->n_ins];
}

static int parts_of(const conform_use *u)
{
    return u->node->n_ins + u->node->n_outs;
}

/* Half of the index; 0: it has several extents, or is too short. */
static int32_t half_of(const conform_use *u, int letter)
{
    int64_t size = 0, grain = 1;
    for (int i = 0; i < parts_of(u); i++) {
        const weft_tensor *t = i < u->node->n_ins ? &u->ins[i] : &u->outs[i - u->node->n_ins];
        int d = weft_rule_dim(part_of(u, i), letter);
        if (d < 0)
            continue;
        if (size && (size != t->size[d] || grain != t->grain[d]))
            return 0;
        size = t->size[d];
        grain = t->grain[d];
    }
    return (int32_t)(size / grain / 2 * grain);
}

static void set_lengths(const trial_length *l, weft_tensor *tensors, const int32_t *at)
{
    for (int i = 0; i < parts_of(l->t->u); i++) {
        int d = weft_rule_dim(part_of(l->t->u, i), l->letter);
        if (d >= 0)
            tensors[i].length[d] = at;
    }
}

static bool is_beyond(const weft_tensor *t, int d, int64_t length, int64_t element)
{
    int64_t inner = 1;
    for (int i = d + 1; i < t->n_dims; i++)
        inner *= t->size[i];
    return element / inner % t->size[d] >= length;
}

/* Whoever reads beyond the length finds NaN. */
static void spoil(weft_tensor *t, int d, int64_t length)
{
    for (int64_t i = 0; weft_dtype_is_float(t->dtype) && i < weft_tensor_count(t); i++)
        if (is_beyond(t, d, length, i))
            weft_tensor_set(t, i, NAN);
}

/* What the plain kernel makes of the places below the length. */
static bool make_want(const trial_length *l, weft_tensor *want)
{
    conform_trial *t = l->t;
    const conform_use *u = t->u;
    weft_tensor ins[WEFT_RULE_MAX_PARTS];
    weft_error err = {0};
    for (int i = 0; i < u->node->n_ins; i++) {
        int d = weft_rule_dim(&u->rule.in[i], l->letter);
        ins[i] = d < 0 ? t->ins[i] : conform_slice(&t->ins[i], d, 0, l->length, &t->pool);
    }
    for (int r = 0; r < u->node->n_outs; r++) {
        int d = weft_rule_dim(&u->rule.out[r], l->letter);
        want[r] = d < 0 ? conform_new(&u->outs[r], &t->pool)
                        : conform_slice(&u->outs[r], d, 0, l->length, &t->pool);
    }
    weft_status s = conform_run(u, ins, want, false, &err);
    weft_error_release(&err); /* the op's own checks have said it */
    return s == WEFT_OK;
}

static bool untouched(const weft_tensor *t, int d, int64_t length)
{
    const unsigned char *p = t->data;
    size_t size = weft_dtype_size(t->dtype);
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        for (size_t k = 0; k < size && is_beyond(t, d, length, i); k++)
            if (p[(size_t)i * size + k] != 0xff)
                return false;
    return true;
}

static void compare(const trial_length *l, const weft_tensor *want)
{
    static const char *const remedy =
        "`accepts` refuses what it does not know, or `launch` touches [0, *length) alone";
    conform_trial *t = l->t;
    const char *index = t->u->rule.name[l->letter];
    for (int r = 0; r < t->u->node->n_outs; r++) {
        int d = weft_rule_dim(&t->u->rule.out[r], l->letter);
        weft_tensor got = t->outs[r];
        if (d >= 0) {
            got = conform_slice(&t->outs[r], d, 0, l->length, &t->pool);
            if (!untouched(&t->outs[r], d, l->length)) {
                conform_trial_fail(t,
                                   "length: accepts a length of index %s, and writes result %d "
                                   "beyond it; %s",
                                   index, r, remedy);
                return;
            }
        }
        int64_t at = conform_differ(&want[r], &got, conform_trial_tolerance(&got, WEFT_DTYPES));
        if (at < 0)
            continue;
        weft_text what = {0};
        conform_print_difference(&want[r], &got, r, at, &what);
        conform_trial_fail(t, "length: accepts a length of index %s, and does not heed it: %s; %s",
                           index, weft_text_get(&what), remedy);
        weft_text_release(&what);
        return;
    }
}

static void run(const trial_length *l, weft_call *call)
{
    conform_trial *t = l->t;
    weft_tensor want[WEFT_RULE_MAX_PARTS];
    weft_error err = {0};
    void *at;
    if (!make_want(l, want))
        return;
    for (int i = 0; i < t->u->node->n_ins; i++) {
        int d = weft_rule_dim(&t->u->rule.in[i], l->letter);
        if (d >= 0)
            spoil(&t->ins[i], d, l->length);
    }
    weft_status s = conform_trial_upload(t, call, &err);
    s = s ? s : conform_trial_put(t, &l->length, sizeof l->length, &at, &err);
    if (!s)
        set_lengths(l, t->on_device, at);
    s = s ? s : conform_trial_launch(t, call, &err);
    s = s ? s : conform_trial_download(t, &err);
    if (s)
        conform_trial_fail(t, "length: fails: %s", weft_error_text(&err));
    else
        compare(l, want);
    weft_error_release(&err);
}

void conform_check_lengths(conform_trial *t, int threads)
{
    int asked = 0;
    t->as = "the run's dtypes";
    t->accumulate = false;
    for (int letter = 0; letter < t->u->rule.n_letters; letter++) {
        const trial_length l = {t, letter, half_of(t->u, letter)};
        if (l.length > 0 && conform_trial_make(t, WEFT_DTYPES)) {
            conform_now(t->c, "kernel %s of op %s, with a length of index %s", t->kernel->name,
                        t->kernel->op, t->u->rule.name[letter]);
            set_lengths(&l, t->shapes, &l.length);
            weft_call call = conform_trial_call(t, threads);
            if (conform_trial_accepts(t, &call))
                run(&l, &call);
            asked++;
        }
        conform_trial_release(t);
    }
    conform_count(t->c, "lengths at run time", asked);
}
