/* stan_toolchain.h - what Stan programs can be compiled with, found at run time: a BridgeStan of the user's, or
 * Debian's own Stan (rstan, StanHeaders) with the shim in contrib/stan. */
#ifndef WV_STAN_TOOLCHAIN_H
#define WV_STAN_TOOLCHAIN_H
#include "failure.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* One thing that a toolchain needs. */
typedef struct {
    const char *what;
    const char *remedy; /* how to get it */
    char *found;        /* version or path, or NULL: it is missing */
} stan_part;

enum { STAN_PARTS = 12 };

typedef struct {
    const char *name; /* "BridgeStan" or "Debian's Stan" */
    bool bridgestan, complete;
    stan_part part[STAN_PARTS];
    size_t parts;
    char *version;              /* for people: "Stan 2.21.0, g++ 12.2.0" */
    char *identity;             /* all that compiled programs depend on, but for files */
    char *make, *root;          /* of BridgeStan: the program make, the directory */
    char *rscript, *compiler;   /* of Debian's: programs */
    char *headers, *eigen, *bh; /* directories of the R packages StanHeaders, RcppEigen and BH */
    char *support;              /* directory of the shim */
} stan_toolchain;

/* What was asked for on the command line; both may be NULL. */
typedef struct {
    const char *toolchain;  /* auto|bridgestan|rstan */
    const char *bridgestan; /* directory; NULL: $BRIDGESTAN */
} stan_wish;

/* The toolchain to use. 0; EX_UNAVAILABLE with the reason if there is none; or another exit code. A warning
 * goes to stderr if $BRIDGESTAN is of no use. */
int find_toolchain(const stan_wish *wish, stan_toolchain *t, failure *f);
void free_toolchain(stan_toolchain *t);

/* wvgd stan --doctor: all that was found and what is missing. 0 if one toolchain works, else
 * EX_UNAVAILABLE with *f filled. */
int examine_toolchains(const stan_wish *wish, FILE *stream, failure *f);
#endif
