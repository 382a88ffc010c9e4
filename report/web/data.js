// data.js - the data of the run, unpacked: base64 of little-endian numbers (report/pack.h) to typed arrays. NaN stands where there is no number.
import { bentContours, readMap } from "./bend.js";

const raw = JSON.parse(document.getElementById("data").textContent);

function bytes(text) {
    const binary = atob(text ?? ""),
        out = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
    return out;
}

const floats = (text) => new Float32Array(bytes(text).buffer);
const counts = (text) => new Uint16Array(bytes(text).buffer);

function levels(q, lo, hi) {
    const out = new Float32Array(q.length);
    for (let i = 0; i < q.length; i++) out[i] = q[i] === 65535 ? NaN : lo + ((hi - lo) * q[i]) / 65534;
    return out;
}

// A table packed column after column, unpacked one column at a time, when it is asked for.
function table(packed, rows) {
    if (!packed) return () => new Float32Array(0);
    const all = counts(packed.levels),
        ready = new Map();
    return (c) => {
        if (!ready.has(c)) ready.set(c, levels(all.subarray(c * rows, (c + 1) * rows), packed.lo[c], packed.hi[c]));
        return ready.get(c);
    };
}

const number = (x) => (typeof x === "number" ? x : NaN);
const list = (x) => (Array.isArray(x) ? x : []);
const estimate = (x) => ({ value: number(x?.value), se: number(x?.se) });

export const run = raw.run,
    notes = list(raw.notes),
    page = raw.page,
    dir = raw.dir,
    comparison = Array.isArray(raw.comparison) ? raw.comparison : null; // runs on one page, the best first; the rest of the data is then empty
export const transformed = raw.transformed === true;
export const coordinates = list(run.model?.names).map(String);
export const N = list(raw.particles?.beta).length,
    D = coordinates.length;
export const staged = list(raw.components?.weight).length > 0;

export const evidence = estimate(run.evidence?.importance),
    pelbo = estimate(run.evidence?.pelbo),
    pelboBeta = estimate(run.evidence?.pelbo_beta),
    distortion = estimate(run.distortion),
    gap = evidence.value - pelbo.value;
export const diagnostics = {
    ess: number(run.diagnostics?.ess),
    draws: number(run.diagnostics?.closing_draws),
    k: number(run.diagnostics?.pareto_k),
    limit: number(run.diagnostics?.pareto_k_limit),
    warnings: list(run.diagnostics?.warnings).map(String),
};
const names = list(run.posterior?.names).map(String);
export const modes = list(run.modes?.each).map((m) => ({
    mass: number(m?.mass),
    mass_se: number(m?.mass_se),
    particles: list(m?.particles)
        .map((j) => number(j) - 1)
        .filter((j) => j >= 0 && j < N),
    quantities: names.map((name, i) => ({ name, mean: number(list(m?.mean)[i]), sd: number(list(m?.sd)[i]) })),
}));
export const verdict = { reliable: run.verdict?.reliable === true, reasons: list(run.verdict?.reasons).map(String) };

// Quantities that are shown, and, where a model transforms its parameters, the coordinates of the fit behind them. `coordinate`: where particles have it.
const posterior = run.posterior ?? {};
export const quantities = list(posterior.names).map((name, i) => ({
    name: String(name),
    index: i,
    coordinate: transformed ? null : i,
    ...Object.fromEntries(["mean", "sd", "mcse", "ess", "sd_se", "q5", "q50", "q95"].map((key) => [key, number(posterior[key]?.[i])])),
    heavy: number(posterior.tail_k?.[i]) > number(run.diagnostics?.tail_k_limit), // its sd is unreliable or does not exist
}));

const n = number(raw.draws?.n) || 0;
const shown = table(raw.draws?.values, n),
    unconstrained = table(raw.draws?.coordinates, n);
export const draws = { n, of: number(raw.draws?.of) || 0, cell: counts(raw.draws?.cell) };
export const axes = [
    ...quantities.map((q) => ({ ...q, label: q.name, values: () => shown(q.index) })),
    ...(transformed && raw.draws?.coordinates
        ? coordinates.map((name, i) => ({ name, label: names.includes(name) ? `${name} (unconstrained)` : name, coordinate: i, values: () => unconstrained(i) }))
        : []),
];

const grid = number(raw.densities?.grid);
export function density(i, kind) {
    const curves = raw.densities?.[kind],
        lo = raw.densities?.lo?.[i],
        hi = raw.densities?.hi?.[i];
    if (!curves?.levels?.[i]) return null;
    const y = levels(counts(curves.levels[i]), 0, number(curves.top[i]));
    return Array.from(y, (value, g) => ({ x: lo + ((g + 0.5) * (hi - lo)) / grid, y: value }));
}

// ---- particles and components ----------------------------------------------------------------------------------------------------------
// Where Gaussians are those of bent coordinates, contours are curves in x: contour(a, b, scale); otherwise they are ellipses.
const bent = readMap(raw.bend?.map, D);
function shapes(o, count) {
    const mu = floats(o?.mu),
        root = o?.root === undefined ? null : floats(o.root),
        sd = floats(o?.sd),
        r = new Int8Array(bytes(o?.correlations).buffer),
        pairs = (D * (D - 1)) / 2,
        correlated = number(o?.correlated) || 0;
    const contour = (j) => (j < correlated && bent ? bentContours(bent, Float64Array.from(mu.subarray(j * D, (j + 1) * D)), root.subarray(j * D * D, (j + 1) * D * D), D) : () => []);
    return (j) => ({
        contour: root ? contour(j) : null,
        mu: mu.subarray(j * D, (j + 1) * D),
        sd: sd.subarray(j * D, (j + 1) * D),
        correlation: (a, b) => {
            const [i, k] = a > b ? [a, b] : [b, a],
                q = r[j * pairs + (i * (i - 1)) / 2 + k];
            return j < correlated && j < count && q !== -128 ? Math.sin((q / 127) * (Math.PI / 2)) : NaN;
        },
    });
}
const z = floats(raw.particles?.z),
    shapeOf = shapes(raw.particles, N);
export const particles = Array.from({ length: N }, (_, j) => ({
    j,
    name: `particle ${j + 1}`,
    z: z.subarray(j * D, (j + 1) * D),
    ...shapeOf(j),
    ...Object.fromEntries(
        ["beta", "beta_se", "weight", "log_Z", "elbo", "elbo_se", "ess", "pareto_k", "gain", "gain_se", "loss", "loss_se"].map((key) => [key, number(raw.particles[key]?.[j])]),
    ),
}));
const shownParticles = raw.particles?.shown ? floats(raw.particles.shown) : null;
// Where a particle lies on an axis; NaN: not known.
export const place = (p, axis) =>
    axis.coordinate !== null ? p.z[axis.coordinate] : shownParticles ? shownParticles[p.j * quantities.length + axis.index] : NaN;
const mixtureShape = shapes(raw.components, Infinity);
export const components = list(raw.components?.weight).map((weight, k) => ({ k, weight: number(weight), ...mixtureShape(k) }));

// ---- cells -------------------------------------------------------------------------------------------------------------------------------
const c = raw.cells ?? {};
export const cells = {
    cost: String(c.cost ?? "unknown"),
    power: number(c.power),
    metric: c.metric ? floats(c.metric) : null,
    agreement: number(c.agreement),
    mean: c.mean ? floats(c.mean) : null,
    own: c.own ? floats(c.own) : null,
    ownLogDet: c.own_log_det ? floats(c.own_log_det) : null,
    raster: c.raster ? { size: c.raster.size, lo: c.raster.lo, hi: c.raster.hi, cell: counts(c.raster.cell) } : null,
};

// ---- trace and history ---------------------------------------------------------------------------------------------------------------------
const columns = Object.fromEntries(list(raw.trace?.names).map((name, i) => [name, raw.trace.columns[i]]));
export const traceColumn = (name) => (Object.hasOwn(columns, name) ? floats(columns[name]) : null);

const weights = floats(raw.history?.weight),
    points = floats(raw.history?.z); // [rows][D]
let first = 0;
export const frames = list(raw.history?.frames).map((frame) => {
    const from = first;
    first += frame.n;
    return {
        ...frame,
        weight: weights.subarray(from, first),
        pelbo: number(frame.pelbo),
        ess: number(frame.ess),
        column: (i) => Float32Array.from({ length: frame.n }, (_, k) => points[(from + k) * D + i]),
        point: (k) => points.subarray((from + k) * D, (from + k + 1) * D),
    };
});

export const unpack = floats;
