/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include <math.h>

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 500; m++) {
        for (int odd = 0; odd < 2; odd++) {
            const double n = a + 2 * m, k = odd ? -(a + m) * (a + b + m) * x / (n * (n + 1))
                                                : m * (b - m) * x / ((n - 1) * n);
            d = 1 + k * d;
            c = 1 + k / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            h *= d * c;
        }
        if (fabs(d * c - 1) < 1e-16)
            break;
    }
    return h;
}

/* Regularised: I_x(a, b). */
static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/* Beyond |t| on one side. */
static double tail(double t, double df)
{
    return incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2;
}

double ablate_t_cdf(double t, double df)
{
    return t > 0 ? 1 - tail(t, df) : tail(t, df);
}

double ablate_t_quantile(double p, double df)
{
    double low = 0, high = 1;
    if (p < 0.5)
        return -ablate_t_quantile(1 - p, df);
    while (high < 1e300 && tail(high, df) > 1 - p)
        high *= 2;
    for (int i = 0; i < 200 && low < high; i++) {
        const double middle = (low + high) / 2;
        if (middle <= low || middle >= high)
            break;
        if (tail(middle, df) > 1 - p)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static double mean_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

ablate_sample ablate_describe(const double *x, int n)
{
    ablate_sample s = {
        .n = n, .mean = NAN, .sd = NAN, .low = NAN, .high = NAN, .p = NAN, .least = NAN};
    double squares = 0;
    for (int i = 0; i < n; i++) {
        s.below += x[i] < 0;
        s.above += x[i] > 0;
    }
    if (n < 1)
        return s;
    s.mean = mean_of(x, n);
    if (n < 2)
        return s;
    for (int i = 0; i < n; i++)
        squares += (x[i] - s.mean) * (x[i] - s.mean);
    s.sd = sqrt(squares / (n - 1));
    const double error = s.sd / sqrt(n), t = ablate_t_quantile(0.975, n - 1);
    s.low = s.mean - t * error;
    s.high = s.mean + t * error;
    s.least = (t + ablate_t_quantile(0.8, n - 1)) * error;
    s.p = error > 0 ? 2 * tail(s.mean / error, n - 1) : s.mean != 0 ? 0 : 1;
    return s;
}
