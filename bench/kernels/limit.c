/* limit.c - see limit.h. SLEEF's functions are called in the width that the processor has. */
#include "limit.h"
#include <cblas.h>
#include <string.h>

#ifdef WVGD_SLEEF
#ifdef __x86_64__
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
#define AVX2 __attribute__((target("avx2,fma")))
/* sleef.h declares only what the flags of the compiler allow. */
AVX512 __m512d Sleef_expd8_u10avx512f(__m512d);
AVX512 __m512d Sleef_log1pd8_u10avx512f(__m512d);
AVX2 __m256d Sleef_expd4_u10avx2(__m256d);
AVX2 __m256d Sleef_log1pd4_u10avx2(__m256d);

/* log_p[i] -= log(1 + exp s), s becomes sigmoid(s): with t = exp(-|s|) that is
 * max(s, 0) + log1p(t), and (s > 0 ? 1 : t) / (1 + t). */
AVX512 static void pass_avx512(size_t rows, double *S, double *log_p)
{
    const __m512d one = _mm512_set1_pd(1.0), zero = _mm512_setzero_pd();
    for (size_t i = 0; i < LIMIT_POINTS; i += 8) {
        __m512d sum = _mm512_loadu_pd(log_p + i);
        for (size_t r = 0; r < rows; r++) {
            __m512d s = _mm512_loadu_pd(S + r * LIMIT_POINTS + i),
                    t = Sleef_expd8_u10avx512f(_mm512_sub_pd(zero, _mm512_abs_pd(s)));
            sum = _mm512_sub_pd(sum, _mm512_add_pd(_mm512_max_pd(s, zero), Sleef_log1pd8_u10avx512f(t)));
            __m512d top = _mm512_mask_blend_pd(_mm512_cmp_pd_mask(s, zero, _CMP_GT_OQ), t, one);
            _mm512_storeu_pd(S + r * LIMIT_POINTS + i, _mm512_div_pd(top, _mm512_add_pd(one, t)));
        }
        _mm512_storeu_pd(log_p + i, sum);
    }
}

AVX2 static void pass_avx2(size_t rows, double *S, double *log_p)
{
    const __m256d one = _mm256_set1_pd(1.0), zero = _mm256_setzero_pd(), minus = _mm256_set1_pd(-0.0);
    for (size_t i = 0; i < LIMIT_POINTS; i += 4) {
        __m256d sum = _mm256_loadu_pd(log_p + i);
        for (size_t r = 0; r < rows; r++) {
            __m256d s = _mm256_loadu_pd(S + r * LIMIT_POINTS + i), t = Sleef_expd4_u10avx2(_mm256_or_pd(minus, s));
            sum = _mm256_sub_pd(sum, _mm256_add_pd(_mm256_max_pd(s, zero), Sleef_log1pd4_u10avx2(t)));
            __m256d top = _mm256_blendv_pd(t, one, _mm256_cmp_pd(s, zero, _CMP_GT_OQ));
            _mm256_storeu_pd(S + r * LIMIT_POINTS + i, _mm256_div_pd(top, _mm256_add_pd(one, t)));
        }
        _mm256_storeu_pd(log_p + i, sum);
    }
}
#endif

double Sleef_exp_u10(double);
double Sleef_log1p_u10(double);

static void pass_any(size_t rows, double *S, double *log_p)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < LIMIT_POINTS; i++) {
            double *s = S + r * LIMIT_POINTS + i, t = Sleef_exp_u10(*s > 0 ? -*s : *s);
            log_p[i] -= (*s > 0 ? *s : 0.0) + Sleef_log1p_u10(t);
            *s = (*s > 0 ? 1.0 : t) / (1.0 + t);
        }
}
#endif

typedef void pass_function(size_t rows, double *S, double *log_p);

static pass_function *choose(const char **name)
{
#ifdef WVGD_SLEEF
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        *name = "AVX-512";
        return pass_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        *name = "AVX2";
        return pass_avx2;
    }
#endif
    *name = "scalar";
    return pass_any;
#else
    *name = "none";
    return NULL;
#endif
}

bool limit_there(void)
{
    const char *name;
    return choose(&name) != NULL;
}

const char *limit_name(void)
{
    const char *name;
    choose(&name);
    return name;
}

void limit_evaluate(size_t rows, size_t D, size_t block, const double *X, const double *w, double *log_p, double *grad,
                    double *S, bool passes)
{
    const char *name;
    pass_function *pass = choose(&name);
    int d = (int)D, n = LIMIT_POINTS;
    memset(log_p, 0, LIMIT_POINTS * sizeof *log_p);
    memset(grad, 0, D * LIMIT_POINTS * sizeof *grad);
    for (size_t at = 0; at < rows; at += block) {
        size_t r = rows - at < block ? rows - at : block;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)r, n, d, 1.0, X + at * D, d, w, n, 0.0, S, n);
        if (passes)
            pass(r, S, log_p);
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d, n, (int)r, -1.0, X + at * D, d, S, n, 1.0, grad, n);
    }
}
