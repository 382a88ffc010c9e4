/* bundle.c - what the library of the wheel needs beside libwvgd, libwvgd-tools and the archives of OpenBLAS. */
#include <stddef.h>
#include <string.h>

void openblas_set_num_threads(int threads);
void wvgd_bundle_begin(void);
void _gfortran_concat_string(size_t size, char *to, size_t n, const char *a, size_t m, const char *b);

/* Matrices are small, and results must not depend on the number of threads. This OpenBLAS is not numpy's. The package
 * calls it when it has loaded the library: OpenBLAS is not ready when constructors run. */
void wvgd_bundle_begin(void)
{
    openblas_set_num_threads(1);
}

/* The only function of the Fortran runtime that the LAPACK in OpenBLAS refers to here: Fortran's a // b, filled up with
 * blanks. The runtime's archive cannot be part of a shared library. */
void _gfortran_concat_string(size_t size, char *to, size_t n, const char *a, size_t m, const char *b)
{
    size_t first = n < size ? n : size, second = m < size - first ? m : size - first;
    memcpy(to, a, first);
    memcpy(to + first, b, second);
    memset(to + first + second, ' ', size - first - second);
}
