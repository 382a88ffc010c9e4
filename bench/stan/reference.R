# Long NUTS runs: Rscript reference.R [program...] writes examples/stan/reference/PROGRAM.json, and fails where the run is not
# good enough for one (README.md states the rule). A run is kept while the script goes on, for its twin.
source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))), "posterior.R"))

chains <- 4
warmup <- 2000
seed <- 20240601

# Standard error of the mean of x [iterations, chains]; 0 where symmetry makes x a constant.
error_of_mean <- function(x) if (sd(x) < 1e-12) 0 else sd(x) / sqrt(rstan:::ess_rfun(rstan:::split_chains(x)))

# Mean and sd with their Monte Carlo standard errors, of the mixture of equal parts of the given quantities ([iterations, chains] each).
moments <- function(parts) {
    first <- Reduce(`+`, parts) / length(parts)
    m <- mean(first)
    second <- Reduce(`+`, lapply(parts, function(x) (x - m)^2)) / length(parts)
    s <- sqrt(mean(second))
    c(mean = m, sd = s, mcse_mean = error_of_mean(first), mcse_sd = error_of_mean(second) / (2 * s))
}

# Which quantities of the twin's run make up each of this program's. Unordered mixture: either component, with mass 1/2 each.
swapped <- function(x) {
    mu <- list(x$mu.1, x$mu.2)
    sigma <- list(x$sigma.1, x$sigma.2)
    list(mu.1 = mu, mu.2 = mu, sigma.1 = sigma, sigma.2 = sigma, theta = list(x$theta, 1 - x$theta))
}
twin_parts <- function(name, x) {
    if (name == "mixture_unordered") return(swapped(x))
    keep <- grep(paste0("^(", paste(shown(programs[[name]]), collapse = "|"), ")(\\.|$)"), names(x), value = TRUE)
    keep <- keep[order(match(sub("\\..*", "", keep), shown(programs[[name]])))]
    lapply(x[keep], list)
}

long_runs <- new.env()
long_run <- function(name) {
    if (!is.null(long_runs[[name]])) return(long_runs[[name]])
    p <- programs[[name]]
    set.seed(seed)   # the order that extract() gives the draws in
    started <- proc.time()[[3]]
    fit <- sampling(compiled(name), data = program_data(name), pars = shown(p), chains = chains, warmup = warmup,
        iter = warmup + p$draws, seed = seed, cores = 1, refresh = 0, save_warmup = FALSE,
        control = list(adapt_delta = p$delta, max_treedepth = 12))
    x <- shown_draws(fit, p)
    long_runs[[name]] <- list(fit = fit, divergences = get_num_divergent(fit), seconds = proc.time()[[3]] - started,
        draws = setNames(lapply(dimnames(x)[[3]], function(q) x[, , q]), dimnames(x)[[3]]))
    long_runs[[name]]
}

# How many of 300 starts from U(-2, 2), where NUTS begins, have a finite log density and gradient.
finite_starts <- function(name) {
    fit <- opened(compiled(name), program_data(name))
    set.seed(seed)
    finite <- replicate(300, {
        at <- runif(get_num_upars(fit), -2, 2)
        g <- tryCatch(grad_log_prob(fit, at), error = function(e) NaN)
        all(is.finite(g)) && is.finite(c(attr(g, "log_prob"), NaN)[1])
    })
    list(dim = get_num_upars(fit), starts = list(tried = length(finite), finite = sum(finite)))
}

# The program with every constant kept: `x ~ f(y);` drops them, `target += f_lpdf(x | y);` does not.
with_constants <- function(code) {
    said <- function(f) paste0("([^\n;{}]*[^\n;{} ]) ~ (", f, ")\\((.*?)\\);")
    code <- gsub(said("bernoulli_logit|poisson_log"), "target += \\2_lpmf(\\1 | \\3);", code, perl = TRUE)
    gsub(said("\\w+"), "target += \\2_lpdf(\\1 | \\3);", code, perl = TRUE)
}

# Log density at y of a Gaussian of mean 0, root: upper Cholesky factor of its covariance.
log_gauss <- function(y, root) -0.5 * sum(backsolve(root, y, transpose = TRUE)^2) - sum(log(diag(root))) - length(y) / 2 * log(2 * pi)

# Log evidence by bridge sampling: half of 10000 draws give a Gaussian on the unconstrained scale, the others meet draws of it.
bridge <- function(name, run) {
    p <- programs[[name]]
    fit <- opened(compiled(paste0(name, "-constants"), with_constants(program_code(name))), program_data(name))
    all <- extract(run$fit, pars = p$parameters, permuted = TRUE)
    flat <- lapply(all[p$parameters], function(a) matrix(a, dim(a)[1]))
    draw <- function(i) Map(function(a, f) if (length(dim(a)) == 1) f[i] else array(f[i, ], dim(a)[-1]), all[p$parameters], flat)
    chosen <- round(seq(1, nrow(flat[[1]]), length.out = 10000))   # permuted: any subset is a fair one
    u <- t(vapply(chosen, function(i) unconstrain_pars(fit, draw(i)), numeric(get_num_upars(fit))))
    log_p <- function(z) apply(z, 1, function(v) tryCatch(log_prob(fit, v), error = function(e) -Inf))
    half <- seq_len(nrow(u)) %% 2 == 0
    centre <- colMeans(u[half, ])
    root <- chol(cov(u[half, ]))
    log_g <- function(z) apply(z, 1, function(v) log_gauss(v - centre, root))
    set.seed(seed)
    n <- sum(!half)
    proposed <- t(t(matrix(rnorm(n * ncol(u)), n) %*% root) + centre)
    a <- log_p(u[!half, ]) - log_g(u[!half, ])
    b <- log_p(proposed) - log_g(proposed)
    shift <- median(a)
    r <- 1
    for (i in 1:1000) {
        f1 <- 1 / (0.5 + 0.5 * r * exp(shift - b))
        f2 <- 1 / (0.5 * exp(a - shift) + 0.5 * r)
        r <- mean(f1) / mean(f2)
    }
    list(value = shift + log(r), se = sqrt((var(f1) / mean(f1)^2 + var(f2) / mean(f2)^2) / n), how = "bridge sampling")
}

# Log evidence by quadrature where given one scale everything is Gaussian: the log of the integral of exp(f) from `from` up, where
# f is largest below `to`.
integral <- function(f, from, to) {
    top <- optimize(f, c(from, to), maximum = TRUE)$objective
    value <- integrate(function(x) vapply(x, function(v) exp(f(v) - top), 0), from, Inf, rel.tol = 1e-10, subdivisions = 1000)$value
    list(value = top + log(value), se = 0, how = "quadrature")
}
schools_evidence <- function() {
    d <- program_data("eight_schools_centred")
    integral(function(tau) dcauchy(tau, 0, 5, log = TRUE) + log_gauss(as.vector(d$y), chol(diag(as.vector(d$sigma)^2 + tau^2) + 25)), 0, 100)
}
linear_evidence <- function() {
    d <- program_data("linear_regression")
    Z <- scale(d$X)
    prior <- 400 + 100 * Z %*% t(Z)
    integral(function(s) dexp(s, 0.1, log = TRUE) + log_gauss(as.vector(d$y) - 70, chol(prior + diag(d$N) * s^2)), 1e-3, 100)
}
exact <- list(eight_schools_noncentred = schools_evidence, linear_regression = linear_evidence)

make_reference <- function(name) {
    p <- programs[[name]]
    source_name <- if (is.null(p$twin)) name else p$twin
    run <- long_run(source_name)
    parts <- if (is.null(p$twin)) lapply(run$draws, list) else twin_parts(name, run$draws)
    m <- vapply(parts, moments, numeric(4))
    rhat <- max(vapply(run$draws, Rhat, 0))
    block <- sub("\\..*", "", colnames(m))
    checked <- finite_starts(name)
    evidence <- bridge(source_name, run)
    if (!is.null(exact[[source_name]])) {
        bridged <- evidence
        evidence <- exact[[source_name]]()
        if (!(abs(bridged$value - evidence$value) < 4 * bridged$se))
            stop(name, ": log evidence ", bridged$value, " by bridge sampling, ", evidence$value, " by quadrature")
    }
    if (name == "mixture_unordered") evidence$value <- evidence$value + log(2)
    from <- if (is.null(p$twin)) "NUTS" else paste("NUTS on", source_name)
    kind <- ifelse(block %in% p$parameters, "parameters", ifelse(block %in% p$transformed, "transformed parameters", "generated quantities"))
    out <- list(program = name, dim = checked$dim, from = from, names = colnames(m), block = kind, mean = as.array(m["mean", ]),
        sd = as.array(m["sd", ]), mcse_mean = as.array(m["mcse_mean", ]), mcse_sd = as.array(m["mcse_sd", ]),
        n_draws = chains * programs[[source_name]]$draws, chains = chains, warmup = warmup, adapt_delta = programs[[source_name]]$delta,
        divergences = run$divergences, rhat_max = rhat, seconds = run$seconds, log_evidence = evidence, starts = checked$starts)
    worst <- c(mean = max(m["mcse_mean", ] / m["sd", ]), sd = max(m["mcse_sd", ] / m["sd", ]))
    cat(sprintf("%s: D %d, mcse/sd %.4f, sd error %.4f, divergences %d, rhat %.4f, log Z %.4f (%.4f), starts %d/%d, %.0f s\n", name,
        checked$dim, worst[1], worst[2], run$divergences, rhat, evidence$value, evidence$se, checked$starts$finite, checked$starts$tried,
        run$seconds))
    if (any(!(worst < 0.02)) || rhat > 1.01) stop(name, ": the long run is too short for a reference")
    if (file.exists(reference_file(name))) out$default_run <- json_read(reference_file(name))$default_run
    json_write(out, reference_file(name), 9)
}

for (name in asked_programs()) make_reference(name)
