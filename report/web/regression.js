// regression.js - what a regression makes of its rows: weights, calibration or residuals, replicated responses, effects of columns.
import * as Plot from "@observablehq/plot";
import { page, particles, quantities, run, unpack, transformed } from "./data.js";
import { count, fixed, figure, format, h } from "./dom.js";
import { colour, ensembleColour, posteriorColour, symbol, tagged } from "./look.js";
import { plot } from "./marks.js";

const response = () => String(run.model?.target ?? "y");
const explained = () => (page.shares ? `share of ${cut(response())}` : cut(response())); // successes are shown as shares of the trials
const someRows = (n) => `${count(n)}${page.rows > n ? ` of ${count(page.rows)}` : ""} rows`;

// ---- weights, and calibration of labels ----------------------------------------------------------------------------------------------------------
const WEIGHTS = 30;

function weights() {
    const order = quantities
        .filter((q) => Number.isFinite(q.mean) && !/^((log_)?sigma|nu|shape)$/.test(q.name) && (page.standardized || q.name !== "intercept"))
        .sort((p, q) => Math.abs(q.mean) / (q.sd || 1) - Math.abs(p.mean) / (p.sd || 1)),
        shown = order.slice(0, WEIGHTS);
    const dots = transformed
        ? []
        : shown.flatMap((q) => particles.map((p) => ({ name: q.name, x: p.z[q.coordinate], j: p.j }))).filter((d) => Number.isFinite(d.x));
    return figure(
        `Weights${page.standardized ? " of standardized features" : ""}: posterior mean (dot) and 5 to 95 % interval (line), sorted by how clear their sign is${order.length > WEIGHTS ? ` (${WEIGHTS} of ${count(order.length)})` : ""}${dots.length ? "; small marks: the particles" : ""}. ${page.standardized ? "" : "Features have different units, so weights cannot be compared in size."}`,
        (width) =>
            plot({
                width,
                height: 60 + 19 * shown.length,
                marginLeft: Math.min(220, 30 + 6.4 * Math.max(...shown.map((q) => q.name.length), 4)),
                marginTop: 8,
                marginBottom: 44,
                ariaLabel: "Weights",
                x: { label: `change of ${{ bernoulli: "the log odds", binomial: "the log odds", poisson: "the log mean", negbinomial: "the log mean" }[run.model?.likelihood] ?? (page.binary ? "the log odds" : cut(response()))} for one ${page.standardized ? "sd" : "unit"} of the feature`, labelAnchor: "center", grid: true },
                y: {
                    label: null,
                    domain: shown.map((q) => q.name),
                    tickFormat: (name) => (name.length > 30 ? name.slice(0, 29) + "\u2026" : name),
                    tickSize: 0,
                },
                marks: [
                    Plot.ruleX([0], { strokeOpacity: 0.6 }),
                    Plot.ruleY(shown, { y: "name", x1: "q5", x2: "q95", strokeWidth: 2.5, stroke: posteriorColour }),
                    Plot.dot(dots, {
                        y: "name",
                        x: "x",
                        r: 2.6,
                        fill: (d) => colour(d.j),
                        symbol: (d) => symbol(d.j),
                        dy: 5.5,
                        render: tagged(dots, (d) => d.j),
                    }),
                    Plot.dot(shown, {
                        y: "name",
                        x: "mean",
                        r: 4,
                        fill: posteriorColour,
                        stroke: "var(--paper)",
                        title: (q) => `${q.name}: ${fixed(q.mean, 3)} (sd ${fixed(q.sd, 3)})`,
                    }),
                ],
            }),
    );
}

// Rows in ten groups by probability: how often y = 1, with Wilson's 95 % interval.
function bins(p, y) {
    const groups = Array.from({ length: 10 }, () => ({ n: 0, mean: 0, seen: 0 }));
    p.forEach((value, i) => {
        if (!Number.isFinite(value)) return;
        const g = groups[Math.min(9, Math.floor(10 * value))];
        g.n++;
        g.mean += value;
        g.seen += y[i];
    });
    return groups
        .filter((g) => g.n)
        .map(({ n, mean, seen }) => {
            const share = seen / n,
                z2 = 1.96 ** 2,
                middle = (share + z2 / (2 * n)) / (1 + z2 / n),
                half = (1.96 / (1 + z2 / n)) * Math.sqrt((share * (1 - share)) / n + z2 / (4 * n * n));
            return { n, mean: mean / n, seen: share, lo: Math.max(0, middle - half), hi: Math.min(1, middle + half) };
        });
}

const cut = (name) => (name.length > 12 ? name.slice(0, 11) + "\u2026" : name);

// What the response is where y is 0 or 1: its label, or the name of the target with the number.
function outcome(y) {
    const { target, labels } = run.model ?? {};
    return `${cut(target ?? "y")} = ${cut(labels?.[y] ?? String(y))}`;
}

function calibration() {
    const p = unpack(page.p),
        y = unpack(page.y),
        groups = bins(p, y),
        n = p.length;
    let brier = 0,
        logScore = 0;
    for (let i = 0; i < n; i++) {
        brier += (p[i] - y[i]) ** 2 / n;
        logScore -= Math.log(Math.max(y[i] ? p[i] : 1 - p[i], 1e-12)) / n;
    }
    const histogram = Array.from(p, (value, i) => ({ p: value, y: outcome(y[i] ? 1 : 0) }));
    return [
        figure(
            "Calibration on the fitted data: ten groups of rows by predicted probability; areas show their sizes, bars 95 % intervals of the observed frequency. On the diagonal, predictions are right on average.",
            (width) => {
                const size = Math.min(width, 430);
                return plot({
                    width: size,
                    height: size * 0.92,
                    marginLeft: 52,
                    marginBottom: 44,
                    ariaLabel: "Calibration",
                    grid: true,
                    r: { range: [2.5, 12] },
                    x: { label: `predicted probability of ${outcome(1)}`, domain: [0, 1], labelAnchor: "center", ticks: 6 },
                    y: { label: "observed frequency", domain: [0, 1], labelAnchor: "center", ticks: 6 },
                    marks: [
                        Plot.line(
                            [
                                [0, 0],
                                [1, 1],
                            ],
                            { strokeDasharray: "5,3", strokeOpacity: 0.6 },
                        ),
                        Plot.ruleX(groups, { x: "mean", y1: "lo", y2: "hi", stroke: posteriorColour, strokeWidth: 1.8 }),
                        Plot.dot(groups, {
                            x: "mean",
                            y: "seen",
                            r: "n",
                            fill: posteriorColour,
                            stroke: "var(--paper)",
                            title: (g) => `${g.n} rows: predicted ${fixed(g.mean, 3)}, observed ${fixed(g.seen, 3)}`,
                        }),
                    ],
                });
            },
            { class: "medium" },
        ),
        figure(
            `Predicted probabilities of ${count(n)}${page.rows > n ? ` of ${count(page.rows)}` : ""} rows. Brier score ${fixed(brier, 4)}, mean log loss ${fixed(logScore, 4)} nats.`,
            (width) =>
                plot({
                    width,
                    height: 300,
                    marginLeft: 52,
                    marginRight: 24 + 6.4 * Math.max(outcome(0).length, outcome(1).length),
                    marginBottom: 44,
                    ariaLabel: "Predicted probabilities",
                    x: { label: `predicted probability of ${outcome(1)}`, domain: [0, 1], labelAnchor: "center" },
                    y: { label: "rows", grid: true, labelAnchor: "center" },
                    fy: { label: null },
                    color: { domain: [outcome(0), outcome(1)], range: [ensembleColour, posteriorColour] },
                    marks: [Plot.rectY(histogram, Plot.binX({ y: "count" }, { x: "p", fy: "y", fill: "y", thresholds: 20 })), Plot.ruleY([0])],
                }),
            { class: "medium" },
        ),
    ];
}

// Means of residuals among neighbours, a tenth of the rows at a time; rows with the same prediction stay together.
function trend(sorted) {
    const groups = [],
        least = Math.max(5, Math.round(sorted.length / 10));
    for (const d of sorted) {
        const last = groups[groups.length - 1];
        if (last && last.mean === d.mean) {
            last.n++;
            last.off += d.off;
        } else groups.push({ mean: d.mean, n: 1, off: d.off });
    }
    return groups.flatMap((_, first) => {
        let n = 0,
            x = 0,
            y = 0;
        for (let g = first; g < groups.length && n < least; g++) {
            n += groups[g].n;
            x += groups[g].n * groups[g].mean;
            y += groups[g].off;
        }
        return n < least ? [] : [{ x: x / n, y: y / n }];
    });
}

// ---- residuals of numbers -------------------------------------------------------------------------------------------------------------------------
function residuals() {
    const p = unpack(page.p),
        y = unpack(page.y),
        lower = unpack(page.lower),
        upper = unpack(page.upper),
        rows = Array.from(p, (mean, i) => ({ mean, y: y[i], off: y[i] - mean, lower: lower[i], upper: upper[i], inside: y[i] >= lower[i] && y[i] <= upper[i] })).filter((d) => Number.isFinite(d.off)),
        inside = rows.filter((d) => d.inside).length / rows.length,
        tooFew = inside < 0.9 - 3 * Math.sqrt((0.9 * 0.1) / rows.length),
        square = Math.sqrt(rows.reduce((s, d) => s + d.off ** 2, 0) / rows.length),
        sorted = [...rows].sort((a, b) => a.mean - b.mean);
    const dots = (key) => [
        Plot.dot(rows, { x: "mean", y: key, r: 2.4, fill: (d) => (d.inside ? posteriorColour : ensembleColour), fillOpacity: 0.65, title: (d) => `observed ${format(d.y, 4)}, predicted ${format(d.mean, 4)}, 90 % interval ${format(d.lower, 4)} to ${format(d.upper, 4)}` }),
    ];
    return [
        figure(
            `Observed against predicted ${explained()}, ${someRows(rows.length)}. Lines: intervals that should contain 90 % of the observations${run.data?.discrete ? " (small counts: more)" : ""}; they contain ${fixed(100 * inside, 1)} %${tooFew ? ", too few: the observations vary more than this model allows" : ""}. Observations outside have another colour.`,
            (width) =>
                plot({
                    width,
                    height: Math.min(width * 0.9, 400),
                    marginLeft: 66,
                    marginBottom: 44,
                    grid: true,
                    inset: 6,
                    ariaLabel: "Observed and predicted",
                    x: { label: `predicted ${explained()}`, labelAnchor: "center" },
                    y: { label: `observed ${explained()}`, labelAnchor: "center" },
                    marks: [
                        Plot.ruleX(rows.length > 300 ? [] : rows, { x: "mean", y1: "lower", y2: "upper", stroke: posteriorColour, strokeOpacity: 0.2 }),
                        ...(rows.length > 300 ? [Plot.lineY(sorted, { x: "mean", y: "lower", stroke: posteriorColour, strokeOpacity: 0.35 }), Plot.lineY(sorted, { x: "mean", y: "upper", stroke: posteriorColour, strokeOpacity: 0.35 })] : []),
                        Plot.line(
                            [sorted[0]?.mean, sorted.at(-1)?.mean].map((x) => [x, x]),
                            { strokeDasharray: "5,3", strokeOpacity: 0.7 },
                        ),
                        ...dots("y"),
                    ],
                }),
            { class: "medium" },
        ),
        figure(
            `Residuals, observed minus predicted; root mean square ${format(square, 3)}. The line is their mean among neighbours: if it bends away from 0, the model misses a curve${run.data?.discrete ? `. ${page.shares ? "Shares of few trials" : "Large counts"} vary more than others` : "; if the dots fan out, the noise is not constant"}.`,
            (width) =>
                plot({
                    width,
                    height: Math.min(width * 0.9, 400),
                    marginLeft: 66,
                    marginBottom: 44,
                    grid: true,
                    inset: 6,
                    ariaLabel: "Residuals",
                    x: { label: `predicted ${explained()}`, labelAnchor: "center" },
                    y: { label: "residual", labelAnchor: "center" },
                    marks: [Plot.ruleY([0], { strokeDasharray: "5,3", strokeOpacity: 0.7 }), ...dots("off"), Plot.lineY(trend(sorted), { x: "x", y: "y", stroke: "currentColor", strokeWidth: 1.8 })],
                }),
            { class: "medium" },
        ),
    ];
}

// ---- responses drawn anew -------------------------------------------------------------------------------------------------------------------------
function overlay() {
    const { lo, hi, density, densities } = page.replicated,
        curve = (packed) => [...unpack(packed)].map((y, g, all) => ({ x: lo + ((g + 0.5) * (hi - lo)) / all.length, y }));
    if (!density) return null;
    return figure(
        `Would the model make data like these? Dark: the density of the observed ${cut(response())}. Thin: densities of ${count(densities.length)} data sets that draws from the posterior predict for the same rows.`,
        (width) =>
            plot({
                width,
                height: 300,
                marginLeft: 66,
                marginBottom: 44,
                ariaLabel: "Posterior predictive check",
                x: { label: response(), labelAnchor: "center" },
                y: { label: "density", grid: true, labelAnchor: "center" },
                marks: [
                    ...densities.map((d) => Plot.lineY(curve(d), { x: "x", y: "y", stroke: posteriorColour, strokeOpacity: 0.35, strokeWidth: 0.9 })),
                    Plot.lineY(curve(density), { x: "x", y: "y", stroke: "currentColor", strokeWidth: 2.4 }),
                ],
            }),
        { class: "medium" },
    );
}

// Beyond all but 2.5 % of the replicated data sets, on either side.
const strange = (s) => s.above < 0.025 || s.above > 0.975;

function statistics() {
    const list = page.replicated.statistics ?? [],
        odd = list.filter(strange).map((s) => s.name);
    return h(
        "div",
        { class: "medium" },
        h(
            "table",
            { id: "replicated", class: "numbers" },
            h("thead", {}, h("tr", {}, ["", "observed", "5 %", "50 %", "95 %", "greater"].map((text) => h("th", { scope: "col" }, text)))),
            h(
                "tbody",
                {},
                list.map((s) =>
                    h("tr", {}, h("th", { scope: "row" }, s.name), [s.observed, s.q5, s.q50, s.q95].map((x) => h("td", {}, format(x ?? NaN, 4))), h("td", {}, `${fixed(100 * s.above, 1)} %${strange(s) ? " !" : ""}`)),
                ),
            ),
        ),
        h("p", { class: "quiet" }, "The observed value, and quantiles over the replicated data sets. Last column: the share of data sets with a greater value (ties count half)."),
        h(
            "p",
            { class: "quiet" },
            odd.length
                ? `The model rarely makes data with such a ${odd.join(" or ")}: look for outliers, a missing term or another likelihood.`
                : "These statistics of the observed values are typical of data from this model.",
        ),
    );
}

function bars() {
    const groups = (page.replicated.groups ?? []).map((g, i) => ({ ...g, name: `${i + 1}` })),
        outside = groups.filter((g) => g.observed < g.q5 || g.observed > g.q95).length;
    if (!groups.length) return null;
    return figure(
        `Would the model make data like these? Rows in ${groups.length} groups by predicted probability, low to high. Bars: rows with ${outcome(1)}. Lines: 90 % intervals over data sets that draws from the posterior predict for the same rows. Observed counts outside: ${outside} of ${groups.length}; one is normal.`,
        (width) =>
            plot({
                width,
                height: 300,
                marginLeft: 66,
                marginBottom: 44,
                ariaLabel: "Posterior predictive check",
                x: { label: "group by predicted probability", domain: groups.map((g) => g.name), labelAnchor: "center" },
                y: { label: `rows with ${outcome(1)}`, grid: true, labelAnchor: "center" },
                marks: [
                    Plot.barY(groups, { x: "name", y: "observed", fill: ensembleColour, fillOpacity: 0.55, title: (g) => `${count(g.rows)} rows, probability ${fixed(g.lo, 3)} to ${fixed(g.hi, 3)}: observed ${count(g.observed)}, predicted ${fixed(g.q5, 0)} to ${fixed(g.q95, 0)}` }),
                    Plot.ruleX(groups, { x: "name", y1: "q5", y2: "q95", stroke: posteriorColour, strokeWidth: 3 }),
                    Plot.dot(groups, { x: "name", y: "q50", fill: posteriorColour, stroke: "var(--paper)", r: 4 }),
                    Plot.ruleY([0]),
                ],
            }),
        { class: "medium" },
    );
}

// ---- effects --------------------------------------------------------------------------------------------------------------------------------------
const SHOWN_EFFECTS = 12;

function effects() {
    const size = (e) => Math.max(...e.points.map((d) => d.mean)) - Math.min(...e.points.map((d) => d.mean)),
        all = (page.effects ?? []).filter((e) => e.points.length > 1).sort((a, b) => size(b) - size(a)),
        shown = all.slice(0, SHOWN_EFFECTS),
        range = [Math.min(...shown.flatMap((e) => e.points.map((d) => d.q5))), Math.max(...shown.flatMap((e) => e.points.map((d) => d.q95)))],
        label = page.binary ? `P(${outcome(1)})` : `${page.shares ? "" : "mean "}${explained()}`;
    if (!shown.length) return [];
    const named = (e, d) => (e.kind === "categorical" ? d.level : e.kind === "boolean" ? (d.x ? "yes" : "no") : d.x);
    const panel = (e) =>
        figure(
            null,
            (width) =>
                plot({
                    width,
                    height: 210,
                    marginLeft: 66,
                    marginBottom: 44,
                    ariaLabel: `Effect of ${e.name}`,
                    x: e.kind === "numeric" ? { label: e.name, labelAnchor: "center", ticks: 5 } : { label: e.name, labelAnchor: "center", domain: e.points.map((d) => named(e, d)), tickFormat: (t) => cut(String(t)) },
                    y: { label, domain: range, grid: true, ticks: 5, labelAnchor: "center" },
                    marks:
                        e.kind === "numeric"
                            ? [Plot.areaY(e.points, { x: "x", y1: "q5", y2: "q95", fill: posteriorColour, fillOpacity: 0.22 }), Plot.lineY(e.points, { x: "x", y: "mean", stroke: posteriorColour, strokeWidth: 2 })]
                            : [Plot.ruleX(e.points, { x: (d) => named(e, d), y1: "q5", y2: "q95", stroke: posteriorColour, strokeWidth: 2.5 }), Plot.dot(e.points, { x: (d) => named(e, d), y: "mean", r: 4, fill: posteriorColour, stroke: "var(--paper)" })],
                }),
            { class: "medium" },
        );
    return [
        h("h3", {}, "Effects"),
        h(
            "p",
            { class: "quiet" },
            `${page.binary ? `The probability of ${outcome(1)}` : `The ${page.shares ? "expected share" : "mean"} of ${response()}`} if a column had the same value in all rows, the other columns staying as they are: average over the rows, with the 5 to 95 % interval of the posterior. ${all.length > shown.length ? `The ${shown.length} columns of ${all.length} with the greatest effects.` : "The greatest effects come first."} An effect is what the model associates with a column; data alone cannot show whether changing the column would change the response.`,
        ),
        h("div", { class: "panels two" }, shown.map(panel)),
    ];
}

export const drawRegression = () => [
    page.kind === "bnn" ? null : weights(),
    h("h3", {}, page.binary ? "Calibration" : "Residuals"),
    h("div", { class: "panels two" }, page.binary ? calibration() : residuals()),
    h("h3", {}, "Replicated data"),
    h("div", { class: "panels two" }, page.binary ? bars() : [overlay(), statistics()]),
    ...effects(),
].filter((part) => part !== null);
