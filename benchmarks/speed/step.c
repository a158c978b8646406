/* SOLAM's step on dense rows, l2 ball, as aucstream.kernels.l2ball does it with weights 1 and no given norm bound:
   the same arithmetic and checks, calibration included; the compiler may use what -O3 -march=native allows, but
   not reorder sums (no -ffast-math). Folding of the scale is left out: it happens thousands of rows apart. */
#include <math.h>
#include <stddef.h>

typedef double four __attribute__((vector_size(32), aligned(8)));

enum { A, B, ALPHA, STEPS, POSITIVE, TOTAL, GSUM, SCALE, NORM2, GCUM };
enum { ROWS, POSITIVES, KAPPA2, KAPPA_ROWS, ON, SLOPE, INTERCEPT, H11, H12, H22, RMS2, CAL_ROWS, CPOS, CNEG };

static inline double clip(double lo, double x, double hi) { return x < lo ? lo : x > hi ? hi : x; }

static inline double added(four low, four high) {
    four s = low + high;
    return (s[0] + s[2]) + (s[1] + s[3]);
}

static inline double remains(double rows) { return 1.0 / (rows * rows * (rows * rows)); }

static void calibrate(double *l, double score, double y) {
    l[y > 0 ? CPOS : CNEG] += 1.0;
    if (l[ON] == 0.0) {
        if (l[CPOS] == 0.0 || l[CNEG] == 0.0) return;
        l[ON] = 1.0; l[SLOPE] = 1.0; l[INTERCEPT] = log(l[CPOS] / l[CNEG]); l[H22] = 1.0; l[RMS2] = 1.0;
    }
    double rows = l[CAL_ROWS] + 1.0, forget = fmax(1e-4, 2.0 / (rows + 20.0));
    double size = fmin(fabs(score), 10.0 * sqrt(l[RMS2]));
    double mean = fmax(0.0, l[RMS2] - remains(rows));
    mean += forget * (size * size - mean);
    double rms2 = clip(1e-200, mean + remains(rows + 1.0), 1e200);
    l[CAL_ROWS] = rows; l[RMS2] = rms2;
    double s = clip(-8.0, score / sqrt(rms2), 8.0), z = l[SLOPE] * s + l[INTERCEPT];
    double e = exp(-fabs(z)), p = (z >= 0 ? 1.0 : e) / (1.0 + e);
    double g = p - (y > 0 ? 1.0 : 0.0), c = fmax(p * (1.0 - p), 0.02);
    double h11 = (1.0 - forget) * l[H11] + c * s * s, h12 = (1.0 - forget) * l[H12] + c * s;
    double h22 = (1.0 - forget) * l[H22] + c, r11 = h11 + 1e-3 * h22, r22 = h22 * 1.001;
    g /= r11 * r22 - h12 * h12;
    double ds = (r22 * s - h12) * g, di = (r11 - h12 * s) * g;
    size = fabs(ds * s + di);
    if (size > 1.0) { ds /= size; di /= size; }
    l[H11] = h11; l[H12] = h12; l[H22] = h22;
    l[SLOPE] = clip(1e-3, l[SLOPE] - ds, 1e3);
    l[INTERCEPT] = clip(-50.0, l[INTERCEPT] - di, 50.0);
}

static double by_class(const double *l, double y, double pos, double neg) {
    double np = l[POSITIVES], nn = l[ROWS] - np, rows, mass, others, omass;
    if (y > 0) { rows = np + 1; mass = pos; others = nn; omass = neg; }
    else { rows = nn + 1; mass = neg; others = np; omass = pos; }
    double mean = mass / rows, excess = mean;
    if (others > 0) excess = mass / (mass + omass) * (omass / fmin(rows, others));
    double most = 2.0 * fmax(1.0, mean), divisor = fmax(1.0, excess);
    return excess <= 2.0 ? fmin(1.0, fmax(2.0, most / divisor)) : fmin(1.0, most) / divisor;
}

void learn(double *restrict v, double *restrict u, double *restrict st, double *restrict l,
           const double *restrict val, const double *restrict y, double *restrict out,
           ptrdiff_t n, ptrdiff_t d, double R, double zeta, double cap) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *x = val + i * d;
        four a0 = {0}, a1 = {0}, a2 = {0}, b0 = {0}, b1 = {0}, b2 = {0};
        ptrdiff_t most = d - d % 8;
        for (ptrdiff_t k = 0; k < most; k += 8) {
            four xk = *(const four *)(x + k), xl = *(const four *)(x + k + 4);
            a0 += xk * *(const four *)(v + k); a1 += xk * *(const four *)(u + k); a2 += xk * xk;
            b0 += xl * *(const four *)(v + k + 4); b1 += xl * *(const four *)(u + k + 4); b2 += xl * xl;
        }
        double vx = added(a0, b0), ux = added(a1, b1), square = added(a2, b2);
        for (ptrdiff_t k = most; k < d; k++) { vx += x[k] * v[k]; ux += x[k] * u[k]; square += x[k] * x[k]; }
        double length = sqrt(square), s = st[SCALE] * vx;
        double score = st[GSUM] > 0 ? (st[GCUM] * vx - ux) / st[GSUM] : 0.0;
        double mean = l[KAPPA2], rows = l[KAPPA_ROWS], before = sqrt(mean), entering = length;
        if (rows > 0) entering = fmin(entering, 2.0 * before);
        entering = clip(1e-150, entering, 1e150);
        rows += 1.0;
        mean += (entering * entering - mean) / rows;
        double scale = sqrt(mean), factor = length > 2.0 * scale ? 2.0 * scale / length : 1.0;
        double pos = st[POSITIVE] + (y[i] > 0), total = st[TOTAL] + 1.0, p = pos / total, q = 1.0 - p;
        double gamma = by_class(l, y[i], pos, total - pos) * fmin(cap, zeta / sqrt(st[STEPS] + 1.0));
        double a = st[A], b = st[B], alpha = st[ALPHA], c, sf = s * factor;
        if (y[i] > 0) {
            c = 2.0 * q * (sf - a - 1.0 - alpha);
            double t = a; a += gamma * 2.0 * q * (sf - t); alpha -= gamma * (2.0 * q * sf + 2.0 * p * q * alpha);
        } else {
            c = 2.0 * p * (sf - b + 1.0 + alpha);
            double t = b; b += gamma * 2.0 * p * (sf - t); alpha += gamma * (2.0 * p * sf - 2.0 * p * q * alpha);
        }
        double step = length > 0 ? -gamma * c * factor / (scale * scale) : 0.0, gcum = st[GCUM] + gamma * st[SCALE];
        step /= st[SCALE];
        if (!(isfinite(s) && isfinite(a) && isfinite(b) && isfinite(alpha) && isfinite(score)
              && fabs(step) * length * fmax(1.0, gcum) < 1e290 && total < 1e290)) { out[i] = NAN; continue; }
        calibrate(l, score, y[i]);
        st[GCUM] = gcum;
        for (ptrdiff_t k = 0; k < d; k++) { v[k] += step * x[k]; u[k] += gcum * step * x[k]; }
        st[NORM2] = fmax(0.0, st[NORM2] + 2.0 * step * vx + (step * length) * (step * length));
        double radius = R / scale, size = fabs(st[SCALE]) * sqrt(st[NORM2]);
        if (size > radius) st[SCALE] *= radius / size;
        st[A] = clip(-R, a, R); st[B] = clip(-R, b, R); st[ALPHA] = clip(-2 * R, alpha, 2 * R);
        st[STEPS] += 1.0; st[TOTAL] = total; st[GSUM] += gamma; st[POSITIVE] = pos;
        l[ROWS] += 1.0; l[POSITIVES] += y[i] > 0; l[KAPPA2] = mean; l[KAPPA_ROWS] = rows;
        out[i] = score;
    }
}
