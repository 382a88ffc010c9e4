# Reads and writes JSON with base R alone. Objects are named lists; arrays of numbers are R arrays with a dim attribute (so an
# array of one number stays an array), other arrays are unnamed lists; a number without a dim attribute is a scalar.

# Whole numbers without an exponent: Stan takes nothing else for an int.
number_text <- function(v, digits) {
    if (!is.finite(v)) "null" else if (v == round(v) && abs(v) < 1e15) sprintf("%.0f", v) else format(v, digits = digits)
}

json_text <- function(x, digits = 17, indent = "") {
    inner <- paste0(indent, "  ")
    if (is.null(x)) return("null")
    if (is.list(x)) {
        if (length(x) == 0) return(if (is.null(names(x))) "[]" else "{}")
        items <- vapply(x, json_text, "", digits = digits, indent = inner)
        keys <- if (is.null(names(x))) "" else paste0("\"", names(x), "\": ")
        ends <- if (is.null(names(x))) c("[", "]") else c("{", "}")
        return(paste0(ends[1], "\n", paste0(inner, keys, items, collapse = ",\n"), "\n", indent, ends[2]))
    }
    if (length(dim(x)) > 1) {
        rows <- apply(x, 1, function(row) json_text(as.array(as.vector(row)), digits))
        return(paste0("[", paste(rows, collapse = paste0(",\n", inner)), "]"))
    }
    items <- if (is.character(x)) encodeString(x, quote = "\"")
        else if (is.logical(x)) ifelse(is.na(x), "null", ifelse(x, "true", "false"))
        else vapply(x, number_text, "", digits = digits)
    if (is.null(dim(x)) && length(x) == 1) items else paste0("[", paste(items, collapse = ", "), "]")
}

# The file appears whole or not at all.
json_write <- function(x, file, digits = 15) {
    partial <- paste0(file, ".partial")
    writeLines(json_text(x, digits), partial)
    if (!file.rename(partial, file)) stop("cannot write ", file)
}

json_read <- function(file) {
    text <- paste(readLines(file, warn = FALSE), collapse = "\n")
    pattern <- "\"(?:[^\"\\\\]|\\\\.)*\"|[][{}:,]|-?[0-9][-+0-9.eE]*|true|false|null"
    token <- regmatches(text, gregexpr(pattern, text, perl = TRUE))[[1]]
    at <- 0
    take <- function() { at <<- at + 1; token[at] }
    bind <- function(items) {
        if (all(vapply(items, is.numeric, NA)) && length(items)) {
            size <- unique(lapply(items, dim))
            if (length(size) == 1 && is.null(size[[1]])) return(as.array(unlist(items)))
            if (length(size) == 1) return(do.call(rbind, lapply(items, as.vector)))
        }
        if (all(vapply(items, is.character, NA)) && length(items)) return(unlist(items))
        items
    }
    value <- function() {
        t <- take()
        if (t == "{" || t == "[") {
            close <- if (t == "{") "}" else "]"
            out <- list()
            if (token[at + 1] == close) { take(); return(if (close == "}") setNames(list(), character()) else out) }
            repeat {
                if (close == "}") {
                    key <- eval(parse(text = take()))
                    stopifnot(take() == ":")
                    out[key] <- list(value())
                } else out[length(out) + 1] <- list(value())
                sign <- take()
                if (sign == close) return(if (close == "}") out else bind(out))
                stopifnot(sign == ",")
            }
        }
        switch(t, true = TRUE, false = FALSE, null = NA_real_, if (startsWith(t, "\"")) eval(parse(text = t)) else as.numeric(t))
    }
    value()
}
