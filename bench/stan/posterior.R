# What reference.R and anchors.R share: the table of programs, compiling, names, and errors against a reference.
suppressPackageStartupMessages(library(rstan))
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
examples <- file.path(here, "..", "..", "examples", "stan")
source(file.path(examples, "json.R"))

# parameters, transformed: blocks of the program; generated: generated quantities that are functions of the parameters and
# few enough to compare. twin: the program whose long run gives the reference.
# draws: per chain of the long run; delta: its target acceptance.
program <- function(parameters, transformed = character(), generated = character(), twin = NULL, draws = 10000, delta = 0.95)
    list(parameters = parameters, transformed = transformed, generated = generated, twin = twin, draws = draws, delta = delta)

programs <- list(
    eight_schools_noncentred = program(c("mu", "tau", "eta"), "theta", draws = 25000, delta = 0.99),
    eight_schools_centred = program(c("mu", "tau", "theta"), twin = "eight_schools_noncentred"),
    linear_regression = program(c("alpha", "beta", "sigma"), generated = "slope"),
    logistic_regression = program(c("alpha", "beta")),
    radon = program(c("mu", "gamma", "beta", "tau", "sigma", "alpha"), generated = "between", draws = 25000, delta = 0.995),
    ar = program(c("alpha", "beta", "sigma"), generated = "forecast"),
    garch = program(c("mu", "omega", "alpha", "beta"), "persistence", "sigma_next"),
    mixture_ordered = program(c("mu", "sigma", "theta"), draws = 40000),
    mixture_unordered = program(c("mu", "sigma", "theta"), twin = "mixture_ordered"),
    gp_regression = program(c("rho", "alpha", "sigma"), generated = "f_new", draws = 20000),
    lotka_volterra = program(c("rate", "z_init", "sigma"), "z", draws = 5000),
    hmm = program(c("move", "mu", "sigma"), "last", "share_second", draws = 20000),
    poisson_glm = program(c("alpha", "beta")))

shown <- function(p) c(p$parameters, p$transformed, p$generated)

asked_programs <- function() {
    asked <- commandArgs(TRUE)
    unknown <- setdiff(asked, names(programs))
    if (length(unknown)) stop("no program ", unknown[1], "; there are ", paste(names(programs), collapse = ", "))
    if (length(asked)) asked else names(programs)
}

program_code <- function(name) paste(readLines(file.path(examples, paste0(name, ".stan"))), collapse = "\n")
program_data <- function(name) json_read(file.path(examples, paste0(name, ".json")))
reference_file <- function(name) file.path(examples, "reference", paste0(name, ".json"))

# Debian's BH has no headers of its own: they are in /usr/include.
if (!file.exists(rstan_options("boost_lib"))) rstan_options(boost_lib = "/usr/include", boost_lib2 = "/usr/include")

# Compiled programs are kept in WVGD_STAN_CACHE (default: build/rstan) under a name that has a hash of the program in it.
loaded <- new.env()
compiled <- function(name, code = program_code(name)) {
    if (is.null(loaded[[name]])) loaded[[name]] <- load_program(name, code)
    loaded[[name]]
}
load_program <- function(name, code) {
    cache <- Sys.getenv("WVGD_STAN_CACHE", file.path(here, "..", "..", "build", "rstan"))
    dir.create(cache, showWarnings = FALSE, recursive = TRUE)
    text <- tempfile()
    writeLines(code, text)
    kept <- file.path(cache, paste0(name, "-", tools::md5sum(text), ".rds"))
    if (file.exists(kept)) return(readRDS(kept))
    model <- stan_model(model_code = code, model_name = name, auto_write = FALSE)
    saveRDS(model, kept)
    model
}

# A fit without draws, for log densities and transforms of the parameters.
opened <- function(model, data) suppressWarnings(suppressMessages(sampling(model, data = data, chains = 0)))

# "theta[1,2]" becomes "theta.1.2", as in Stan's CSV files.
dotted <- function(names) gsub("[],]+$", "", gsub("[[,]", ".", names))

# Draws of the quantities shown: [iterations, chains, names].
shown_draws <- function(fit, p) {
    x <- as.array(fit, pars = shown(p))
    dimnames(x)[[3]] <- dotted(dimnames(x)[[3]])
    x
}

# Largest errors of `mean` and `sd` (named) over the quantities of a reference: in units of its sd, and in logs.
errors_against <- function(reference, mean, sd) {
    names <- reference$names
    scale <- as.vector(reference$sd)
    list(mean_err = max(abs(mean[names] - as.vector(reference$mean)) / scale), sd_err = max(abs(log(sd[names] / scale))))
}

machine <- function() {
    cpu <- sub(".*: ", "", grep("^model name", readLines("/proc/cpuinfo"), value = TRUE)[1])
    list(cpu = cpu, R = as.character(getRversion()), rstan = as.character(packageVersion("rstan")), stan = stan_version())
}
