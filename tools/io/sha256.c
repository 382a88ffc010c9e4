/* sha256.c - SHA-256 as in FIPS 180-4, section 6.2: blocks of 64 bytes, each mixed into eight words by 64 rounds. */
#include "sha256.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
                               0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
                               0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
                               0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
                               0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
                               0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
                               0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
                               0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
                               0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
                               0xc67178f2};

static uint32_t turn(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

/* The 64 words of a block: its own 16, and what follows from them. */
static void spread(const unsigned char *block, uint32_t w[64])
{
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
}

static void mix(sha256 *s)
{
    uint32_t w[64], v[8];
    spread(s->block, w);
    memcpy(v, s->state, sizeof v);
    for (size_t i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + K[i] + w[i],
                 two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (size_t i = 0; i < 8; i++)
        s->state[i] += v[i];
}

void sha256_begin(sha256 *s)
{
    /* the first 32 bits of the fractional parts of the square roots of the first 8 primes */
    *s = (sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(sha256 *s, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    while (n) {
        size_t at = (size_t)(s->size % sizeof s->block), room = sizeof s->block - at, here = n < room ? n : room;
        memcpy(s->block + at, from, here);
        s->size += here;
        from += here;
        n -= here;
        if (here == room)
            mix(s);
    }
}

void sha256_add_numbers(sha256 *s, size_t n, const double *x)
{
    for (size_t i = 0; i < n; i++) {
        double value = x[i] == 0 ? 0 : x[i];
        uint64_t bits;
        unsigned char bytes[8];
        memcpy(&bits, &value, sizeof bits);
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (unsigned char)(bits >> 8 * k);
        sha256_add(s, bytes, sizeof bytes);
    }
}

void sha256_end(sha256 *s, char text[SHA256_TEXT])
{
    static const unsigned char first = 0x80, zero = 0;
    unsigned char length[8];
    uint64_t bits = 8 * s->size;
    for (size_t k = 0; k < sizeof length; k++)
        length[k] = (unsigned char)(bits >> (56 - 8 * k));
    sha256_add(s, &first, 1);
    while (s->size % sizeof s->block != sizeof s->block - sizeof length)
        sha256_add(s, &zero, 1);
    sha256_add(s, length, sizeof length);
    for (size_t i = 0; i < 8; i++)
        snprintf(text + 8 * i, 9, "%08lx", (unsigned long)s->state[i]);
}

int sha256_file(const char *path, char text[SHA256_TEXT], failure *f)
{
    char buffer[2048];
    size_t n;
    sha256 s;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return fail(f, EX_NOINPUT, "cannot open %s: %s", path, strerror(errno));
    sha256_begin(&s);
    while ((n = fread(buffer, 1, sizeof buffer, file)) > 0)
        sha256_add(&s, buffer, n);
    int code = ferror(file) ? fail(f, EX_NOINPUT, "cannot read %s: %s", path, strerror(errno)) : 0;
    fclose(file);
    sha256_end(&s, text);
    return code;
}
