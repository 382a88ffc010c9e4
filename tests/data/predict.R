# predict.R - predictions from given draws, for tests/test_predict.c:
#     Rscript predict.R >predict.txt
# Draws, new rows and what R makes of them, all with 17 digits. Quantiles of draws are R's default, those of mixtures of
# normals come from uniroot.
set.seed(7)
K <- 60
put <- function(name, x) {
    x <- as.matrix(x)
    cat(name, nrow(x), ncol(x), "\n")
    write(formatC(t(x), digits = 17, format = "g"), "", ncolumns = ncol(x))
}
mixture <- function(m, s, p)
    uniroot(function(x) mean(pnorm(x, m, s)) - p, range(m - 9 * s, m + 9 * s), tol = 1e-14, maxiter = 10000)$root
of_draws <- function(m) c(mean(m), sd(m), quantile(m, c(0.05, 0.5, 0.95)))
binary <- function(m) c(of_draws(m), qbinom(c(0.05, 0.95), 1, mean(m)))
normal <- function(m, s) c(of_draws(m), mixture(m, s, 0.05), mixture(m, s, 0.95))
rows <- function(n, f) t(sapply(1:n, f))

X <- cbind(a = c(-1.5, 0, 0.25, 2, 40), b = c(10, 12, 9, 31, 10))
centre <- c(0.5, 11)
scale <- c(2, 0) # b was constant: it is 0 in the model
Z <- cbind((X[, 1] - centre[1]) / scale[1], 0)
put("X", X)

w <- cbind(rnorm(K, 0.7, 0.4), rnorm(K, -0.2, 0.3), rnorm(K, 0.1, 0.5)) # a, b, intercept
put("logistic_draws", w)
put("logistic", rows(5, function(i) binary(plogis(w[, 1] * Z[i, 1] + w[, 2] * Z[i, 2] + w[, 3]))))

w <- cbind(rnorm(K, 2, 0.4), rnorm(K, -0.2, 0.3), rnorm(K, 5, 0.5), rnorm(K, -0.5, 0.6)) # a, b, intercept, log_sigma
put("linear_draws", w)
put("linear", rows(5, function(i) normal(w[, 1] * X[i, 1] + w[, 2] * X[i, 2] + w[, 3], exp(w[, 4]))))

H <- 3
w <- matrix(rnorm(K * (H * 4 + 2), 0, 0.6), K) # w1[h,i], b1, w2, b2, log_sigma
network <- function(w, x) {
    w1 <- matrix(w[1:(2 * H)], H, byrow = TRUE)
    sum(w[3 * H + 1:H] * tanh(w1 %*% x + w[2 * H + 1:H])) + w[4 * H + 1]
}
put("bnn_draws", w)
put("bnn", rows(5, function(i) normal(apply(w, 1, network, Z[i, ]), exp(w[, 4 * H + 2]))))
put("bnn_binary", rows(5, function(i) binary(plogis(apply(w[, -(4 * H + 2)], 1, network, Z[i, ])))))

t <- c(0, 0.4, 1.1, 1.9, 2.2, 3.5)
y <- c(0.3, 0.9, -0.4, -0.8, -0.1, 1.2)
at <- c(-1, 0.4, 1.5, 2.7, 9)
w <- cbind(rnorm(K, 0.1, 0.3), rnorm(K, -1, 0.2), rnorm(K, 0.4, 0.3), rnorm(K, -2.5, 0.5)) # log_A, log_f, log_s, log_B
cov <- function(d, w) exp(w[1]) * exp(-d^2 / (2 * exp(2 * w[3]))) * cos(2 * pi * exp(w[2]) * d)
process <- function(x) {
    m <- s <- numeric(K)
    for (k in 1:K) {
        C <- cov(outer(t, t, "-"), w[k, ]) + exp(w[k, 4]) * diag(length(t))
        r <- cov(t - x, w[k, ])
        m[k] <- sum(r * solve(C, y))
        s[k] <- sqrt(exp(w[k, 1]) - sum(r * solve(C, r)))
    }
    n <- sqrt(s^2 + exp(w[, 4]))
    c(mean(m), sqrt(var(m) + mean(s^2)), sapply(c(0.05, 0.5, 0.95), function(p) mixture(m, s, p)),
      mixture(m, n, 0.05), mixture(m, n, 0.95))
}
put("gp_series", cbind(t, y))
put("gp_at", cbind(at))
put("gp_draws", w)
put("gp", rows(5, function(i) process(at[i])))

# Other likelihoods, for the same rows: the mean is 2 x, or exp(x / 5).
least <- function(below, p) { y <- 0; while (mean(below(y)) < p) y <- y + 1; y }
counts <- function(m, below) c(of_draws(m), least(below, 0.05), least(below, 0.95))
w <- cbind(rnorm(K, 0.2, 0.02), rnorm(K, 0.03, 0.01), rnorm(K, 0.5, 0.3), rgamma(K, 20, 10), rgamma(K, 3, 0.5)) # a, b, intercept, shape or sigma, nu
eta <- function(i) w[, 1] * X[i, 1] + w[, 2] * X[i, 2] + w[, 3]
student <- function(m, p) {
    f <- function(x) mean(pt((x - m) / w[, 4], w[, 5])) - p
    uniroot(f, range(m - 1e4, m + 1e4), tol = 1e-13, maxiter = 10000)$root
}
put("family_draws", w)
put("poisson", rows(5, function(i) { m <- exp(eta(i)); counts(m, function(y) ppois(y, m)) }))
put("negbinomial", rows(5, function(i) { m <- exp(eta(i)); counts(m, function(y) pnbinom(y, size = w[, 4], mu = m)) }))
put("student", rows(5, function(i) { m <- eta(i); c(of_draws(m), student(m, 0.05), student(m, 0.95)) }))
grid <- expand.grid(y = c(0, 1, 7, 60), n = c(60, 61, 1000), p = c(1e-6, 0.1, 0.5, 0.93))
put("binomial_below", cbind(grid$y, grid$n * grid$p, grid$n, pbinom(grid$y, grid$n, grid$p)))
