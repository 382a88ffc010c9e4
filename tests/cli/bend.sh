#!/bin/bash
# bend.sh WVGD SOURCE: a fit in bent coordinates is all in run.json: from the map there, and the components, the densities that draws.csv has follow; and the page of the run.
. "$(dirname "$0")/check.sh"
objects=$(dirname "$wvgd")/tests

python=$(command -v python3) || echo "skipped: there is no python3 to check the numbers"
cat >check.py <<'END_OF_PYTHON'
"""The log density of the ensemble at the draws, from run.json alone: log w_j - log Z_j + log N(u; mu_j, L_j L_j') - log |det dx/du| in cell j (docs/formats.md)."""
import csv, json, math, sys

run = json.load(open(sys.argv[1] + "/run.json"))
bend, D = run["bend"], run["model"]["dim"]
assert bend["particles"] == bend["components"] == "bent", bend
map, r = bend["map"], len(bend["map"]["arguments"])
assert r == bend["arguments"] > 0


def solve(A, y):
    """x of A x = y, and log |det A|."""
    n, log_det, rows = len(y), 0.0, [list(a) + [b] for a, b in zip(A, y)]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[p] = rows[p], rows[i]
        log_det += math.log(abs(rows[i][i]))
        for k in range(i + 1, n):
            f = rows[k][i] / rows[i][i]
            rows[k] = [a - f * b for a, b in zip(rows[k], rows[i])]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][k] * x[k] for k in range(i + 1, n))) / rows[i][i]
    return x, log_det


def row(o, w):
    """m and s."""
    t = [min(max(w[p - 1], -map["clip"]), map["clip"]) for p in o["parents"]]
    log_p = [sum(a * b for a, b in zip(o["precision"][k], [1] + t)) for k in (0, 1)]
    mu = [sum(a * b for a, b in zip(o["location"][k], [1] + t + [x * x - 1 for x in t])) for k in (0, 1)]
    top = max(log_p)
    log_sum = top + math.log(sum(math.exp(p - top) for p in log_p))
    m = sum(math.exp(p - log_sum) * a for p, a in zip(log_p, mu))
    return m, min(max(-log_sum / 2, -map["log_scale"]), map["log_scale"])


def line(o, u):
    """v and the slope."""
    if o is None:
        return u, 1.0
    n = len(o["value"])
    h, inside = (o["high"] - o["low"]) / (n - 1), min(max(u, o["low"]), o["high"])
    i = min(int((inside - o["low"]) / h), n - 2)
    b = (inside - o["low"]) / h - i
    a, (y0, y1), (m0, m1) = 1 - b, o["value"][i : i + 2], o["second"][i : i + 2]
    v = a * y0 + b * y1 + ((a**3 - a) * m0 + (b**3 - b) * m1) * h * h / 6
    slope = (y1 - y0) / h + ((3 * b * b - 1) * m1 - (3 * a * a - 1) * m0) * h / 6
    return v + slope * (u - inside), slope


def back(o, v):
    """u of a line, by halving."""
    low, high = -1e3, 1e3
    while high - low > 1e-13 * (1 + abs(low)):
        u = (low + high) / 2
        if u in (low, high):
            break
        low, high = (u, high) if line(o, u)[0] < v else (low, u)
    return (low + high) / 2


def undo(rows, w, values):
    """Values before these rows, and the sum of their log scales."""
    places = [row(o, w) for o in rows]
    return [(x - m) * math.exp(-s) for x, (m, s) in zip(values, places)], sum(s for m, s in places)


def undo_affine(o, w, v):
    """v before the affine layer, and its log determinant."""
    if o is None:
        return v, 0
    phi, n = [1.0], len(v)
    for j in o["parents"]:
        s = w[j - 1] / math.sqrt(1 + (w[j - 1] / o["reach"]) ** 2)
        phi += [s, s * s - 1]
    at = [[sum(p * q[i][k] for p, q in zip(phi, o["slices"])) for k in range(n + 1)] for i in range(n)]
    y = []
    for i in range(n):
        y.append((v[i] - at[i][n] - sum(at[i][k] * y[k] for k in range(i))) * math.exp(-at[i][i]))
    return y, sum(at[i][i] for i in range(n))


def inverse(x):
    """u and log |det dx/du|."""
    w, log_det = solve(map["basis"], [a - c for a, c in zip(x, map["centre"])])
    first, total = undo(map["arguments"], w, w[:r])
    v = w[r:]
    for layer in reversed(map["layers"]):
        T = layer.get("turn")
        v = v if T is None else [sum(T[i][k] * v[i] for i in range(D - r)) for k in range(D - r)]
        v, s = undo(layer["rows"], w, v)
        v = v if T is None else [sum(T[i][k] * v[k] for k in range(D - r)) for i in range(D - r)]
        total += s
    v, s = undo_affine(map["affine"], w, v)
    total += s
    u = [back(o, y) for o, y in zip(map["lines"], first + v)]
    return u, log_det + total + sum(math.log(line(o, y)[1]) for o, y in zip(map["lines"], u))


lines = [l for l in open(sys.argv[1] + "/draws.csv") if not l.startswith("#")]
draws, worst, wide = list(csv.DictReader(lines))[:200], 0.0, 0.0
for d in draws:
    u, log_det = inverse([float(d[name]) for name in run["model"]["names"]])
    p = run["particles"][int(d["path__"]) - 1]
    y, log_root = solve(p["chol"], [a - b for a, b in zip(u, p["mu"])])
    log_q = math.log(p["weight"]) - p["log_Z"] - sum(a * a for a in y) / 2 - D / 2 * math.log(2 * math.pi) - log_root - log_det
    worst = max(worst, abs(log_q - float(d["lp_approx__"])))
    wide = max(wide, abs(log_det))
assert len(draws) == 200 and wide > 0.5, (len(draws), wide)
assert worst < 1e-7, worst
END_OF_PYTHON

for model in hierarchy.so banana.so; do
    case $model in banana.so) path=$(dirname "$wvgd")/examples/$model ;; *) path=$objects/$model ;; esac
    [ -e "$path" ] || { echo "skipped: there is no $model" && continue; }
    expect 0 anything "$wvgd" fit "$path" --particles 5 --seed 3 --quiet --out bent --overwrite
    [ -z "$python" ] || $python check.py bent || complain "$model: run.json does not give the densities of the draws"
done

# ---- other families: components are Gaussians in x; there may be more cells than the fit began with ----------------------------------------
for family in diag lowrank; do
    [ -e "$objects/hierarchy.so" ] || continue
    expect 0 anything "$wvgd" fit "$objects/hierarchy.so" --family $family --seed 3 --quiet --out straight --overwrite
    expect 0 anything "$wvgd" sample straight -n 10 --out more.csv --overwrite
    expect 0 anything "$wvgd" quantize straight --particles 2 --trust-model --out fewer --overwrite
done

# ---- a run.json without what belongs there -----------------------------------------------------------------------------------------------
if [ -n "$python" ] && "$wvgd" report bent >stdout 2>stderr; then
    for harm in 'r.pop("bend")' 'r.update(bend=3)' 'r["bend"].pop("map")' 'r["bend"].update(map="x", particles=[])' 'r["bend"]["map"].clear()' 'r["particles"][0].update(chol=[[1]], mu=None)'; do
        rm -rf part && cp -r bent part
        $python -c "import json; r = json.load(open('bent/run.json')); $harm; json.dump(r, open('part/run.json', 'w'))"
        expect 0 silence "$wvgd" report part
    done
    $python -c "import json; r = json.load(open('bent/run.json')); r['bend'].pop('map'); json.dump(r, open('part/run.json', 'w'))"
    expect 0 silence "$wvgd" report part
    grep -qF 'run.json has no map of bent coordinates: no contours of components' part/report.html || complain "the page does not say that the map is missing"
fi
finish
