# Writes the data file of every program here: Rscript make_data.R [directory], default the script's own. Simulated data have
# fixed seeds and are rounded, so the files come out the same again; README.md says where the other data are from.
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "json.R"))
given <- commandArgs(TRUE)
folder <- if (length(given)) given[1] else here
RNGkind("Mersenne-Twister", "Inversion", "Rejection")

write_data <- function(name, data) json_write(data, file.path(folder, paste0(name, ".json")))
rows <- function(x) as.array(as.vector(x))

schools <- list(J = 8, y = rows(c(28, 8, -3, 7, -1, 1, 18, 12)), sigma = rows(c(15, 10, 16, 11, 9, 11, 10, 18)))
write_data("eight_schools_centred", schools)
write_data("eight_schools_noncentred", schools)

X <- unname(as.matrix(datasets::swiss[, -1]))
write_data("linear_regression", list(N = nrow(X), K = ncol(X), X = X, y = rows(datasets::swiss$Fertility)))

X <- unname(as.matrix(MASS::Pima.tr[, -8]))
write_data("logistic_regression", list(N = nrow(X), K = ncol(X), X = X, y = rows(as.integer(MASS::Pima.tr$type == "Yes"))))

set.seed(20240501)
J <- 30
houses <- 2 + rpois(J, 6)
county <- rep(seq_len(J), houses)
soil <- round(rnorm(J, 0, 0.4), 3)
alpha <- rnorm(J, 1.4 + 0.7 * soil, 0.3)
upstairs <- rbinom(length(county), 1, 0.2)
write_data("radon", list(N = length(county), J = J, county = rows(county), floor_measured = rows(upstairs), soil = rows(soil),
    log_radon = rows(round(rnorm(length(county), alpha[county] - 0.65 * upstairs, 0.75), 3))))

write_data("ar", list(K = 5, T = 114, y = rows(round(log10(as.numeric(datasets::lynx)), 6))))

returns <- round(100 * diff(log(as.numeric(datasets::EuStockMarkets[, "DAX"]))), 4)[1:500]
write_data("garch", list(T = length(returns), y = rows(returns), sigma1 = round(sd(returns), 4)))

set.seed(20240502)
second <- rbinom(150, 1, 0.6)
mixture <- list(N = 150, y = rows(round(rnorm(150, ifelse(second == 1, 1.2, -1.2), ifelse(second == 1, 0.7, 0.9)), 3)))
write_data("mixture_ordered", mixture)
write_data("mixture_unordered", mixture)

set.seed(20240503)
x <- sort(round(runif(25, 0, 5), 2))
write_data("gp_regression", list(N = 25, x = rows(x), y = rows(round(sin(1.8 * x) + 0.4 * x - 1 + rnorm(25, 0, 0.35), 3)), x_new = rows(2.5)))

hare <- c(30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1, 40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7)
lynx <- c(4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4, 8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6)
write_data("lotka_volterra", list(N = 20, t = rows(1:20), y_init = rows(c(hare[1], lynx[1])), y = cbind(hare, lynx)[-1, ]))

set.seed(20240504)
state <- numeric(120)
state[1] <- 1
for (t in 2:120) state[t] <- if (runif(1) < 0.15) 3 - state[t - 1] else state[t - 1]
write_data("hmm", list(T = 120, y = rows(round(rnorm(120, c(-0.5, 1.5)[state], 0.9), 3))))

X <- unname(model.matrix(~ wool * tension, datasets::warpbreaks)[, -1])
write_data("poisson_glm", list(N = nrow(X), K = ncol(X), X = X, y = rows(datasets::warpbreaks$breaks)))
