// Effects of coaching in eight schools, non-centred: the same posterior of (mu, tau, theta) as eight_schools_centred.stan, in
// coordinates eta[j] = (theta[j] - mu) / tau that are independent of tau beforehand. The prior of tau is the upper half of a
// Cauchy density, not renormalised to the half line.
data {
  int<lower=0> J;
  real y[J];
  real<lower=0> sigma[J];
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] eta;
}
transformed parameters {
  vector[J] theta = mu + tau * eta;
}
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  eta ~ normal(0, 1);
  y ~ normal(theta, sigma);
}
generated quantities {
  real y_rep[J] = normal_rng(theta, sigma);
}
