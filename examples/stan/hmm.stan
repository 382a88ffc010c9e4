// Hidden Markov chain of two states with Gaussian emissions; the states are summed out by the forward recursion, and the order
// of the means tells them apart. The chain starts in either state with probability 1/2.
data {
  int<lower=1> T;
  real y[T];
}
parameters {
  simplex[2] move[2];
  ordered[2] mu;
  real<lower=0> sigma;
}
transformed parameters {
  vector[2] last;
  for (k in 1:2)
    last[k] = log(0.5) + normal_lpdf(y[1] | mu[k], sigma);
  for (t in 2:T) {
    vector[2] next;
    for (k in 1:2)
      next[k] = log_sum_exp(last[1] + log(move[1, k]), last[2] + log(move[2, k])) + normal_lpdf(y[t] | mu[k], sigma);
    last = next;
  }
}
model {
  move[1] ~ dirichlet([4, 2]');
  move[2] ~ dirichlet([2, 4]');
  mu ~ normal(0, 3);
  sigma ~ normal(0, 1);
  target += log_sum_exp(last);
}
generated quantities {
  real share_second = move[1, 2] / (move[1, 2] + move[2, 1]);
}
