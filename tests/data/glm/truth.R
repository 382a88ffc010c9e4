# truth.R: posteriors of generalised linear models from data sets of R, by importance sampling: a mode by optim, a
# multivariate t around it, 400,000 draws; the gaussian one by quadrature over sigma of closed forms. Writes the tables
# (*.csv) and truth.json beside it.        LC_ALL=C Rscript truth.R
# Priors are the defaults of wvgd: slopes normal(0, 2.5 s/sd(x)), the intercept of centred columns normal(mean(y), 2.5 s)
# or normal(0, 2.5), sigma exponential(1/s), nu gamma(2, 0.1), shape exponential(1); s = sd(y), or 1.
options(digits = 17)
set.seed(1)
M <- 400000

cases <- list(
    gaussian = list(data = ToothGrowth, formula = len ~ supp * dose, likelihood = "gaussian"),
    student = list(data = stackloss, formula = stack.loss ~ Air.Flow + Water.Temp, likelihood = "student"),
    bernoulli = list(data = infert[c("case", "age", "education", "spontaneous")],
                     formula = case ~ age + education + spontaneous, likelihood = "bernoulli"),
    binomial = list(data = transform(esoph[c("agegp", "alcgp", "ncases", "ncontrols")], agegp = as.integer(agegp),
                                     alcgp = as.integer(alcgp)),
                    formula = cbind(ncases, ncontrols) ~ agegp + I(agegp^2) + alcgp, likelihood = "binomial"),
    poisson = list(data = transform(warpbreaks, loom = 1 + seq_along(breaks) %% 3),
                   formula = breaks ~ wool * tension + offset(log(loom)), likelihood = "poisson"),
    negbinomial = list(data = InsectSprays, formula = count ~ spray, likelihood = "negbinomial"))

design <- function(case) {
    data <- case$data
    for (name in names(data)) if (is.factor(data[[name]])) data[[name]] <- factor(as.character(data[[name]]))
    frame <- model.frame(case$formula, data)
    X <- model.matrix(case$formula, frame)
    names <- colnames(X)
    for (name in names(data)) if (is.factor(data[[name]])) for (level in levels(data[[name]]))
        names <- gsub(paste0(name, level), paste0(name, "[", level, "]"), names, fixed = TRUE)
    names[1] <- "intercept"
    y <- model.response(frame)
    offset <- model.offset(frame)
    list(X = X, names = names, y = y, offset = if (is.null(offset)) rep(0, nrow(X)) else offset)
}

# Log posterior of rows of Z: slopes, the intercept of centred columns, logs of positive parameters.
posterior <- function(case, d) {
    X <- d$X[, -1, drop = FALSE]
    C <- scale(X, scale = FALSE)
    P <- ncol(X)
    numbers <- case$likelihood %in% c("gaussian", "student")
    s <- if (numbers) sd(d$y) else 1
    m <- if (numbers) mean(d$y) else 0
    sds <- 2.5 * s / apply(X, 2, sd)
    density <- function(Z) {
        W <- Z[, 1:P, drop = FALSE]
        lp <- colSums(dnorm(t(W), 0, sds, log = TRUE)) + dnorm(Z[, P + 1], m, 2.5 * s, log = TRUE)
        eta <- C %*% t(W) + rep(Z[, P + 1], each = nrow(C)) + d$offset
        more <- if (ncol(Z) > P + 1) exp(Z[, P + 2]) else NULL
        each <- if (is.null(more)) NULL else rep(more, each = nrow(C))
        ll <- switch(case$likelihood,
            student = {
                nu <- exp(Z[, P + 3])
                dt((d$y - eta) / each, rep(nu, each = nrow(C)), log = TRUE) - log(each)
            },
            bernoulli = dbinom(d$y, 1, plogis(eta), log = TRUE),
            binomial = dbinom(d$y[, 1], rowSums(d$y), plogis(eta), log = TRUE),
            poisson = dpois(d$y, exp(eta), log = TRUE),
            negbinomial = dnbinom(d$y, size = each, mu = exp(eta), log = TRUE))
        lp <- lp + colSums(matrix(ll, nrow(C)))
        if (case$likelihood == "student")
            lp <- lp + dexp(more, 1 / s, log = TRUE) + Z[, P + 2] + dgamma(nu, 2, 0.1, log = TRUE) + Z[, P + 3]
        if (case$likelihood == "negbinomial")
            lp <- lp + dexp(more, 1, log = TRUE) + Z[, P + 2]
        lp
    }
    list(density = density, P = P, D = P + 1 + switch(case$likelihood, student = 2, negbinomial = 1, 0),
         centre = colMeans(X), start = m)
}

shown <- function(Z, q) {
    P <- q$P
    out <- cbind(Z[, P + 1] - Z[, 1:P, drop = FALSE] %*% q$centre, Z[, 1:P, drop = FALSE])
    if (q$D > P + 1) out <- cbind(out, exp(Z[, (P + 2):q$D]))
    out
}

sampled <- function(case, d) {
    q <- posterior(case, d)
    f <- function(z) -q$density(matrix(z, 1))
    z <- c(rep(0, q$P), q$start, rep(0, q$D - q$P - 1))
    for (k in 1:5) z <- optim(z, f, method = "BFGS", control = list(maxit = 5000, reltol = 1e-14))$par
    V <- solve(optimHess(z, f)) * 1.1
    L <- t(chol(V))
    nu <- 6
    log_w <- NULL
    values <- NULL
    for (part in 1:20) {
        n <- M / 20
        G <- matrix(rnorm(n * q$D), q$D) / rep(sqrt(rchisq(n, nu) / nu), each = q$D)
        Z <- t(z + L %*% G)
        log_q <- lgamma((nu + q$D) / 2) - lgamma(nu / 2) - q$D / 2 * log(nu * pi) - sum(log(diag(L))) -
            (nu + q$D) / 2 * log1p(colSums(G^2) / nu)
        log_w <- c(log_w, q$density(Z) - log_q)
        values <- rbind(values, shown(Z, q))
    }
    top <- max(log_w)
    w <- exp(log_w - top)
    p <- w / sum(w)
    mean <- colSums(p * values)
    sd <- sqrt(colSums(p * sweep(values, 2, mean)^2))
    list(log_evidence = top + log(mean(w)), log_evidence_se = sd(w) / mean(w) / sqrt(M), ess = 1 / sum(p^2),
         mean = mean, sd = sd)
}

# Given sigma, weights and data are jointly normal.
by_quadrature <- function(case, d) {
    q <- posterior(modifyList(case, list(likelihood = "student")), d)
    X <- d$X[, -1, drop = FALSE]
    A <- cbind(scale(X, scale = FALSE), 1)
    s <- sd(d$y)
    sds <- c(2.5 * s / apply(X, 2, sd), 2.5 * s)
    prior <- c(rep(0, q$P), mean(d$y))
    n <- length(d$y)
    r <- d$y - A %*% prior
    t <- seq(log(s) - 4, log(s) + 4, length.out = 4001) # the trapezoidal rule for log sigma
    rows <- lapply(t, function(log_sigma) {
        sigma <- exp(log_sigma)
        S <- A %*% (sds^2 * t(A)) + diag(sigma^2, n)
        R <- chol(S)
        u <- backsolve(R, r, transpose = TRUE)
        H <- solve(crossprod(A) / sigma^2 + diag(1 / sds^2))
        w <- prior + H %*% crossprod(A, r) / sigma^2
        J <- rbind(c(-q$centre, 1), cbind(diag(q$P), 0)) # the intercept of columns as they are
        list(log_p = -sum(u^2) / 2 - sum(log(diag(R))) - n / 2 * log(2 * pi) + dexp(sigma, 1 / s, log = TRUE) + log_sigma,
             mean = c(J %*% w, sigma), square = c(diag(J %*% H %*% t(J)) + (J %*% w)^2, sigma^2))
    })
    log_p <- sapply(rows, `[[`, "log_p")
    p <- exp(log_p - max(log_p))
    mean <- colSums(p * t(sapply(rows, `[[`, "mean"))) / sum(p)
    square <- colSums(p * t(sapply(rows, `[[`, "square"))) / sum(p)
    list(log_evidence = max(log_p) + log(sum(p) * (t[2] - t[1])), log_evidence_se = 0, ess = 0, mean = mean,
         sd = sqrt(square - mean^2))
}

# Predictions for the first five rows from 200 made-up draws: value k of parameter j is mean + sd sin(1.3 k j), of a
# positive one mean exp(sin(1.3 k j) / 4).
predicted <- function(case, d, truth) {
    k <- 1:200
    P <- ncol(d$X)
    draws <- sapply(seq_along(truth$mean), function(j)
        if (j <= P) truth$mean[j] + truth$sd[j] * sin(1.3 * k * j) else truth$mean[j] * exp(sin(1.3 * k * j) / 4))
    t(sapply(1:5, function(i) {
        eta <- c(draws[, 1:P] %*% d$X[i, ] + d$offset[i])
        n <- if (is.matrix(d$y)) sum(d$y[i, ]) else 1
        more <- if (ncol(draws) > P) draws[, P + 1] else NULL
        m <- switch(case$likelihood, gaussian = , student = eta, bernoulli = , binomial = n * plogis(eta), exp(eta))
        below <- function(y) mean(switch(case$likelihood,
            gaussian = pnorm(y, m, more), student = pt((y - m) / more, draws[, P + 2]), bernoulli = ,
            binomial = pbinom(y, n, m / n), poisson = ppois(y, m), negbinomial = pnbinom(y, size = more, mu = m)))
        at <- function(p) {
            if (case$likelihood %in% c("gaussian", "student"))
                return(uniroot(function(y) below(y) - p, mean(m) + c(-1, 1) * 200 * max(more), tol = 1e-12)$root)
            y <- 0
            while (below(y) < p) y <- y + 1
            y
        }
        c(mean(m), sd(m), quantile(m, c(0.05, 0.5, 0.95)), at(0.05), at(0.95))
    }))
}

number <- function(x) paste(sprintf("%.10g", x), collapse = ", ")
lines <- NULL
for (name in names(cases)) {
    case <- cases[[name]]
    d <- design(case)
    write.csv(case$data, paste0(name, ".csv"), row.names = FALSE, quote = FALSE)
    truth <- if (name == "gaussian") by_quadrature(case, d) else sampled(case, d)
    more <- switch(name, gaussian = "sigma", student = c("sigma", "nu"), negbinomial = "shape", NULL)
    cat(name, truth$log_evidence, truth$log_evidence_se, truth$ess, "\n")
    lines <- c(lines, sprintf(
        '"%s": {"formula": "%s", "log_evidence": %s, "log_evidence_se": %s,\n  "names": [%s],\n  "mean": [%s],\n  "sd": [%s],\n  "predicted": [%s]}',
        name, paste(deparse(case$formula), collapse = ""), number(truth$log_evidence), number(truth$log_evidence_se),
        paste0('"', c(d$names, more), '"', collapse = ", "), number(truth$mean), number(truth$sd),
        number(t(predicted(case, d, list(mean = signif(truth$mean, 10), sd = signif(truth$sd, 10)))))))
}
writeLines(c("{", paste(lines, collapse = ",\n"), "}"), "truth.json")
