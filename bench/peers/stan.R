# stan.R CACHE DATA.csv REFERENCE.json [SEED...]: logistic regression with rstan's vb, mean-field and full-rank, and NUTS, all with their defaults. Prints a line of JSON for each and for each seed. Compiling is not
# timed: the compiled program is kept in the directory CACHE. What the reference is for: NUTS is done as soon as, and from then on, its means and sds are right to 0.1.
suppressPackageStartupMessages(library(rstan))
if (!file.exists(rstan_options("boost_lib"))) rstan_options(boost_lib = "/usr/include", boost_lib2 = "/usr/include") # Debian has them there
arguments <- commandArgs(TRUE)
seeds <- if (length(arguments) > 3) as.integer(arguments[-(1:3)]) else 1
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
numbers <- function(name) {   # of a JSON array of plain numbers
    text <- paste(readLines(arguments[3]), collapse = " ")
    as.numeric(strsplit(sub(paste0('.*"', name, '": *\\[([^]]*)\\].*'), "\\1", text), ",")[[1]])
}
truth <- list(mean = numbers("mean"), sd = numbers("sd"))
table <- read.csv(arguments[2])
X <- cbind(scale(as.matrix(table[, -ncol(table)])), 1)
data <- list(n = nrow(X), d = ncol(X), X = X, y = as.integer(table[[ncol(table)]]))

dir.create(arguments[1], recursive = TRUE, showWarnings = FALSE)
compiled <- function(name) {
    kept <- file.path(arguments[1], paste0(name, ".rds"))
    source_file <- file.path(here, paste0(name, ".stan"))
    if (file.exists(kept) && file.mtime(kept) > file.mtime(source_file)) return(readRDS(kept))
    invisible(capture.output(program <- stan_model(source_file)))
    saveRDS(program, kept)
    program
}

errors <- function(w) c(max(abs(colMeans(w) - truth$mean) / truth$sd), max(abs(log(apply(w, 2, sd) / truth$sd))))
tell <- function(name, seconds, evaluations, e, reached = "null") {
    cat(sprintf('{"name": "%s", "seconds": %.6f, "evaluations": %s, "mean_error": %.6f, "sd_error": %.6f, "reached": %s, "version": "rstan %s"}\n',
        name, seconds, evaluations, e[1], e[2], reached, packageVersion("rstan")))
}
measure <- function(program, label, seed) {
    force(program)   # compiling is not timed
    for (kind in c("meanfield", "fullrank")) {
        error <- NULL
        took <- system.time(invisible(capture.output(
            fit <- tryCatch(suppressWarnings(vb(program, data = data, algorithm = kind, seed = seed)), error = function(e) { error <<- conditionMessage(e); NULL }))))[["elapsed"]]
        if (is.null(fit) || fit@mode != 0L) {
            cat(sprintf('{"name": "Stan vb %s%s", "failed": true, "seconds": %.6f}\n', kind, label, took))
            next
        }
        tell(paste0("Stan vb ", kind, label), took, "null", errors(extract(fit, "w")$w))
    }

    # One chain after the other. The time of each draw: warm-up, then equal shares of the chain's sampling.
    invisible(capture.output(fit <- sampling(program, data = data, chains = 4, cores = 1, seed = seed, refresh = 0, save_warmup = TRUE)))
    times <- get_elapsed_time(fit)
    steps <- sapply(get_sampler_params(fit, inc_warmup = TRUE), function(p) p[, "n_leapfrog__"])   # [2000, 4]
    w <- as.array(fit, pars = "w")                                                                # [1000, 4, d], without the warm-up
    half <- dim(w)[1]
    draws <- matrix(w, ncol = dim(w)[3])                                                          # a chain below the other
    clock <- as.vector(sapply(1:4, function(k) sum(times[seq_len(k - 1), ]) + times[k, 1] + times[k, 2] * seq_len(half) / half))
    count <- as.vector(sapply(1:4, function(k) sum(steps[, seq_len(k - 1)]) + sum(steps[1:half, k]) + cumsum(steps[half + seq_len(half), k])))
    looks <- seq(50, nrow(draws), by = 10)
    right <- sapply(looks, function(k) max(errors(draws[1:k, ])) < 0.1)
    since <- if (all(right)) 1 else max(which(!right)) + 1
    reached <- if (since <= length(looks)) sprintf('{"seconds": %.6f, "evaluations": %.0f, "draws": %d}', clock[looks[since]], count[looks[since]], looks[since]) else "null"
    tell(paste0("Stan NUTS", label), sum(times), sprintf("%.0f", sum(steps)), errors(draws), reached)
}
# Likelihoods: the function that Stan has for just this, and as usually written.
for (seed in seeds) {
    measure(compiled("logistic"), "", seed)
    measure(compiled("logistic_plain"), ", X * w", seed)
}
