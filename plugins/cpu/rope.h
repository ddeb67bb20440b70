/* SPDX-License-Identifier: Apache-2.0 */
/* rope and rope_dx: dims i and i + d/2 of every head turn together by position * frequency[i].
 * Angles are reduced in f64: positions may be large. */

enum { ROPE_HALF = CPU_MAX_ROPE / 2 };

/* Llama 3.1 slows down the waves that turn less than `low` times in `original` positions by
 * `factor`, those above `high` not, others partly. */
static void rope_frequencies(const weft_call *call, double sign, int64_t half, double *frequency)
{
    double theta = weft_call_real(call, "theta"), factor = weft_call_real(call, "factor"),
           original = weft_call_real(call, "original");
    double low = weft_call_real(call, "low"), high = weft_call_real(call, "high");
    for (int64_t i = 0; i < half; i++) {
        double f = pow(theta, -(double)i / (double)half), turns = original * f / (2.0 * M_PI),
               keep = 1.0;
        if (factor != 0.0 && turns <= high)
            keep = turns < low ? 0.0 : (turns - low) / (high - low);
        frequency[i] = sign * (factor == 0.0 ? f : f * (keep + (1.0 - keep) / factor));
    }
}

/* cos and sin of n angles; both polynomials are our own Chebyshev fits on [-pi/4, pi/4], error
 * 1e-8. */
static void turns_of(int32_t position, const double *frequency, int64_t n, float *c, float *s)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double angle = (double)position * frequency[i], t = angle * 0.63661977236758134 + magic,
               q = t - magic;
        float r = (float)((angle - q * 1.5707963267948966) - q * 6.123233995736766e-17), z = r * r;
        float sine = r + r * z *
                             (-0.1666666460175411f +
                              z * (0.008332736559177135f + z * -0.0001958537320669236f));
        float cosine = 1.0f - 0.5f * z +
                       z * z *
                           (0.041666664598827986f +
                            z * (-0.0013888291300557275f + z * 2.4545419078385285e-05f));
        float quarter = (float)(q - 4.0 * ((q * 0.25 + magic) - magic)); /* -2, -1, 0, 1 or 2 */
        bool odd = quarter == 1.0f || quarter == -1.0f;
        float x = odd ? sine : cosine, y = odd ? cosine : sine;
        bool flip_x = quarter == 1.0f || quarter == 2.0f || quarter == -2.0f;
        bool flip_y = quarter == -1.0f || quarter == 2.0f || quarter == -2.0f;
        c[i] = flip_x ? -x : x;
        s[i] = flip_y ? -y : y;
    }
}

static void rotate_head(const weft_call *call, int64_t at, int64_t half, const float *c,
                        const float *s)
{
    float low[ROPE_HALF], high[ROPE_HALF], y[2 * ROPE_HALF];
    const float *a = load(&call->ins[0], at, half, low),
                *b = load(&call->ins[0], at + half, half, high);
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        y[i] = a[i] * c[i] - b[i] * s[i];
        y[half + i] = a[i] * s[i] + b[i] * c[i];
    }
    store(&call->outs[0], at, 2 * half, y, call->accumulate);
}

static weft_status rotate(const weft_call *call, double sign)
{
    const weft_tensor *x = &call->ins[0];
    int64_t rows = rows_of(x), width = width_of(x), d = x->grain[x->n_dims - 1], half = d / 2;
    double frequency[ROPE_HALF];
    rope_frequencies(call, sign, half, frequency);
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t row = 0; row < rows; row++) {
        float c[ROPE_HALF], s[ROPE_HALF];
        turns_of(ints(&call->ins[1])[row], frequency, half, c, s);
        for (int64_t at = row * width; at < (row + 1) * width; at += d)
            rotate_head(call, at, half, c, s);
    }
    return WEFT_OK;
}

static weft_status launch_rope(const weft_call *call, weft_error *err)
{
    (void)err;
    return rotate(call, 1.0);
}

static weft_status launch_rope_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return rotate(call, -1.0);
}
