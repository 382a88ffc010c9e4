# stanc.R PROGRAM.stan OUT.cpp NAME: translates a Stan program with rstan's stanc. Messages go to stderr; without arguments: where Stan is, as "key<TAB>value".
arguments <- commandArgs(trailingOnly = TRUE)
if (length(arguments) == 0) {
    for (package in c("rstan", "StanHeaders", "RcppEigen", "BH")) {
        path <- system.file(package = package)
        if (nzchar(path)) {
            cat(package, "\t", as.character(utils::packageVersion(package)), "\n", sep = "")
            cat(package, "-path\t", path, "\n", sep = "")
        }
    }
    quit(status = 0)
}
quiet <- suppressWarnings(suppressMessages(requireNamespace("rstan", quietly = TRUE)))
translated <- tryCatch(
    rstan::stanc(file = arguments[1], model_name = arguments[3], obfuscate_model_name = FALSE),
    error = function(e) quit(status = 2) # the message of the parser is on stderr already
)
code <- gsub("context__.validate_dims(", "wvgd::validate_dims(context__, ", translated$cppcode, fixed = TRUE, useBytes = TRUE)
writeLines(code, arguments[2], useBytes = TRUE)
