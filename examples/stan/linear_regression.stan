// Linear regression with unknown noise; predictors are centred and scaled here, coefficients are reported in both units.
data {
  int<lower=1> N;
  int<lower=1> K;
  matrix[N, K] X;
  vector[N] y;
}
transformed data {
  vector[K] centre;
  vector[K] spread;
  matrix[N, K] Z;
  for (k in 1:K) {
    centre[k] = mean(X[, k]);
    spread[k] = sd(X[, k]);
    Z[, k] = (X[, k] - centre[k]) / spread[k];
  }
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(70, 20);
  beta ~ normal(0, 10);
  sigma ~ exponential(0.1);
  y ~ normal(alpha + Z * beta, sigma);
}
generated quantities {
  vector[K] slope = beta ./ spread;
  real y_rep[N] = normal_rng(alpha + Z * beta, sigma);
}
