// model.js - what only some models have to show.
import * as Plot from "@observablehq/plot";
import { cells, density, page, particles, quantities, unpack } from "./data.js";
import { empty, figure, fixed, h, title } from "./dom.js";
import { colour, ensembleColour, posteriorColour, symbol, tagged } from "./look.js";
import { plot } from "./marks.js";
import { drawRegression } from "./regression.js";

const mixtureTitle = "Target and ensemble";

// ---- gp -----------------------------------------------------------------------------------------------------------------------------------------
function gp() {
    const t = unpack(page.t),
        y = unpack(page.y),
        at = unpack(page.at),
        points = Array.from(t, (x, i) => ({ x, y: y[i] }));
    const fits = page.fits.map((f) => {
        const mean = unpack(f.mean),
            sd = unpack(f.sd);
        return { ...f, curve: Array.from(at, (x, g) => ({ x, y: mean[g], lo: mean[g] - 2 * sd[g], hi: mean[g] + 2 * sd[g], j: f.particle })) };
    });
    const all = fits.flatMap((f) => f.curve),
        range = [Math.min(...y, ...all.map((d) => d.lo)), Math.max(...y, ...all.map((d) => d.hi))];
    if (!fits.length) return [empty("No particle has hyperparameters whose process can be drawn.")];
    const last = Math.max(...t),
        steps = [...t]
            .sort((a, b) => a - b)
            .map((x, i, all) => x - all[i - 1])
            .slice(1)
            .sort((a, b) => a - b),
        spacing = steps[Math.floor(steps.length / 2)] ?? 0,
        isAlias = (f) => 1 / Math.exp(particles[f.particle].z[1]) < 2 * spacing;
    const clear = fits.filter((f) => !isAlias(f));
    const panel = (f) =>
        figure(
            null,
            (width) => {
                const p = particles[f.particle],
                    [logA, logF, logS] = p.z;
                return [
                    title(`Particle ${f.particle + 1}: mass ${fixed(p.beta, 3)}`),
                    h(
                        "p",
                        { class: "subtitle" },
                        `period ${fixed(1 / Math.exp(logF), 2)}${isAlias(f) ? " (an alias: shorter than two time steps)" : ""}, length scale ${fixed(Math.exp(logS), 2)}, sd ${fixed(Math.exp(logA / 2), 2)}, noise sd ${fixed(f.noise, 3)}`,
                    ),
                    plot({
                        width,
                        height: 170,
                        marginLeft: 40,
                        marginTop: 8,
                        marginBottom: 30,
                        ariaLabel: `Fit of particle ${f.particle + 1}`,
                        x: { label: null, ticks: 6 },
                        y: { label: null, domain: range, grid: true, ticks: 4 },
                        marks: [
                            Plot.rectX([0], { x1: last, x2: at[at.length - 1], fill: "currentColor", fillOpacity: 0.06 }),
                            Plot.areaY(f.curve, {
                                x: "x",
                                y1: "lo",
                                y2: "hi",
                                fill: colour(f.particle),
                                fillOpacity: 0.22,
                                render: tagged([{ j: f.particle }], () => f.particle),
                            }),
                            Plot.lineY(f.curve, {
                                x: "x",
                                y: "y",
                                stroke: colour(f.particle),
                                strokeWidth: isAlias(f) ? 0.6 : 2,
                                render: tagged([{}], () => f.particle),
                            }),
                            Plot.dot(points, { x: "x", y: "y", r: 1.8, fill: "currentColor", fillOpacity: 0.75 }),
                        ],
                    }),
                ];
            },
            { class: "medium", "data-particle": f.particle, tabindex: "0" },
        );
    const overlay = figure(
        `Means of ${clear.length < fits.length ? "the particles that are not aliases" : "all particles"}, and the data (dots). Each particle explains the series by its own period, length scale and noise.`,
        (width) =>
            plot({
                width,
                height: 260,
                marginLeft: 48,
                ariaLabel: "Fits of all particles",
                x: { label: "time", labelAnchor: "center" },
                y: { label: "value", grid: true, labelAnchor: "center" },
                marks: [
                    Plot.rectX([0], { x1: last, x2: at[at.length - 1], fill: "currentColor", fillOpacity: 0.06 }),
                    Plot.dot(points, { x: "x", y: "y", r: 2, fill: "currentColor", fillOpacity: 0.75 }),
                    ...(clear.length ? clear : fits).map((f) =>
                        Plot.lineY(f.curve, { x: "x", y: "y", stroke: colour(f.particle), strokeWidth: 1.8, render: tagged([{}], () => f.particle) }),
                    ),
                ],
            }),
    );
    return [
        overlay,
        h(
            "p",
            { class: "quiet" },
            "Line: mean of the process given the data and the hyperparameters of the particle. Band: two standard deviations, without noise. Shaded: beyond the data.",
        ),
        h("div", { class: "panels two" }, fits.map(panel)),
    ];
}

// ---- mixture in one dimension -------------------------------------------------------------------------------------------------------------------
const normal = (x, m, s) => Math.exp(-(((x - m) / s) ** 2) / 2) / (s * Math.sqrt(2 * Math.PI));

// The particle that a point on the line belongs to.
function ownerOf(x) {
    const own = cells.cost === "own" && cells.own,
        cost = (p) => (own ? ((x - p.z[0]) ** 2 * own[p.j]) / 2 + cells.ownLogDet[p.j] : Math.abs(x - p.z[0]));
    return particles.reduce((best, p) => (cost(p) < cost(best) ? p : best));
}

// Boundaries between cells from lo to hi, found by halving.
function boundaries(lo, hi) {
    const found = [],
        steps = 1000,
        at = (i) => lo + (i / steps) * (hi - lo);
    for (let i = 0; i < steps; i++) {
        let [left, right] = [at(i), at(i + 1)];
        if (ownerOf(left) === ownerOf(right)) continue;
        for (let k = 0; k < 40; k++) {
            const middle = (left + right) / 2;
            if (ownerOf(middle) === ownerOf(left)) left = middle;
            else right = middle;
        }
        found.push([left, right]);
    }
    return found;
}

function mixture() {
    const curve = density(0, "posterior"),
        total = page.weight.reduce((a, b) => a + b, 0),
        sorted = particles.filter((p) => Number.isFinite(p.z[0]));
    if (!sorted.length) return [empty("This run has no particles.")];
    const lo = curve?.[0].x ?? -5,
        hi = curve?.[curve.length - 1].x ?? 5,
        edges = boundaries(lo, hi);
    const xs = [...Array.from({ length: 600 }, (_, i) => lo + (i / 599) * (hi - lo)), ...edges.flat()].sort((a, b) => a - b),
        transport = (p, x) => (p.weight * Math.exp(-(((x - p.mu[0]) / p.sd[0]) ** 2) / 2 - p.log_Z)) / (p.sd[0] * Math.sqrt(2 * Math.PI));
    const target = xs.map((x) => ({ x, y: page.weight.reduce((s, w, k) => s + (w / total) * normal(x, page.mean[k], page.sd[k]), 0) })),
        pieces = xs.map((x) => {
            const p = ownerOf(x);
            return { x, j: p.j, y: transport(p, x) };
        });
    const top = Math.max(...target.map((d) => d.y), ...pieces.map((d) => d.y)) * 1.05;
    return [
        figure(
            "Each filled piece is the part of the ensemble that one particle has: its Gaussian, cut off at the boundary of its cell, times its weight. Their sum is the ensemble (solid). Dashed: the normalised target. Vertical lines: boundaries between cells.",
            (width) =>
                plot({
                    width,
                    height: 360,
                    marginLeft: 52,
                    marginBottom: 44,
                    ariaLabel: mixtureTitle,
                    x: { label: quantities[0]?.name, domain: [lo, hi], labelAnchor: "center" },
                    y: { label: "density", domain: [0, top], grid: true, labelAnchor: "center" },
                    marks: [
                        ...sorted.map((p) => {
                            const own = pieces.filter((d) => d.j === p.j);
                            return Plot.areaY(own, { x: "x", y: "y", fill: colour(p.j), fillOpacity: 0.4, render: tagged([p], () => p.j) });
                        }),
                        Plot.ruleX(
                            edges.map((e) => e[0]),
                            { strokeOpacity: 0.35 },
                        ),
                        Plot.lineY(pieces, { x: "x", y: "y", stroke: "currentColor", strokeWidth: 1.3 }),
                        Plot.lineY(target, { x: "x", y: "y", stroke: ensembleColour, strokeWidth: 2, strokeDasharray: "6,4" }),
                        Plot.dot(sorted, {
                            x: (p) => p.z[0],
                            y: 0,
                            fill: (p) => colour(p.j),
                            symbol: (p) => symbol(p.j),
                            r: 6,
                            stroke: "var(--paper)",
                            render: tagged(sorted, (p) => p.j),
                        }),
                        Plot.text(sorted, {
                            x: (p) => p.z[0],
                            y: 0,
                            text: (p) => String(p.j + 1),
                            dy: -13,
                            fontWeight: 700,
                            stroke: "var(--paper)",
                            fill: "currentColor",
                            strokeWidth: 4,
                        }),
                    ],
                }),
        ),
        h(
            "p",
            { class: "legend" },
            h("span", {}, h("i", { class: "line", style: "--c:currentColor" }), "ensemble"),
            h("span", {}, h("i", { class: "dash", style: `--c:${ensembleColour}` }), "target"),
            h("span", {}, h("i", { class: "area", style: `--c:${posteriorColour}` }), "parts of the particles"),
        ),
    ];
}

const regression = ["Predictions and data", drawRegression];
const kinds = {
    gp: ["The fit of each particle", gp],
    logistic: regression,
    linear: regression,
    glm: regression,
    bnn: regression,
    mixture: [mixtureTitle, mixture],
};

export function drawModel(section) {
    if (!kinds[page?.kind]) return false;
    const [title, draw] = kinds[page.kind];
    section.hidden = false;
    section.querySelector("h2").textContent = title;
    section.append(...(page.missing ? [empty(`This part needs the data of the run: ${page.missing}.`)] : draw()));
    return true;
}
