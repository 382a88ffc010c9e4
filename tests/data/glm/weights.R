# weights.R - log evidence of models that have nothing but an intercept, an offset and weights, for all six likelihoods,
# by the trapezoidal rule. Writes weights.csv, made-up rows, and weights.json.        LC_ALL=C Rscript weights.R
options(digits = 17)
set.seed(3)
n <- 40
d <- data.frame(z = round(rnorm(n), 3), w = sample(c(0, 0.5, 1, 2.5), n, TRUE), trials = sample(1:8, n, TRUE))
d$label <- rbinom(n, 1, plogis(0.4 + d$z))
d$successes <- rbinom(n, d$trials, plogis(d$z - 0.5))
d$count <- rpois(n, exp(1 + 0.7 * d$z))
d$number <- round(2 + d$z + 0.8 * rt(n, 4), 3)
write.csv(d, "weights.csv", row.names = FALSE, quote = FALSE)

# The log of the integral of exp(f) over grids of even steps: f is summed over the last one first.
over <- function(grid, f) {
    v <- sapply(grid, f)
    max(v) + log(sum(exp(v - max(v)))) + log(grid[2] - grid[1])
}
a <- seq(-9, 11, length.out = 1201)
eta <- function(a) outer(d$z, a, "+")
sums <- function(ll) colSums(d$w * matrix(ll, n))
intercept <- function(ll, sd) {
    v <- sums(ll(eta(a))) + dnorm(a, 0, sd, log = TRUE)
    max(v) + log(sum(exp(v - max(v)))) + log(a[2] - a[1])
}
evidence <- c(
    bernoulli = intercept(function(e) dbinom(d$label, 1, plogis(e), log = TRUE), 2.5),
    binomial = intercept(function(e) dbinom(d$successes, d$trials, plogis(e), log = TRUE), 2.5),
    poisson = intercept(function(e) dpois(d$count, exp(e), log = TRUE), 2.5),
    negbinomial = over(seq(-7, 6, length.out = 261), function(s)
        intercept(function(e) dnbinom(d$count, size = exp(s), mu = exp(e), log = TRUE), 2.5) - exp(s) + s),
    gaussian = over(seq(-5, 4, length.out = 361), function(s)
        intercept(function(e) dnorm(d$number, e, exp(s), log = TRUE), 3) - exp(s) + s),
    student = {
        a <- seq(-3, 7, length.out = 401)
        over(seq(-4, 3, length.out = 141), function(s) over(seq(-3, 6, length.out = 121), function(q)
            intercept(function(e) dt((d$number - e) / exp(s), exp(q), log = TRUE) - s, 3) - exp(s) + s +
                dgamma(exp(q), 2, 0.1, log = TRUE) + q))
    })
response <- c(bernoulli = "label", binomial = "successes | trials(trials)", poisson = "count", negbinomial = "count",
              gaussian = "number", student = "number")
prior <- c(gaussian = "intercept=normal(0, 3);sigma=exponential(1)", student = "intercept=normal(0, 3);sigma=exponential(1)")
print(evidence)
writeLines(c("[", paste(sprintf('{"likelihood": "%s", "formula": "%s ~ offset(z)", "prior": "%s", "log_evidence": %.7f}',
                                names(evidence), response[names(evidence)],
                                ifelse(names(evidence) %in% names(prior), prior[names(evidence)], ""), evidence),
                        collapse = ",\n"), "]"), "weights.json")
