# export-datasets.R - writes breaks.csv and teeth.csv from R's package datasets, in the directory where it runs:
# Rscript export-datasets.R
put <- function(x, file) write.table(x, file, sep = ",", quote = FALSE, row.names = FALSE, eol = "\n")
tension <- c(L = "low", M = "medium", H = "high")
put(data.frame(wool = warpbreaks$wool, tension = tension[as.character(warpbreaks$tension)], breaks = warpbreaks$breaks),
    "breaks.csv")
put(data.frame(supplement = ifelse(ToothGrowth$supp == "OJ", "juice", "vitamin"), dose = ToothGrowth$dose,
               length = ToothGrowth$len), "teeth.csv")
