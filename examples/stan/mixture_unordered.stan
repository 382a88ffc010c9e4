// Mixture of two Gaussians on the line, exchangeable: every posterior point has a twin with the components' names swapped, so
// there are two modes of the same mass.
data {
  int<lower=1> N;
  real y[N];
}
parameters {
  real mu[2];
  real<lower=0> sigma[2];
  real<lower=0, upper=1> theta;
}
model {
  target += normal_lpdf(mu | 0, 2);
  target += normal_lpdf(sigma | 0, 2);
  target += beta_lpdf(theta | 5, 5);
  for (n in 1:N)
    target += log_mix(theta, normal_lpdf(y[n] | mu[1], sigma[1]), normal_lpdf(y[n] | mu[2], sigma[2]));
}
