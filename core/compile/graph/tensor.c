/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels ask of a call, its attributes and its tensors. */
#include "compile/graph/graph.h"

#include <stdio.h>
#include <string.h>

static const weft_attr *find_attr(const weft_call *call, const char *key)
{
    const weft_attr *attr = weft_attr_find(call->attrs, call->n_attrs, key);
    weft_attr_watch *watch = call->watch;
    if (!attr && watch && !watch->key[0] && !weft_op_declares(call->op, key))
        snprintf(watch->key, sizeof watch->key, "%s", key);
    return attr;
}

int64_t weft_call_int(const weft_call *call, const char *key)
{
    return weft_attr_int(find_attr(call, key));
}

double weft_call_real(const weft_call *call, const char *key)
{
    return weft_attr_real(find_attr(call, key));
}

const char *weft_call_text(const weft_call *call, const char *key)
{
    return weft_attr_text(find_attr(call, key));
}

bool weft_call_has(const weft_call *call, const char *key)
{
    return find_attr(call, key) != NULL;
}

/* ---- what kernels accept ---- */

static bool type_fits(char type, weft_dtype dtype)
{
    switch (type) {
    case 'h':
        return dtype == WEFT_F32 || dtype == WEFT_BF16;
    case 'f':
        return dtype == WEFT_F32;
    case 'i':
        return dtype == WEFT_I32;
    case 'n':
        return dtype == WEFT_F32 || dtype == WEFT_F64;
    case 's':
        return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F64;
    case 'q':
        return weft_dtype_is_f8(dtype);
    default:
        return type == '*';
    }
}

/* Checks n tensors against the types from `types` on, up to '>' or the end. */
static bool tensors_fit(const char *types, const weft_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        if (!type_fits(*types, t[i].dtype))
            return false;
        if (types[1] && types[1] != '>')
            types++;
    }
    return true;
}

bool weft_kernel_accepts(const weft_kernel *kernel, const weft_call *call)
{
    const char *results = kernel->types ? strchr(kernel->types, '>') : NULL;
    if (kernel->types && (!results || !tensors_fit(kernel->types, call->ins, call->n_ins) ||
                          !tensors_fit(results + 1, call->outs, call->n_outs)))
        return false;
    return !kernel->accepts || kernel->accepts(call);
}

int64_t weft_tensor_count(const weft_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->n_dims; d++)
        n *= t->size[d];
    return n;
}

double weft_tensor_get(const weft_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case WEFT_F64:
        return ((const double *)t->data)[i];
    case WEFT_F32:
        return (double)((const float *)t->data)[i];
    case WEFT_BF16:
        return (double)weft_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEFT_I32:
        return (double)((const int32_t *)t->data)[i];
    case WEFT_F8E4M3:
    case WEFT_F8E5M2:
    case WEFT_F8E8M0:
        return (double)weft_f8_values(t->dtype)[((const uint8_t *)t->data)[i]];
    default:
        return (double)((const uint8_t *)t->data)[i];
    }
}

void weft_tensor_set(const weft_tensor *t, int64_t i, double x)
{
    switch (t->dtype) {
    case WEFT_F64:
        ((double *)t->data)[i] = x;
        break;
    case WEFT_F32:
        ((float *)t->data)[i] = (float)x;
        break;
    case WEFT_BF16:
        ((uint16_t *)t->data)[i] = weft_f32_to_bf16(weft_f64_to_f32_odd(x));
        break;
    case WEFT_I32:
        ((int32_t *)t->data)[i] = (int32_t)x;
        break;
    case WEFT_F8E4M3:
    case WEFT_F8E5M2:
    case WEFT_F8E8M0:
        ((uint8_t *)t->data)[i] = weft_f64_to_f8(x, t->dtype);
        break;
    default:
        ((uint8_t *)t->data)[i] = (uint8_t)x;
        break;
    }
}
