# export-boot.R - writes births.csv, nodal.csv and radiation.csv from the R package boot (Debian: r-cran-boot), in the
# directory where it runs: Rscript export-boot.R
library(boot)
put <- function(x, file) write.table(x, file, sep = ",", quote = FALSE, row.names = FALSE, eol = "\n")
pick <- function(x, zero, one) ifelse(x == 1, one, zero)
put(data.frame(age = pick(nodal$aged, "below60", "from60"), stage = pick(nodal$stage, "minor", "serious"),
               grade = pick(nodal$grade, "minor", "serious"), xray = pick(nodal$xray, "clear", "suspect"),
               acid = pick(nodal$acid, "low", "raised"), involved = pick(nodal$r, "no", "yes")), "nodal.csv")
put(data.frame(dose = survival$dose, log_survival = signif(log(survival$surv), 8)), "radiation.csv")
put(data.frame(age = downs.bc$age, cases = downs.bc$r, births = downs.bc$m), "births.csv")
