/* sha256.h - SHA-256 (FIPS 180-4) of bytes, numbers and files. */
#ifndef WV_SHA256_H
#define WV_SHA256_H
#include "failure.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[8];
    unsigned char block[64]; /* bytes that wait for a whole block */
    uint64_t size;           /* bytes so far */
} sha256;

enum { SHA256_TEXT = 65 }; /* bytes of its hexadecimal text */

void sha256_begin(sha256 *s);
void sha256_add(sha256 *s, const void *bytes, size_t n);

/* Each number as eight bytes, the least significant first, whatever the machine; -0 as 0. */
void sha256_add_numbers(sha256 *s, size_t n, const double *x);
void sha256_end(sha256 *s, char text[SHA256_TEXT]);

/* Of a file. 0, or an exit code with *f filled. */
int sha256_file(const char *path, char text[SHA256_TEXT], failure *f);
#endif
