data {
  int<lower=0> n;
  int<lower=1> d;
  matrix[n, d] X;
  int<lower=0, upper=1> y[n];
}
parameters {
  vector[d] w;
}
model {
  w ~ normal(0, 1);
  y ~ bernoulli_logit_glm(X, 0, w);
}
