// Measurements in houses of J counties: a level for each county, centred on a line in the county's soil content, and one effect
// of the floor on which was measured.
data {
  int<lower=1> N;
  int<lower=1> J;
  int<lower=1, upper=J> county[N];
  vector<lower=0, upper=1>[N] floor_measured;
  vector[J] soil;
  vector[N] log_radon;
}
parameters {
  real mu;
  real gamma;
  real beta;
  real<lower=0> tau;
  real<lower=0> sigma;
  vector[J] alpha;
}
model {
  mu ~ normal(0, 5);
  gamma ~ normal(0, 2);
  beta ~ normal(0, 2);
  tau ~ normal(0, 1);
  sigma ~ normal(0, 1);
  alpha ~ normal(mu + gamma * soil, tau);
  log_radon ~ normal(alpha[county] + beta * floor_measured, sigma);
}
generated quantities {
  real between = square(tau) / (square(tau) + square(sigma));
}
