// Hares and lynxes: prey u and predators v follow du/dt = (a - b v) u, dv/dt = (d u - c) v; both are seen with multiplicative error.
functions {
  real[] growth(real t, real[] z, real[] rate, real[] x_r, int[] x_i) {
    real dz[2];
    dz[1] = (rate[1] - rate[2] * z[2]) * z[1];
    dz[2] = (rate[4] * z[1] - rate[3]) * z[2];
    return dz;
  }
}
data {
  int<lower=1> N;
  real t[N];
  real<lower=0> y_init[2];
  real<lower=0> y[N, 2];
}
transformed data {
  real none_r[0];
  int none_i[0];
}
parameters {
  real<lower=0> rate[4];
  real<lower=0> z_init[2];
  real<lower=0> sigma[2];
}
transformed parameters {
  real z[N, 2] = integrate_ode_rk45(growth, z_init, 0, t, rate, none_r, none_i, 1e-6, 1e-5, 1000);
}
model {
  rate[1] ~ normal(1, 0.5);
  rate[2] ~ normal(0.05, 0.05);
  rate[3] ~ normal(1, 0.5);
  rate[4] ~ normal(0.05, 0.05);
  z_init ~ lognormal(log(10), 1);
  sigma ~ lognormal(-1, 1);
  for (k in 1:2) {
    y_init[k] ~ lognormal(log(z_init[k]), sigma[k]);
    y[, k] ~ lognormal(log(z[, k]), sigma[k]);
  }
}
generated quantities {
  real y_rep[N, 2];
  for (k in 1:2)
    y_rep[, k] = lognormal_rng(log(z[, k]), sigma[k]);
}
