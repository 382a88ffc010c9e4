// Gaussian process regression, squared exponential covariance: the function is integrated out, what is left are amplitude alpha,
// length rho and noise sigma. The predictive mean at a new place is a function of these.
data {
  int<lower=1> N;
  real x[N];
  vector[N] y;
  real x_new[1];
}
parameters {
  real<lower=0> rho;
  real<lower=0> alpha;
  real<lower=0> sigma;
}
model {
  matrix[N, N] L;
  {
    matrix[N, N] C = cov_exp_quad(x, alpha, rho);
    for (n in 1:N)
      C[n, n] += square(sigma) + 1e-9;
    L = cholesky_decompose(C);
  }
  rho ~ inv_gamma(5, 5);
  alpha ~ normal(0, 2);
  sigma ~ normal(0, 1);
  y ~ multi_normal_cholesky(rep_vector(0, N), L);
}
generated quantities {
  real f_new;
  {
    matrix[N, N] C = cov_exp_quad(x, alpha, rho);
    for (n in 1:N)
      C[n, n] += square(sigma) + 1e-9;
    f_new = (cov_exp_quad(x_new, x, alpha, rho) * (C \ y))[1];
  }
}
