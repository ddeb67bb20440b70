/* SPDX-License-Identifier: Apache-2.0 */
/* Only +, -, * and / of IEEE doubles, in a fixed order and without fused multiply-add: the same
 * bits everywhere. */
#include <weft/random.h>

#include <float.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "doubles must be computed as doubles (on 32-bit x86: -msse2 "
                                     "-mfpmath=sse), or the bits would differ by machine");

/* ---- bits ---- */

enum { LANES = 64 }; /* numbers that are made together, by loops that compilers turn into vectors */

/* Of n counters, word by word. */
static inline void philox(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3, int n,
                          uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < n; i++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c0[i], b = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)b;
            c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)a;
        }
}

void weft_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    memcpy(out, counter, 4 * sizeof *out);
    philox(out, out + 1, out + 2, out + 3, 1, key[0], key[1]);
}

uint64_t weft_hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t weft_hash_name(const char *name)
{
    return weft_hash_bytes(UINT64_C(0xcbf29ce484222325), name, strlen(name));
}

uint64_t weft_random_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};
    philox(c, c + 1, c + 2, c + 3, 1, (uint32_t)seed, (uint32_t)(seed >> 32));
    return (uint64_t)c[1] << 32 | c[0];
}

double weft_random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t k = weft_random_bits(seed, stream, index) >> 11;
    return k ? (double)k * 0x1p-53 : 0x1p-54;
}

static void uniforms(uint64_t seed, uint64_t stream, uint64_t first, double u[LANES])
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    for (uint64_t i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)(first + i);
        c1[i] = (uint32_t)((first + i) >> 32);
        c2[i] = (uint32_t)stream;
        c3[i] = (uint32_t)(stream >> 32);
    }
    philox(c0, c1, c2, c3, LANES, (uint32_t)seed, (uint32_t)(seed >> 32));
    for (int i = 0; i < LANES; i++) {
        const uint64_t k = ((uint64_t)c1[i] << 32 | c0[i]) >> 11;
        u[i] = (double)(int)(k >> 26) * 0x1p-27 + (double)(int)(k & 0x3ffffff) * 0x1p-53;
        u[i] = u[i] > 0x1p-54 ? u[i] : 0x1p-54;
    }
}

/* ---- the inverse normal distribution ---- */

static uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* -log(x) for 0 < x < 1. x = m 2^e with m near 1, and log m = 2 artanh((m - 1) / (m + 1)). */
static double minus_log(double x)
{
    int e = 0;
    if (x < DBL_MIN) {
        x *= 0x1p54;
        e = -54;
    }
    uint64_t bits = to_bits(x);
    e += (int)(bits >> 52) - 1023;
    double m = from_bits((bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000));
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, series = 0;
    for (int k = 25; k >= 3; k -= 2)
        series = (series + 1.0 / k) * s2;
    double log_m = 2 * s + 2 * s * series;
    const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    return -(e * ln2_high + (log_m + e * ln2_low));
}

/* sqrt(x) for normal x > 0: Newton's steps towards 1 / sqrt(x), the last one on sqrt(x) itself. */
static double square_root(double x)
{
    double y = from_bits(UINT64_C(0x5fe6eb50c7b537a9) - (to_bits(x) >> 1));
    for (int i = 0; i < 4; i++)
        y = y * (1.5 - 0.5 * x * y * y);
    double root = x * y;
    return root + 0.5 * y * (x - root * root);
}

static inline double polynomial(const double c[8], double x)
{
    const double high = ((c[7] * x + c[6]) * x + c[5]) * x + c[4];
    return (((high * x + c[3]) * x + c[2]) * x + c[1]) * x + c[0];
}

/* The rational approximations of Wichura, "Algorithm AS 241: the percentage points of the normal
 * distribution", 1988. */
static const double center_p[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                   1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                   4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                   3.3430575583588128105e+4, 2.5090809287301226727e+3};
static const double center_q[8] = {1.0,
                                   4.2313330701600911252e+1,
                                   6.8718700749205790830e+2,
                                   5.3941960214247511077e+3,
                                   2.1213794301586595867e+4,
                                   3.9307895800092710610e+4,
                                   2.8729085735721942674e+4,
                                   5.2264952788528545610e+3};
static const double tail_p[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                 5.76949722146069140550e0,  3.64784832476320460504e0,
                                 1.27045825245236838258e0,  2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
static const double tail_q[8] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
static const double far_p[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
static const double far_q[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};

static inline double center(double u)
{
    const double q = u - 0.5, r = 0.180625 - q * q;
    return q * polynomial(center_p, r) / polynomial(center_q, r);
}

static bool is_center(double u)
{
    return u - 0.5 >= -0.425 && u - 0.5 <= 0.425;
}

double weft_normal_inverse(double u)
{
    if (is_center(u))
        return center(u);
    double r = square_root(minus_log(u < 0.5 ? u : 1 - u));
    double z = r <= 5 ? polynomial(tail_p, r - 1.6) / polynomial(tail_q, r - 1.6)
                      : polynomial(far_p, r - 5) / polynomial(far_q, r - 5);
    return u < 0.5 ? -z : z;
}

void weft_random_normals(uint64_t seed, uint64_t stream, uint64_t first, int64_t n, double *out)
{
    double u[LANES], z[LANES];
    for (; n >= LANES / 8; n -= LANES, first += LANES, out += LANES) {
        uniforms(seed, stream, first, u);
        for (int i = 0; i < LANES; i++)
            z[i] = center(u[i]);
        for (int i = 0; i < LANES; i++)
            z[i] = is_center(u[i]) ? z[i] : weft_normal_inverse(u[i]);
        memcpy(out, z, (size_t)(n < LANES ? n : LANES) * sizeof *out);
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = weft_normal_inverse(weft_random_uniform(seed, stream, first + (uint64_t)i));
}
