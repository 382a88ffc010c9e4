// Logistic regression on centred and scaled predictors.
data {
  int<lower=1> N;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=0, upper=1> y[N];
}
transformed data {
  matrix[N, K] Z;
  for (k in 1:K)
    Z[, k] = (X[, k] - mean(X[, k])) / sd(X[, k]);
}
parameters {
  real alpha;
  vector[K] beta;
}
model {
  alpha ~ normal(0, 2.5);
  beta ~ normal(0, 2.5);
  y ~ bernoulli_logit(alpha + Z * beta);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N)
    log_lik[n] = bernoulli_logit_lpmf(y[n] | alpha + Z[n] * beta);
}
