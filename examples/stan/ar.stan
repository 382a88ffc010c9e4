// Autoregression of order K, given the first K values.
data {
  int<lower=0> K;
  int<lower=K> T;
  vector[T] y;
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 1);
  sigma ~ cauchy(0, 1);
  for (t in (K + 1):T) {
    real m = alpha;
    for (k in 1:K)
      m += beta[k] * y[t - k];
    y[t] ~ normal(m, sigma);
  }
}
generated quantities {
  real forecast = alpha;
  for (k in 1:K)
    forecast += beta[k] * y[T + 1 - k];
}
