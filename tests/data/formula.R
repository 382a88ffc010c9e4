# formula.R - design matrices of R, for tests/test_formula.c:
#     LC_ALL=C Rscript formula.R
# writes formula.csv (the table of the fit), formula_new.csv (new rows) and formula.txt: for each formula its text, names
# of columns by our rule, rows of the matrix, rows of the matrix of the new table, offsets, response, trials. The names
# that R gives are built by the same code and compared with those of model.matrix.
stopifnot(Sys.getlocale("LC_COLLATE") == "C")
set.seed(11)
n <- 20
make <- function(n) data.frame(
    y = round(rnorm(n, 3, 2), 2), x = round(rnorm(n), 2), z = round(rexp(n) + 0.1, 2),
    own = rep(c(0, 1, 1), length.out = n)[sample(n)],
    a = sample(rep(c("u", "W", "v"), length.out = n)), b = sample(rep(c("no way", "yep"), length.out = n)),
    c = sample(rep(c("4", "3b", "q q", "C"), length.out = n)), k = sample(rep(c(2, 10, 3.5), length.out = n)),
    n = sample(5:9, n, TRUE), s = sample(0:5, n, TRUE), `a b` = round(runif(n), 2), .w_1 = round(runif(n, 1, 2), 2),
    check.names = FALSE)
train <- make(n)
train$y[1:2] <- c(0.5, 7)
train$f <- train$n - train$s
new <- make(4)
new$f <- new$n - new$s
train$y <- abs(train$y) + 0.25
new$y <- abs(new$y) + 0.25
save <- function(d, file) {
    d$own <- ifelse(d$own == 1, "Yes", "no")
    write.csv(d, file, row.names = FALSE, quote = TRUE)
}
save(train, "formula.csv")
save(new, "formula_new.csv")

ours <- function(label) {
    if (grepl("^`[^`]*`$", label)) return(substr(label, 2, nchar(label) - 1))
    label <- gsub(" (?=(?:[^`]*`[^`]*`)*[^`]*$)", "", label, perl = TRUE) # blanks that are not in back-quotes
    sub("^as\\.factor\\(", "factor(", label)
}
number <- function(x) paste(formatC(x, digits = 14, format = "g"), collapse = " ")

# Suffixes of the columns of a variable, as R has them and as we have them.
parts <- function(v, label, full) {
    if (is.factor(v) || is.character(v)) {
        l <- levels(as.factor(v))
        if (!full) l <- l[-1]
        return(list(r = paste0(label, l), our = paste0(ours(label), "[", l, "]")))
    }
    if (inherits(v, "poly"))
        return(list(r = if (ncol(v) > 1) paste0(label, seq_len(ncol(v))) else label,
                    our = paste0(ours(label), "[", seq_len(ncol(v)), "]")))
    list(r = label, our = ours(label))
}
names_of <- function(mf, tt, X) {
    F <- attr(tt, "factors")
    r <- our <- character(0)
    if (attr(tt, "intercept")) { r <- "(Intercept)"; our <- "intercept" }
    if (length(F)) {
        isf <- sapply(rownames(F), function(v) is.factor(mf[[v]]) || is.character(mf[[v]]))
        if (!attr(tt, "intercept")) {
            at <- which(F > 0 & isf, arr.ind = TRUE)
            if (nrow(at)) { at <- at[order(at[, 2], at[, 1]), , drop = FALSE]; F[at[1, 1], at[1, 2]] <- 2 }
        }
        for (j in seq_len(ncol(F))) {
            one <- list(r = "", our = "")
            for (v in rownames(F)[F[, j] > 0]) {
                p <- parts(mf[[v]], v, F[v, j] == 2)
                join <- function(a, b) as.vector(outer(a, b, function(s, t) ifelse(s == "", t, paste0(s, ":", t))))
                one <- list(r = join(one$r, p$r), our = join(one$our, p$our))
            }
            r <- c(r, one$r)
            our <- c(our, one$our)
        }
    }
    # R drops no blank inside of labels; factor labels come as they are
    stopifnot(identical(r, colnames(X)))
    our
}

out <- file("formula.txt", "w")
put <- function(key, text) cat(key, ": ", text, "\n", sep = "", file = out)
case <- function(text, as = text, predict = TRUE) {
    f <- as.formula(as)
    mf <- model.frame(f, train)
    tt <- terms(mf)
    X <- model.matrix(tt, mf)
    put("formula", text)
    put("names", paste(names_of(mf, tt, X), collapse = "\t"))
    for (i in seq_len(nrow(X))) put("x", number(X[i, ]))
    y <- model.response(mf)
    put("y", number(if (is.matrix(y)) y[, 1] else if (is.character(y)) as.integer(as.factor(y)) - 1 else y))
    if (is.matrix(y)) put("trials", number(rowSums(y)))
    if (!is.null(model.offset(mf))) put("offset", number(model.offset(mf)))
    if (predict) {
        m2 <- model.frame(delete.response(tt), new, xlev = .getXlevels(tt, mf))
        X <- model.matrix(delete.response(tt), m2)
        for (i in seq_len(nrow(X))) put("new", number(X[i, ]))
        if (!is.null(model.offset(m2))) put("newoffset", number(model.offset(m2)))
    }
}

# sums, intercepts
case("y ~ x")
case("y ~ 1")
case("y~x+z+own")
case("y ~ x + z - 1")
case("y ~ 0 + x")
case("y ~ -1 + x + a")
case("y ~ x - 1 + 1")
case("y ~ 0 + x + 1")
case("y ~ x - 0 + z")
case("y ~ x + x + z + x")
case("y ~ x + z - x")
case("y ~ (x + z)")
case("y ~ ((x) + (z - x))")
case("y ~ x - (1 + z)")
case("y ~ z - (x - 1)")
case("y ~ + x")
case("y ~ x + -1")
case("y ~ x - -1 + -z")
case("y ~ -x:z + z")
case("y ~ own")
case("y ~ 0 + own")
# factors
case("y ~ a")
case("y ~ 0 + a")
case("y ~ a + b - 1")
case("y ~ x + a - 1")
case("y ~ c + a + b")
case("y ~ 0 + x + c + a")
case("y ~ factor(k)")
case("y ~ 0 + factor(k) + b")
case("y ~ as.factor(k) + x")
case("y ~ factor(k)*x")
case("y ~ factor(a) + x")
# interactions
case("y ~ a*b")
case("y ~ a:b")
case("y ~ 0 + a:b")
case("y ~ a + a:b")
case("y ~ b + a:b")
case("y ~ x:a")
case("y ~ x*a")
case("y ~ x + x:a")
case("y ~ 0 + x:a")
case("y ~ a + x:a - 1")
case("y ~ a*b*c")
case("y ~ a:b:c")
case("y ~ a*b + c:b")
case("y ~ a*b*c - a:b:c")
case("y ~ a*b*c - a")
case("y ~ a*b - b")
case("y ~ (a + b + c)^2")
case("y ~ (a + b + x)^3")
case("y ~ (a + b + x)^2 - a:b")
case("y ~ (x + z)^2*a")
case("y ~ a:x:z")
case("y ~ b:a + x + a")
case("y ~ x:z + z:x + x")
case("y ~ 0 + a*b")
case("y ~ 0 + a:b + c")
case("y ~ a*b*c - 1")
case("y ~ a + b:c + x:c")
case("y ~ own*a")
case("y ~ x*z*own")
case("y ~ a:b + a:c + b:c")
case("y ~ x^2")
case("y ~ (x + z + own + n)^4 - x:z:own:n")
case("y ~ a:b - 1 + c:x")
case("y ~ a*x:z")
case("y ~ a:b*x")
case("y ~ a:(b + x)")
# nesting
case("y ~ x:z/a")
case("y ~ a*b %in% c")
case("y ~ a:b %in% c")
case("y ~ a/b*x")
case("y ~ a*b/x")
case("y ~ x + a/(b + x)")
case("y ~ a/b")
case("y ~ a/x")
case("y ~ a/b/x")
case("y ~ (a + b)/x")
case("y ~ b %in% a")
case("y ~ a + b %in% a")
case("y ~ x/z + c")
# functions
case("y ~ I(x^2)")
case("y ~ x + I(x^2) + I( x ^ 3 )")
case("y ~ I(x + 2*z)")
case("y ~ I((x + z)/2)*a")
case("y ~ I(-x^2) + I(2^-z)")
case("y ~ I(x - z - 1) + I(x - (z - 1)) + I(x/z/2) + I(x/(z/2))")
case("y ~ I(2^z^0.5) + I((2^z)^0.5)")
case("y ~ I(1e-2*x) + I(.5 + z*3L)")
case("y ~ log(z) + exp(x) + sqrt(z)")
case("y ~ log(z):a + log(z + 1)")
case("y ~ log2(z) + log10(z) + log1p(z) + abs(x)")
case("y ~ I(log(z)^2) + sqrt(abs(x))")
case("y ~ I(own*x)")
case("y ~ x**2 + I(x**2)", as = "y ~ x^2 + I(x^2)")
case("y ~ scale(x)")
case("y ~ scale(x)*scale(z)")
case("y ~ scale(log(z)) + a:scale(x)")
case("y ~ scale(x, scale = FALSE) + scale(z, center = FALSE)")
case("y ~ I(scale(x)^2)", predict = FALSE)
case("y ~ poly(x, 1)")
case("y ~ poly(x,2)")
case("y ~ poly(z, 5) + a")
case("y ~ poly(x, 3)*b")
case("y ~ 0 + poly(x, 2):a")
case("y ~ poly(log(z), 2) + poly(n, 4)")
case("y ~ poly(x, 3, raw = TRUE)")
case("y ~ `a b` + .w_1")
case("y ~ log(`a b` + 1)*a")
# dots
case("y ~ .")
case("y ~ . - c - k")
case("y ~ . - 1")
case("log(y) ~ . - a + I(x^2)")
case("y ~ a*. - k:a - n:a - s:a - f:a")
case("y ~ (. - c - k - n - s - f - `a b` - .w_1)^2")
# responses, offsets
case("log(y) ~ x")
case("sqrt(y) + 1 ~ a")
case("I(y/10) ~ x")
case("y/10 ~ x")
case("a ~ x")
case("b ~ x + offset(z)")
case("s ~ x + offset(log(n))")
case("s ~ offset(log(n)) + a + offset(2*z)")
case("s ~ offset(z) + x - 1")
case("cbind(s, f) ~ a + x")
case("cbind(s, n - s) ~ x*b")
case("cbind(s, f) ~ . - y - c - k")
case("s | trials(n) ~ x", as = "cbind(s, n - s) ~ x")
case("s | trials(n) ~ a*x + n", as = "cbind(s, n - s) ~ a*x + n")
case("s | trials(10) ~ x", as = "cbind(s, 10 - s) ~ x")
close(out)
