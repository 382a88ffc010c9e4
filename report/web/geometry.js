// geometry.js - cells and ellipses in the plane of two coordinates a, b.
//
// The plane goes through the posterior mean m (in two dimensions it is everything): x(u, v) = m with u and v for coordinates a and b. Costs that are quadratic forms with one metric P cut
// it by straight lines: (x - z_j)' P (x - z_j) differs between particles by terms linear in u and v. Others are compared on a grid, whose cells are then outlined.
import { contours } from "d3";
import { cells, D } from "./data.js";

const GRID = 120;

// Keeps the side of the polygon where f is negative; f is linear.
function clip(polygon, f) {
    const out = [];
    for (let i = 0; i < polygon.length; i++) {
        const p = polygon[i],
            q = polygon[(i + 1) % polygon.length],
            fp = f(p),
            fq = f(q);
        if (fp <= 0) out.push(p);
        if (fp < 0 !== fq < 0 && fp !== fq) {
            const t = fp / (fp - fq);
            if (t > 0 && t < 1) out.push([p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])]);
        }
    }
    return out;
}

// cost_j(u, v) up to what all particles share: c + gu (u - m_a) + gv (v - m_b).
function linearCost(z, a, b) {
    const P = cells.metric,
        m = cells.mean;
    let c = 0,
        ga = 0,
        gb = 0;
    for (let i = 0; i < D; i++) {
        const d = m[i] - z[i];
        let row = 0;
        for (let k = 0; k < D; k++) row += P[i * D + k] * (m[k] - z[k]);
        c += d * row;
        if (i === a) ga = 2 * row;
        if (i === b) gb = 2 * row;
    }
    return { c: c - ga * m[a] - gb * m[b], ga, gb };
}

function straightCells(points, a, b, [x0, x1], [y0, y1]) {
    const costs = points.map((z) => linearCost(z, a, b));
    return costs.map((mine, j) => {
        let polygon = [
            [x0, y0],
            [x1, y0],
            [x1, y1],
            [x0, y1],
        ];
        for (let k = 0; k < costs.length && polygon.length; k++) {
            const other = costs[k],
                c = mine.c - other.c,
                ga = mine.ga - other.ga,
                gb = mine.gb - other.gb;
            if (k !== j && (c || ga || gb)) polygon = clip(polygon, ([u, v]) => c + ga * u + gb * v);
        }
        return { j, rings: polygon.length > 2 ? [polygon] : [] };
    });
}

// The outlines of where a field on a grid exceeds a threshold.
function outline(field, threshold, size, [x0, x1], [y0, y1]) {
    const [shape] = contours().size([size, size]).thresholds([threshold])(field);
    return shape.coordinates.flat().map((ring) => ring.map(([u, v]) => [x0 + (u / size) * (x1 - x0), y0 + (v / size) * (y1 - y0)]));
}

// The cost of a point in the plane as a function of (u, v), for the kinds that are no quadratic form with one metric.
function planeCost(z, j, a, b) {
    const m = cells.mean;
    if (cells.cost === "own") {
        const d = Float64Array.from(z, (x, i) => (i === a || i === b ? 0 : m[i] - x)),
            V = (i, k) => cells.own[(j * D + i) * D + k],
            half = cells.ownLogDet[j];
        let c = 0,
            ga = 0,
            gb = 0;
        for (let i = 0; i < D; i++) {
            let row = 0;
            for (let k = 0; k < D; k++) row += V(i, k) * d[k];
            c += d[i] * row;
            if (i === a) ga = 2 * row;
            if (i === b) gb = 2 * row;
        }
        return (u, v) => {
            const p = u - z[a],
                q = v - z[b];
            return (c + ga * p + gb * q + V(a, a) * p * p + 2 * V(a, b) * p * q + V(b, b) * q * q) / 2 + half;
        };
    }
    let rest = 0;
    for (let i = 0; i < D; i++) if (i !== a && i !== b) rest += Math.abs(m[i] - z[i]) ** cells.power;
    return (u, v) => rest + Math.abs(u - z[a]) ** cells.power + Math.abs(v - z[b]) ** cells.power;
}

// Where the least cost of the others exceeds that of the particle.
function gridCells(points, a, b, xs, ys) {
    const costs = points.map((z, j) => planeCost(z, j, a, b)),
        fields = points.map(() => new Float64Array(GRID * GRID)),
        here = new Float64Array(points.length);
    for (let i = 0; i < GRID * GRID; i++) {
        const u = xs[0] + (((i % GRID) + 0.5) / GRID) * (xs[1] - xs[0]),
            v = ys[0] + ((Math.floor(i / GRID) + 0.5) / GRID) * (ys[1] - ys[0]);
        let first = Infinity,
            second = Infinity;
        costs.forEach((cost, j) => {
            here[j] = cost(u, v);
            if (here[j] < first) [first, second] = [here[j], first];
            else if (here[j] < second) second = here[j];
        });
        fields.forEach((field, j) => (field[i] = (here[j] === first ? second : first) - here[j]));
    }
    return fields.map((field, j) => ({ j, rings: outline(field, 0, GRID, xs, ys) }));
}

function rasterCells(a, count) {
    const { size, lo, hi, cell } = cells.raster;
    const labels = a === 0 ? cell : Uint16Array.from(cell, (_, i) => cell[(i % size) * size + Math.floor(i / size)]);
    return Array.from({ length: count }, (_, j) => ({
        j,
        rings: outline(
            Float64Array.from(labels, (label) => (label === j ? 1 : 0)),
            0.5,
            size,
            [lo[a], hi[a]],
            [lo[1 - a], hi[1 - a]],
        ),
    }));
}

// Cells of the points in the rectangle: [{j, rings}], or null where they cannot be told. `final`: the points are the particles of the result.
export function findCells(points, a, b, xs, ys, final) {
    const told = final && D === 2 && cells.raster,
        known = cells.mean && (cells.cost === "l1" || cells.cost === "lp" || (cells.cost === "own" && cells.own && final));
    if (points.length < 2) return null;
    if (cells.metric && cells.mean && !(told && cells.agreement < 1)) return straightCells(points, a, b, xs, ys);
    if (known) return gridCells(points, a, b, xs, ys);
    return told ? rasterCells(a, points.length) : null;
}

// The curve where (x - mu)' C^-1 (x - mu) = scale^2, in the plane a, b.
function ellipse(mu, sd, r, a, b, scale) {
    const k = Math.sqrt(Math.max(0, 1 - r * r));
    return Array.from({ length: 65 }, (_, i) => {
        const t = (i / 64) * 2 * Math.PI,
            u = Math.cos(t),
            v = r * u + k * Math.sin(t);
        return [mu[a] + scale * sd[a] * u, mu[b] + scale * sd[b] * v];
    });
}

// The contour of a Gaussian `scale` sds away from its mean; empty: not known.
export function contour(p, a, b, scale) {
    const ring = p.contour ? p.contour(a, b, scale) : ellipse(p.mu, p.sd, p.correlation(a, b), a, b, scale);
    return ring.every((q) => Number.isFinite(q[0]) && Number.isFinite(q[1])) ? ring : [];
}

// Distances under the cost between all points: distance(j, k).
export function distances(points) {
    if (cells.metric) {
        const P = cells.metric,
            centred = points.map((z) => Float64Array.from(z, (x, i) => x - points[0][i]));
        const turned = centred.map((z) =>
            Float64Array.from(z, (_, i) => {
                let sum = 0;
                for (let k = 0; k < D; k++) sum += P[i * D + k] * z[k];
                return sum;
            }),
        );
        const inner = (j, k) => {
            let sum = 0;
            for (let i = 0; i < D; i++) sum += centred[j][i] * turned[k][i];
            return sum;
        };
        return (j, k) => Math.sqrt(Math.max(0, inner(j, j) - inner(j, k) - inner(k, j) + inner(k, k)));
    }
    const p = cells.cost === "l1" || cells.cost === "lp" ? cells.power : 2;
    return (j, k) => {
        let sum = 0;
        for (let i = 0; i < D; i++) sum += Math.abs(points[j][i] - points[k][i]) ** p;
        return sum ** (1 / p);
    };
}
