"""torch_peers.py - SVGD, and mean-field variational inference with Adam, in torch, with gradients by its autograd: what one would write with it.

    torch_peers.py svgd DATA.csv [--particles N] [--iterations T]
    torch_peers.py meanfield DATA.csv [--draws S] [--iterations T]

SVGD: RBF kernel, bandwidth by the median heuristic in every step, AdaGrad. Prints one line of JSON."""
import argparse
import sys
import time

import numpy as np
import torch
from posterior import errors, read_rows, tell


def log_density(X, w):
    return -torch.nn.functional.softplus(w @ X.T, threshold=1e9).sum(dim=1) - 0.5 * (w * w).sum(dim=1)


def svgd(X, a):
    generator = torch.Generator().manual_seed(a.seed)
    z = torch.randn(a.particles, X.shape[1], dtype=torch.float64, generator=generator)
    squares, n = torch.zeros_like(z), a.particles
    began = time.perf_counter()
    for _ in range(a.iterations):
        z.requires_grad_(True)
        g, = torch.autograd.grad(log_density(X, z).sum(), z)
        with torch.no_grad():
            z = z.detach()
            d2 = torch.cdist(z, z) ** 2
            h = torch.median(d2) / np.log(n)
            K = torch.exp(-d2 / h)
            phi = (K @ g + 2 / h * (z * K.sum(dim=1, keepdim=True) - K @ z)) / n
            squares += phi * phi
            z = z + 0.5 * phi / (1e-8 + squares.sqrt())
    seconds = time.perf_counter() - began
    return z.mean(dim=0).numpy(), z.std(dim=0).numpy(), seconds, n * a.iterations, None


def meanfield(X, a):
    """Looks at its errors every 100 steps, off the clock."""
    generator = torch.Generator().manual_seed(a.seed)
    D = X.shape[1]
    mu, rho = torch.zeros(D, dtype=torch.float64, requires_grad=True), torch.full((D,), -1.0, dtype=torch.float64, requires_grad=True)
    adam, seconds, reached = torch.optim.Adam([mu, rho], lr=0.02), 0.0, None
    for step in range(a.iterations):
        began = time.perf_counter()
        for group in adam.param_groups:
            group["lr"] = 0.02 * 0.5 ** (4 * step / a.iterations)
        e = torch.randn(a.draws, D, dtype=torch.float64, generator=generator)
        loss = -(log_density(X, mu + torch.exp(rho) * e).mean() + rho.sum())
        adam.zero_grad()
        loss.backward()
        adam.step()
        seconds += time.perf_counter() - began
        if step % 100 == 99 and reached is None and max(errors(mu.detach().numpy(), rho.detach().exp().numpy())) < 0.1:
            reached = {"seconds": seconds, "evaluations": (step + 1) * a.draws}
    return mu.detach().numpy(), rho.detach().exp().numpy(), seconds, a.draws * a.iterations, reached


def main():
    a = argparse.ArgumentParser()
    a.add_argument("method", choices=["svgd", "meanfield"])
    a.add_argument("data")
    a.add_argument("--particles", type=int, default=100)
    a.add_argument("--iterations", type=int, default=1000)
    a.add_argument("--draws", type=int, default=10)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--threads", type=int, default=1)
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    X = torch.from_numpy(read_rows(a.data))
    mean, sd, seconds, evaluations, reached = {"svgd": svgd, "meanfield": meanfield}[a.method](X, a)
    mean_error, sd_error = errors(mean, sd)
    tell(name="torch " + a.method, seconds=seconds, evaluations=evaluations, mean_error=mean_error, sd_error=sd_error, reached=reached, version="torch " + torch.__version__)


if __name__ == "__main__":
    sys.exit(main())
