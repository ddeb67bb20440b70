/* SPDX-License-Identifier: Apache-2.0 */
/* Two sequences in one, and where pictures' places lie.
 *
 * Concatenation cannot be cut by places: a rank's part of the whole would not be made of its parts
 * of the two. So these take turns: of 512 and 1,024 places one of the first, two of the second, and
 * so on. Whoever sees all places does not care for their order, and any axis that divides the
 * number of turns cuts all three alike. */
#include "diffusion.h"

#include <math.h>

diffusion_turns diffusion_turns_of(int64_t text, int64_t image)
{
    int64_t a = text, b = image;
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a > 0 ? (diffusion_turns){text / a, image / a} : (diffusion_turns){0, 0};
}

/* Rows of the two and of what they are in. */
typedef struct joint {
    const weft_tensor *text, *image, *all;
    diffusion_turns each;
    int64_t turns, width; /* that are here */
} joint;

static weft_status joint_of(const weft_call *call, const weft_tensor *text,
                            const weft_tensor *image, const weft_tensor *all, joint *out,
                            weft_error *err)
{
    const diffusion_turns t = diffusion_turns_of(text->whole[1], image->whole[1]);
    *out = (joint){text, image, all, t, t.text ? text->size[1] / t.text : 0, all->size[2]};
    const int64_t first = t.text ? text->lo[1] / t.text : 0;
    if (text->size[1] != out->turns * t.text || image->size[1] != out->turns * t.image ||
        all->size[1] != out->turns * (t.text + t.image) || text->lo[1] != first * t.text ||
        image->lo[1] != first * t.image || all->lo[1] != first * (t.text + t.image))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: shards of %lld and %lld places, which take turns of %lld and %lld, "
                         "are none of whole turns",
                         call->op->name, (long long)text->size[1], (long long)image->size[1],
                         (long long)t.text, (long long)t.image);
    return WEFT_OK;
}

/* Where row `row` of the whole comes from: of which, and which row there. */
static const weft_tensor *source_of(const joint *j, int64_t row, int64_t *from)
{
    const int64_t unit = j->each.text + j->each.image, places = j->turns * unit,
                  turn = row % places / unit, at = row % unit, b = row / places;
    const bool of_text = at < j->each.text;
    *from = of_text ? (b * j->turns + turn) * j->each.text + at
                    : (b * j->turns + turn) * j->each.image + at - j->each.text;
    return of_text ? j->text : j->image;
}

static weft_status interleave(const weft_call *call, weft_error *err)
{
    joint j;
    weft_status s = joint_of(call, &call->ins[0], &call->ins[1], &call->outs[0], &j, err);
    for (int64_t i = 0; !s && i < weft_tensor_count(j.all); i++) {
        int64_t from;
        const weft_tensor *t = source_of(&j, i / j.width, &from);
        diffusion_put(call, 0, i, diffusion_get(t, from * j.width + i % j.width));
    }
    return s;
}

static weft_status separate(const weft_call *call, weft_error *err)
{
    joint j;
    weft_status s = joint_of(call, &call->outs[0], &call->outs[1], &call->ins[0], &j, err);
    for (int64_t i = 0; !s && i < weft_tensor_count(j.all); i++) {
        int64_t to;
        const weft_tensor *t = source_of(&j, i / j.width, &to);
        diffusion_put(call, t == j.text ? 0 : 1, to * j.width + i % j.width,
                      diffusion_get(j.all, i));
    }
    return s;
}

/* The image's places alone, of joint rows; and back, between zeros. */
static weft_status move_image(const weft_call *call, const weft_tensor *image,
                              const weft_tensor *all, bool back, weft_error *err)
{
    const diffusion_turns t =
        diffusion_turns_of(weft_call_int(call, "text"), weft_call_int(call, "image"));
    const int64_t unit = t.text + t.image, width = all->size[2], turns = all->size[1] / unit;
    if (all->size[1] != turns * unit || image->size[1] != turns * t.image ||
        all->lo[1] % unit != 0 || image->lo[1] != all->lo[1] / unit * t.image)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: a shard of %lld places is none of whole turns of %lld",
                         call->op->name, (long long)all->size[1], (long long)unit);
    for (int64_t i = 0; i < weft_tensor_count(all); i++) {
        const int64_t row = i / width, at = row % unit - t.text,
                      other = (row / unit * t.image + at) * width + i % width;
        if (back)
            diffusion_put(call, 0, i, at < 0 ? 0 : diffusion_get(image, other));
        else if (at >= 0)
            diffusion_put(call, 0, other, diffusion_get(all, i));
    }
    return WEFT_OK;
}

static weft_status take_image(const weft_call *call, weft_error *err)
{
    return move_image(call, &call->outs[0], &call->ins[0], false, err);
}

static weft_status put_image(const weft_call *call, weft_error *err)
{
    return move_image(call, &call->ins[0], &call->outs[0], true, err);
}

static weft_status check_sizes(const weft_node *node, weft_error *err)
{
    if (weft_node_int(node, "text") < 1 || weft_node_int(node, "image") < 1 ||
        node->ins[0]->n_dims != 3)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s of %s: text and image say how many places each has, of [batch seq "
                         "embed]",
                         node->op->name, node->ins[0]->name);
    return WEFT_OK;
}

static weft_status interleave_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const int64_t text = weft_node_int(node, "text"), image = weft_node_int(node, "image");
    weft_status s = check_sizes(node, err);
    (void)g;
    if (s)
        return s;
    diffusion_like(node->outs[0], node->ins[0]);
    node->outs[0]->dims[1] = (weft_dim){"joint_seq", text + image, 1};
    if (node->ins[0]->dims[1].size != text || node->ins[1]->n_dims != 3 ||
        node->ins[1]->dims[1].size != image)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "interleave of %s and %s: they have not %lld and %lld places",
                         node->ins[0]->name, node->ins[1]->name, (long long)text, (long long)image);
    return WEFT_OK;
}

static weft_status separate_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const int64_t text = weft_node_int(node, "text"), image = weft_node_int(node, "image");
    weft_status s = check_sizes(node, err);
    (void)g;
    if (s)
        return s;
    for (int i = 0; i < 2; i++)
        diffusion_like(node->outs[i], node->ins[0]);
    node->outs[0]->dims[1] = (weft_dim){"text_seq", text, 1};
    node->outs[1]->dims[1] = (weft_dim){"image_seq", image, 1};
    if (node->ins[0]->dims[1].size != text + image)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "separate of %s: it has not %lld and %lld places", node->ins[0]->name,
                         (long long)text, (long long)image);
    return WEFT_OK;
}

static weft_status take_image_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    weft_status s = check_sizes(node, err);
    (void)g;
    if (s)
        return s;
    diffusion_like(node->outs[0], node->ins[0]);
    node->outs[0]->dims[1] = (weft_dim){"image_seq", weft_node_int(node, "image"), 1};
    return WEFT_OK;
}

static weft_status put_image_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    weft_status s = check_sizes(node, err);
    (void)g;
    if (s)
        return s;
    diffusion_like(node->outs[0], node->ins[0]);
    node->outs[0]->dims[1] =
        (weft_dim){"joint_seq", weft_node_int(node, "text") + weft_node_int(node, "image"), 1};
    return WEFT_OK;
}

/* ---- rotary positions along three axes ---- */

diffusion_picture diffusion_picture_of(const weft_call *call)
{
    return (diffusion_picture){
        weft_call_int(call, "text"),
        weft_call_int(call, "image"),
        weft_call_int(call, "columns"),
        {weft_call_int(call, "axis0"), weft_call_int(call, "axis1"), weft_call_int(call, "axis2")},
        weft_call_real(call, "theta")};
}

/* The first axis is 0 everywhere. */
double diffusion_angle(const diffusion_picture *p, int64_t place, int64_t pair)
{
    const int64_t unit = p->text + p->image, at = place % unit;
    if (at < p->text || pair < p->width[0] / 2)
        return 0;
    const int64_t number = place / unit * p->image + at - p->text;
    const bool row = pair < (p->width[0] + p->width[1]) / 2;
    const int64_t width = p->width[row ? 1 : 2],
                  i = pair - (row ? p->width[0] : p->width[0] + p->width[1]) / 2;
    return (double)(row ? number / p->columns : number % p->columns) *
           pow(p->theta, -2.0 * (double)i / (double)width);
}

/* x [b s h], index [s] -> neighbours of a head, (x[2i], x[2i + 1]), turned; back where it is a
 * gradient. */
static weft_status turn_by(const weft_call *call, double sign)
{
    const weft_tensor *x = &call->ins[0];
    const diffusion_picture p = diffusion_picture_of(call);
    const int64_t d = x->grain[2], places = x->size[1], width = x->size[2];
    for (int64_t i = 0; i < weft_tensor_count(x); i += 2) {
        const double a = sign * diffusion_angle(&p,
                                                diffusion_int(&call->ins[1], i / width % places),
                                                i % width % d / 2),
                     c = cos(a), s = sin(a), u = diffusion_get(x, i), v = diffusion_get(x, i + 1);
        diffusion_put(call, 0, i, c * u - s * v);
        diffusion_put(call, 0, i + 1, s * u + c * v);
    }
    return WEFT_OK;
}

static weft_status turn(const weft_call *call, weft_error *err)
{
    (void)err;
    return turn_by(call, 1);
}

static weft_status turn_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return turn_by(call, -1);
}

static weft_status turn_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[0];
    const int64_t a = weft_node_int(node, "axis0"), b = weft_node_int(node, "axis1"),
                  c = weft_node_int(node, "axis2");
    (void)g;
    diffusion_like(node->outs[0], x);
    if (x->n_dims != 3 || a + b + c != x->dims[2].grain || a % 2 || b % 2 || c % 2)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "turn of %s: axes of %lld, %lld and %lld must be even, and add up to a "
                         "head's %lld",
                         x->name, (long long)a, (long long)b, (long long)c,
                         (long long)(x->n_dims == 3 ? x->dims[2].grain : 0));
    if (weft_node_int(node, "image") < 1 || weft_node_int(node, "columns") < 1 ||
        weft_node_int(node, "text") < 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "turn of %s: there is no picture without image and columns", x->name);
    return WEFT_OK;
}

const weft_op diffusion_interleave = {
    .name = "interleave",
    .summary = "two sequences in one, by turns: text, image -> both",
    .rule = "b s e, b s e -> b s e",
    .linear = "all",
    .grad = (const char *const[]){"0 1: separate dy", NULL},
    .attrs = "text, image",
    .flags = WEFT_OP_HALF,
    .plain = interleave,
    .infer = interleave_infer,
};

const weft_op diffusion_separate = {
    .name = "separate",
    .summary = "takes apart what interleave has put together",
    .rule = "b s e -> b s e, b s e",
    .linear = "0",
    .grad = (const char *const[]){"0: interleave dys", NULL},
    .attrs = "text, image",
    .flags = WEFT_OP_HALF,
    .plain = separate,
    .infer = separate_infer,
};

const weft_op diffusion_take_image = {
    .name = "take_image",
    .summary = "of what interleave has put together the second sequence alone",
    .rule = "b s e -> b s e",
    .linear = "0",
    .grad = (const char *const[]){"0: put_image dy", NULL},
    .attrs = "text, image",
    .flags = WEFT_OP_HALF,
    .plain = take_image,
    .infer = take_image_infer,
};

const weft_op diffusion_put_image = {
    .name = "put_image",
    .summary = "gradient of take_image: between zeros",
    .rule = "b s e -> b s e",
    .linear = "0",
    .attrs = "text, image",
    .flags = WEFT_OP_HALF,
    .plain = put_image,
    .infer = put_image_infer,
};

const weft_op diffusion_turn = {
    .name = "turn",
    .summary = "rotary positions in a picture, by neighbours: x, index -> like x",
    .rule = "b s h, s -> b s h",
    .linear = "0",
    .grad = (const char *const[]){"0: turn_dx dy 1", NULL},
    .attrs = "text, image, columns, axis0, axis1, axis2, theta",
    .flags = WEFT_OP_HALF,
    .plain = turn,
    .infer = turn_infer,
};

const weft_op diffusion_turn_dx = {
    .name = "turn_dx",
    .summary = "turns back: gradient of turn",
    .rule = "b s h, s -> b s h",
    .linear = "0",
    .attrs = "text, image, columns, axis0, axis1, axis2, theta",
    .flags = WEFT_OP_HALF,
    .plain = turn_dx,
};
