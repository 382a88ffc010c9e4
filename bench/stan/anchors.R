# What rstan's own algorithms reach with default settings: Rscript anchors.R [program...] runs NUTS (4 chains of 1000 + 1000) and
# variational inference (mean-field and full-rank, three seeds each), and updates these programs in anchors.json.
source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))), "posterior.R"))

anchors_file <- file.path(here, "anchors.json")

run_nuts <- function(name, reference) {
    p <- programs[[name]]
    fit <- suppressWarnings(sampling(compiled(name), data = program_data(name), seed = 1, cores = 1, refresh = 0))
    x <- shown_draws(fit, p)
    steps <- vapply(get_sampler_params(fit, inc_warmup = TRUE), function(s) s[, "n_leapfrog__"], numeric(2000))  # [iteration, chain]
    c(list(gradients = sum(steps), gradients_warmup = sum(steps[1:1000, ]), seconds = sum(get_elapsed_time(fit))),
        errors_against(reference, apply(x, 3, mean), apply(x, 3, sd)),
        list(divergences = get_num_divergent(fit), rhat_max = max(apply(x, 3, Rhat)), seed = 1))
}

# Evaluations of a vb() run from what it prints: 50 gradients for each step size tried (100, 10, 1, 0.1, 0.01; it stops at the one after
# the best) and one for each iteration; 100 densities for each estimate of the ELBO (at the start, for each step size, after each 100
# iterations), and 1000 at the draws it returns.
count_vb <- function(printed) {
    best <- as.numeric(sub(".*\\[eta = ([0-9.]+)\\].*", "\\1", grep("Found best value", printed, value = TRUE)[1]))
    tried <- if (any(grepl("earlier than expected", printed))) match(best, c(100, 10, 1, 0.1, 0.01)) + 1 else 5
    rows <- grep("^Chain 1: +[0-9]+ +-?[0-9.]+(e[+0-9]+)? ", printed, value = TRUE)
    iterations <- max(0, as.numeric(sub("^Chain 1: +([0-9]+) .*", "\\1", rows)))
    list(gradients = 50 * tried + iterations, densities = 100 * (1 + tried + iterations / 100) + 1000, iterations = iterations,
        converged = any(grepl("ELBO CONVERGED", printed)))
}

run_vb <- function(name, algorithm, seed, reference) {
    p <- programs[[name]]
    model <- compiled(name)
    data <- program_data(name)
    started <- proc.time()[[3]]
    printed <- capture.output(
        fit <- tryCatch(suppressWarnings(vb(model, data = data, algorithm = algorithm, seed = seed)), error = conditionMessage))
    seconds <- proc.time()[[3]] - started
    if (!is(fit, "stanfit") || length(fit@sim) == 0) {
        said <- grep("^Chain 1: *(Error|All proposed|stan::|Exception|Must use|The number)", printed, value = TRUE)
        why <- trimws(sub("^Chain 1:", "", c(said, if (is.character(fit)) fit, "no draws")))
        return(list(seed = seed, failed = TRUE, reason = why[1], seconds = seconds))
    }
    x <- shown_draws(fit, p)
    errors <- errors_against(reference, apply(x, 3, mean), apply(x, 3, sd))
    c(list(seed = seed, failed = FALSE, seconds = seconds), count_vb(printed), errors, list(pareto_k = fit@sim$diagnostics$psis$pareto_k))
}

make_anchor <- function(name) {
    reference <- json_read(reference_file(name))
    nuts <- run_nuts(name, reference)
    found <- list(dim = reference$dim, nuts = nuts)
    for (algorithm in c("meanfield", "fullrank"))
        found[[algorithm]] <- lapply(1:3, function(seed) run_vb(name, algorithm, seed, reference))
    reference$default_run <- nuts
    json_write(reference, reference_file(name), 9)
    old <- if (file.exists(anchors_file)) json_read(anchors_file) else list()
    old$machine <- machine()
    old$programs[[name]] <- found
    old$programs <- old$programs[intersect(names(programs), names(old$programs))]
    json_write(old, anchors_file, 6)
    say_anchor(name, found)
}

say_anchor <- function(name, found) {
    show <- function(runs, what) paste(vapply(runs, function(r) if (r$failed) "failed" else sprintf("%.2f", r[[what]]), ""), collapse = " ")
    cat(sprintf("%s: NUTS %.0f gradients, %.1f s, errors %.3f %.3f, %d divergent", name, found$nuts$gradients, found$nuts$seconds,
        found$nuts$mean_err, found$nuts$sd_err, found$nuts$divergences))
    for (a in c("meanfield", "fullrank")) cat("; ", a, " ", show(found[[a]], "mean_err"), " | ", show(found[[a]], "sd_err"), sep = "")
    cat("\n")
}

for (name in asked_programs()) make_anchor(name)
