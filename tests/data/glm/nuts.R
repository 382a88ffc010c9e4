# nuts.R - posteriors of generalised linear models by long runs of NUTS (Debian's rstan), with evidence by bridge
# sampling: the cases of truth.R but the gaussian one, and one more of each likelihood with what those do not have:
# polynomials, near separation, no intercept, priors that are given. Reads the tables (*.csv) and writes nuts.json beside
# it.                                                                              LC_ALL=C Rscript nuts.R
# Means and sds come with what the chains leave uncertain; log_evidence_se is the error of the bridge (Meng and Wong
# 1996), with the autocorrelation of the draws.
suppressMessages(library(rstan))
options(digits = 17)

program <- "
data {
  int<lower=1> n; int<lower=0> P; int<lower=0, upper=1> b; int<lower=1, upper=5> kind;
  matrix[n, P] X; vector[n] offset; vector[n] y; int counts[n]; int trials[n];
  vector[P + b] nu; vector[P + b] location; vector<lower=0>[P + b] scale; // nu 0: normal
  real<lower=0> s;
}
transformed data { int extras = kind == 1 ? 2 : kind == 5 ? 1 : 0; }
parameters { vector[P + b] w; vector<lower=0>[extras] more; }
model {
  vector[n] eta = X * w[1:P] + offset;
  if (b) eta += w[P + 1];
  for (i in 1:(P + b))
    target += nu[i] == 0 ? normal_lpdf(w[i] | location[i], scale[i]) : student_t_lpdf(w[i] | nu[i], location[i], scale[i]);
  if (kind == 1) {
    target += exponential_lpdf(more[1] | 1 / s) + gamma_lpdf(more[2] | 2, 0.1);
    target += student_t_lpdf(y | more[2], eta, more[1]);
  }
  if (kind == 2) target += bernoulli_logit_lpmf(counts | eta);
  if (kind == 3) target += binomial_logit_lpmf(counts | trials, eta);
  if (kind == 4) target += poisson_log_lpmf(counts | eta);
  if (kind == 5) {
    target += exponential_lpdf(more[1] | 1);
    target += neg_binomial_2_log_lpmf(counts | eta, more[1]);
  }
}"
kinds <- c(student = 1, bernoulli = 2, binomial = 3, poisson = 4, negbinomial = 5)

# priors: c(nu, location, scale), nu 0 for a normal, 1 for a Cauchy; the same in the words of wvgd
cases <- list(
    list(data = "student", formula = stack.loss ~ Air.Flow + Water.Temp, likelihood = "student"),
    list(data = "gaussian", formula = len ~ supp*log(dose), likelihood = "student"),
    list(data = "bernoulli", formula = case ~ age + education + spontaneous, likelihood = "bernoulli"),
    list(data = "bernoulli", formula = case ~ education*poly(age, 2) + spontaneous, likelihood = "bernoulli"),
    list(data = "binomial", formula = cbind(ncases, ncontrols) ~ agegp + I(agegp^2) + alcgp, likelihood = "binomial"),
    list(data = "binomial", formula = cbind(ncases, ncontrols) ~ factor(agegp)*alcgp, likelihood = "binomial",
         slopes = c(0, 0, 1.5), intercept = c(3, -2, 2), prior = "slopes=normal(0, 1.5);intercept=student(3, -2, 2)"),
    list(data = "poisson", formula = breaks ~ wool*tension + offset(log(loom)), likelihood = "poisson"),
    list(data = "negbinomial", formula = count ~ 0 + spray, likelihood = "poisson",
         slopes = c(1, 1, 2), prior = "slopes=cauchy(1, 2)"),
    list(data = "negbinomial", formula = count ~ spray, likelihood = "negbinomial"),
    list(data = "poisson", formula = breaks ~ wool*tension + offset(log(loom)), likelihood = "negbinomial"))

# Data of the program. Columns are centred if there is an intercept, whose prior is that of centred columns.
prepare <- function(case) {
    data <- read.csv(paste0(case$data, ".csv"))
    frame <- model.frame(case$formula, data)
    X <- model.matrix(case$formula, frame)
    b <- attr(terms(frame), "intercept")
    if (b) X <- X[, -1, drop = FALSE]
    y <- model.response(frame)
    offset <- model.offset(frame)
    s <- if (case$likelihood == "student") sd(y) else 1
    m <- if (case$likelihood == "student") mean(y) else 0
    slopes <- if (is.null(case$slopes)) rbind(0, 0, 2.5 * s / apply(X, 2, sd)) else matrix(case$slopes, 3, ncol(X))
    priors <- cbind(slopes, if (b) if (is.null(case$intercept)) c(0, m, 2.5 * s) else case$intercept)
    n <- nrow(X)
    trials <- if (is.matrix(y)) unname(rowSums(y)) else rep(1, n)
    if (is.matrix(y)) y <- unname(y[, 1])
    counts <- if (case$likelihood == "student") rep(0L, n) else as.integer(y)
    list(centre = if (b) colMeans(X) else rep(0, ncol(X)),
         stan = list(n = n, P = ncol(X), b = b, kind = kinds[[case$likelihood]],
                     X = if (b) scale(X, scale = FALSE)[, , drop = FALSE] else X,
                     offset = if (is.null(offset)) rep(0, n) else offset, y = as.numeric(y), counts = counts,
                     trials = as.integer(trials), nu = array(priors[1, ]), location = array(priors[2, ]),
                     scale = array(priors[3, ]), s = s))
}

# Effective number of draws x[draws, chains] of their mean.
effective <- function(x) monitor(array(x, c(dim(x), 1)), warmup = 0, print = FALSE)[1, "n_eff"]

# Log evidence from draws U[draws, chains, D] of unconstrained parameters: half of them say what the normal proposal is,
# the other half and as many draws of it are the two sides of the bridge.
bridge <- function(U, log_p) {
    half <- dim(U)[1] / 2
    D <- dim(U)[3]
    flat <- function(A) matrix(A, ncol = D)
    first <- flat(U[1:half, , ])
    thin <- seq(half + 1, 2 * half, by = 2)
    P <- flat(U[thin, , , drop = FALSE])
    n <- nrow(P)
    mu <- colMeans(first)
    R <- chol(cov(first))
    Q <- t(mu + t(matrix(rnorm(n * D), n) %*% R))
    log_q <- function(A) -colSums(backsolve(R, t(A) - mu, transpose = TRUE)^2) / 2 - sum(log(diag(R))) - D / 2 * log(2 * pi)
    l1 <- apply(P, 1, log_p) - log_q(P)
    l2 <- apply(Q, 1, log_p) - log_q(Q)
    n1 <- effective(matrix(l1, ncol = dim(U)[2]))
    s1 <- n1 / (n1 + n)
    s2 <- 1 - s1
    top <- median(l1)
    r <- 1
    for (k in 1:1000) {
        old <- r
        r <- mean(exp(l2 - top) / (s1 * exp(l2 - top) + s2 * r)) / mean(1 / (s1 * exp(l1 - top) + s2 * r))
        if (abs(log(r / old)) < 1e-12) break
    }
    f1 <- 1 / (s1 * exp(l1 - top) / r + s2)
    f2 <- exp(l2 - top) / r / (s1 * exp(l2 - top) / r + s2)
    e1 <- effective(matrix(f1, ncol = dim(U)[2]))
    list(value = log(r) + top, se = sqrt(var(f1) / mean(f1)^2 / e1 + var(f2) / mean(f2)^2 / n))
}

rstan_options(boost_lib = "/usr/include") # where Debian has it
compiled <- stan_model(model_code = program)
number <- function(x) paste(sprintf("%.7g", x), collapse = ", ")
lines <- NULL
for (case in cases) {
    d <- prepare(case)
    fit <- sampling(compiled, d$stan, chains = 4, warmup = 2000, iter = 32000, seed = 20261, refresh = 0, cores = 1,
                    control = list(adapt_delta = 0.95))
    draws <- rstan::extract(fit, permuted = FALSE)
    P <- d$stan$P
    D <- dim(draws)[3] - 1
    w <- draws[, , 1:P, drop = FALSE]
    shown <- list()
    if (d$stan$b) shown[["intercept"]] <- draws[, , P + 1] - apply(w, 1:2, function(v) sum(v * d$centre))
    for (j in seq_len(P)) shown[[colnames(d$stan$X)[j]]] <- draws[, , j]
    for (j in seq_len(D - P - d$stan$b)) shown[[paste0("more", j)]] <- draws[, , P + d$stan$b + j]
    few <- min(sapply(shown, effective))
    rhat <- max(sapply(shown, Rhat))
    diverged <- get_num_divergent(fit)
    U <- draws[, , 1:D, drop = FALSE]
    if (D > P + d$stan$b) U[, , (P + d$stan$b + 1):D] <- log(U[, , (P + d$stan$b + 1):D])
    e <- bridge(U, function(u) log_prob(fit, u, adjust_transform = TRUE))
    cat(case$likelihood, deparse1(case$formula), e$value, e$se, few, rhat, diverged, "\n")
    stopifnot(few > 10000, rhat < 1.001, diverged == 0, e$se < 0.01)
    lines <- c(lines, sprintf(
        '{"data": "%s", "likelihood": "%s", "formula": "%s", "prior": "%s",\n  "log_evidence": %.7f, "log_evidence_se": %.2g, "effective_draws": %.0f,\n  "mean": [%s],\n  "sd": [%s]}',
        case$data, case$likelihood, gsub("  +", " ", deparse1(case$formula)), if (is.null(case$prior)) "" else case$prior,
        e$value, e$se, few, number(sapply(shown, mean)), number(sapply(shown, function(x) sd(x)))))
}
writeLines(c("[", paste(lines, collapse = ",\n"), "]"), "nuts.json")
