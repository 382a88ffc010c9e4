// bend.js - the map x = f(u) from bent coordinates, as run.json has it (docs/formats.md), and contours of Gaussians of u in x.
const refuse = (what) => {
    throw new Error(what);
};
const list = (x, n) => (Array.isArray(x) && x.length === n ? x : refuse("length"));
const numbers = (x, n) => (list(x, n).every(Number.isFinite) ? Float64Array.from(x) : refuse("numbers"));
const matrix = (x, n) => list(x, n).map((row) => numbers(row, n));

function readLine(o) {
    if (o === null) return (u) => u;
    const n = o.value?.length,
        value = numbers(o.value, n),
        second = numbers(o.second, n),
        { low, high } = o;
    if (!(n > 1 && low < high)) refuse("line");
    const h = (high - low) / (n - 1);
    return (u) => {
        const inside = Math.min(Math.max(u, low), high),
            i = Math.min(Math.floor((inside - low) / h), n - 2),
            b = (inside - low) / h - i,
            a = 1 - b,
            v = a * value[i] + b * value[i + 1] + (((a ** 3 - a) * second[i] + (b ** 3 - b) * second[i + 1]) * h * h) / 6,
            slope = (value[i + 1] - value[i]) / h + (((3 * b * b - 1) * second[i + 1] - (3 * a * a - 1) * second[i]) * h) / 6;
        return v + slope * (u - inside);
    };
}

// A row: what becomes of v at the arguments w.
function readRow(o, most, clip, logScale) {
    const n = o.parents?.length,
        parents = numbers(o.parents, n).map((p) => (Number.isInteger(p) && p >= 1 && p <= most ? p - 1 : refuse("parent"))),
        precision = list(o.precision, 2).map((x) => numbers(x, 1 + n)),
        location = list(o.location, 2).map((x) => numbers(x, 1 + 2 * n));
    return (w, v) => {
        const log = [0, 0],
            mu = [0, 0];
        for (const k of [0, 1]) {
            log[k] = precision[k][0];
            mu[k] = location[k][0];
            for (let i = 0; i < n; i++) {
                const t = Math.min(Math.max(w[parents[i]], -clip), clip);
                log[k] += precision[k][1 + i] * t;
                mu[k] += location[k][1 + i] * t + location[k][1 + n + i] * (t * t - 1);
            }
        }
        const top = Math.max(...log),
            sum = top + Math.log(Math.exp(log[0] - top) + Math.exp(log[1] - top)),
            m = Math.exp(log[0] - sum) * mu[0] + Math.exp(log[1] - sum) * mu[1];
        return m + Math.exp(Math.min(Math.max(-sum / 2, -logScale), logScale)) * v;
    };
}

const times = (T, x) => Float64Array.from(x, (_, i) => T[i].reduce((sum, t, k) => sum + t * x[k], 0)),
    timesTransposed = (T, x) => Float64Array.from(x, (_, i) => x.reduce((sum, v, k) => sum + T[k][i] * v, 0));

function read(map, D) {
    const r = map.arguments.length,
        clip = numbers([map.clip], 1)[0],
        logScale = numbers([map.log_scale], 1)[0],
        lines = list(map.lines, D).map(readLine),
        first = map.arguments.map((o, i) => readRow(o, i, clip, logScale)),
        layers = map.layers.map((layer) => ({
            turn: layer.turn === undefined ? null : matrix(layer.turn, D - r),
            rows: list(layer.rows, D - r).map((o) => readRow(o, r, clip, logScale)),
        })),
        centre = numbers(map.centre, D),
        basis = matrix(map.basis, D);
    return (u) => {
        const v = lines.map((line, i) => line(u[i])),
            w = new Float64Array(D);
        let rest = Float64Array.from(v.slice(r));
        first.forEach((row, i) => (w[i] = row(w, v[i])));
        for (const { turn, rows } of layers) {
            const seen = turn ? timesTransposed(turn, rest) : rest,
                next = seen.map((value, i) => rows[i](w, value));
            rest = turn ? times(turn, next) : next;
        }
        w.set(rest, r);
        return times(basis, w).map((x, i) => centre[i] + x);
    };
}

// f, or null where the map is not as it should be.
export function readMap(map, D) {
    try {
        return map ? read(map, D) : null;
    } catch {
        return null;
    }
}

// A Gaussian of u, mean mu[D] and root[D][D], through f: contour(a, b, scale) is the image of a circle of this radius. The circle lies where the two coordinates change at the mean; in two
// dimensions it is all there is, and without a bend its image is the ellipse of the two.
export function bentContours(f, mu, root, D) {
    const points = 200,
        step = 1e-4;
    let slopes = null; // [D][D] of x by the whitened u, at the mean; column after column
    const at = (y) => f(mu.map((m, i) => m + y.reduce((sum, v, k) => (k <= i ? sum + root[i * D + k] * v : sum), 0)));
    const find = () =>
        Array.from({ length: D }, (_, k) => {
            const up = at(Float64Array.from({ length: D }, (_, i) => (i === k ? step : 0))),
                down = at(Float64Array.from({ length: D }, (_, i) => (i === k ? -step : 0)));
            return up.map((x, i) => (x - down[i]) / (2 * step));
        });
    const dot = (p, q) => p.reduce((sum, x, i) => sum + x * q[i], 0),
        unit = (p, least) => {
            const size = Math.sqrt(dot(p, p));
            return p.map((x) => (size > least ? x / size : 0));
        };
    return (a, b, scale) => {
        slopes ??= find();
        const p = slopes.map((column) => column[a]),
            q = slopes.map((column) => column[b]),
            first = unit(p, 0),
            along = dot(q, first),
            second = unit(
                q.map((x, i) => x - along * first[i]),
                1e-9 * Math.sqrt(dot(q, q)),
            );
        return Array.from({ length: points + 1 }, (_, i) => {
            const t = (i / points) * 2 * Math.PI,
                x = at(Float64Array.from(first, (_, k) => scale * (Math.cos(t) * first[k] + Math.sin(t) * second[k])));
            return [x[a], x[b]];
        });
    };
}
