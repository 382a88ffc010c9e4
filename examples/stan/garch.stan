// GARCH(1,1) of returns: the variance follows the last squared shock and itself. The bound of beta keeps it stationary.
data {
  int<lower=1> T;
  real y[T];
  real<lower=0> sigma1;
}
parameters {
  real mu;
  real<lower=0> omega;
  real<lower=0, upper=1> alpha;
  real<lower=0, upper=1 - alpha> beta;
}
transformed parameters {
  real persistence = alpha + beta;
}
model {
  real s = sigma1;
  mu ~ normal(0, 1);
  omega ~ normal(0, 1);
  y[1] ~ normal(mu, s);
  for (t in 2:T) {
    s = sqrt(omega + alpha * square(y[t - 1] - mu) + beta * square(s));
    y[t] ~ normal(mu, s);
  }
}
generated quantities {
  real sigma_next = sigma1;
  for (t in 2:(T + 1))
    sigma_next = sqrt(omega + alpha * square(y[t - 1] - mu) + beta * square(sigma_next));
}
