/* near.h - assert_near(a, b, tolerance) for doubles (cmocka compares floats only). Include after cmocka.h.
 *
 * Holds if |a - b| <= tolerance; a NaN on either side fails, equal infinities hold. */
#ifndef NEAR_H
#define NEAR_H

#include <math.h>

static inline void near_or_fail(double a, double b, double tolerance, const char *what, const char *file, int line)
{
    if (fabs(a - b) <= tolerance || (isinf(a) && isinf(b) && signbit(a) == signbit(b)))
        return;
    print_error("%s: %.17g and %.17g differ by %.3g, more than %.3g\n", what, a, b, fabs(a - b), tolerance);
    _fail(file, line);
}

#define assert_near(a, b, tolerance) near_or_fail(a, b, tolerance, #a " near " #b, __FILE__, __LINE__)

#endif
