// Poisson regression with a log link.
data {
  int<lower=1> N;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=0> y[N];
}
parameters {
  real alpha;
  vector[K] beta;
}
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 2);
  y ~ poisson_log(alpha + X * beta);
}
generated quantities {
  vector[N] log_lik;
  int y_rep[N];
  for (n in 1:N) {
    real eta = alpha + X[n] * beta;
    log_lik[n] = poisson_log_lpmf(y[n] | eta);
    y_rep[n] = eta < 20 ? poisson_log_rng(eta) : -1;
  }
}
