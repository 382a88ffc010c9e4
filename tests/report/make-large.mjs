// make-large.mjs DIR D N DRAWS: the files of a made-up run of that size, without a checkpoint: D parameters, N particles.
import { mkdirSync, writeFileSync } from "node:fs";
const [dir, ...sizes] = process.argv.slice(2),
    [D, N, draws] = sizes.map(Number);
let state = 1;
const uniform = () => (state = (state * 48271) % 2147483647) / 2147483647;
const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
const many = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const short = (x) => Number(x.toFixed(5)),
    names = many(D, (i) => `theta[${i + 1}]`),
    estimate = { value: -123.4, se: 0.02 };
const particles = many(N, () => ({
    z: many(D, () => short(normal())),
    beta: 1 / N,
    beta_se: 0.001,
    weight: 1 / N,
    log_Z: -1,
    elbo: -125,
    elbo_se: 0.1,
    ess: 40,
    pareto_k: 0.3,
    mu: many(D, () => short(normal())),
    sd: many(D, () => 1),
}));
const run = {
    version: "0",
    command: "wvgd fit large",
    model: { name: "large", kind: "plugin", dim: D, names },
    options: { solver: "joint", cost: "mahalanobis", particles: N },
    stop: "converged",
    iterations: 9,
    evaluations: 99999,
    seconds: { total: 9, model: 5, engine: 4 },
    evidence: { pelbo: estimate, pelbo_beta: estimate, importance: estimate },
    distortion: estimate,
    diagnostics: { ess: 5000, closing_draws: 9000, pareto_k: 0.4, pareto_k_limit: 0.7, warnings: [] },
    verdict: { reliable: true, reasons: ["converged"] },
    modes: { starts: 20, found: 1, hit_once: 0, expected_unseen: 0.1 },
    components: [],
    particles,
    posterior: {
        names,
        ...Object.fromEntries(["mean", "sd", "mcse", "ess", "q5", "q50", "q95"].map((key, k) => [key, many(D, (i) => short(k === 0 ? i / 100 : 1))])),
    },
};
mkdirSync(dir, { recursive: true });
writeFileSync(`${dir}/run.json`, JSON.stringify(run));
writeFileSync(
    `${dir}/draws.csv`,
    [
        "# made up",
        ["lp__", "lp_approx__", "path__", "log_weight__", ...names.map((name) => `"${name}"`)].join(),
        ...many(draws, (i) => [-1, -1, (i % N) + 1, 0, ...many(D, () => short(normal()))].join()),
    ].join("\n") + "\n",
);
const trace = many(400, (i) => [i + 1, 100 * i, i / 10, -130 + i / 100, 50, 300, ...many(N, () => 1 / N), 0.2, 0.1].join());
writeFileSync(
    `${dir}/trace.csv`,
    ["iteration,evaluations,seconds,pelbo,distortion,ess," + many(N, (j) => `beta_${j + 1}`).join() + ",pelbo_se,step", ...trace].join("\n") + "\n",
);
const frames = many(20, (f) =>
    many(N, (j) => [f + 1, f, 100 * f, "fit", -130, 300, "particle", j + 1, 1 / N, ...many(D, () => short(normal()))].join()),
).flat();
writeFileSync(
    `${dir}/history.csv`,
    ["frame,iteration,evaluations,stage,pelbo,ess,kind,point,weight," + names.map((name) => `"${name}"`).join(), ...frames].join("\n") + "\n",
);
