// particles.js - masses, bounds and diagnostics of the cells, and how far particles are from each other.
import * as Plot from "@observablehq/plot";
import { cells, diagnostics, modes, N, particles } from "./data.js";
import { count, empty, figure, fixed, format, h, title } from "./dom.js";
import { distances } from "./geometry.js";
import { colour, symbol, tagged } from "./look.js";
import { plot } from "./marks.js";
import { interpolateBlues, rgb, symbol as makeSymbol } from "d3";

const finite = (key) => particles.filter((p) => Number.isFinite(p[key]));
const ticks = () => {
    const step = N <= 12 ? 1 : Math.ceil(N / 10);
    return particles.map((p) => p.j + 1).filter((j) => (j - 1) % step === 0);
};
const across = { label: "particle", labelAnchor: "center", domain: particles.map((p) => p.j + 1) };

const swatch = (j) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"),
        path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    svg.setAttribute("viewBox", "-8 -8 16 16");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", makeSymbol(symbol(j), 90)());
    path.setAttribute("fill", colour(j));
    svg.append(path);
    return svg;
};

// Quantities that tell modes apart, whose means there differ by more than half an sd: the clearest first.
function telling(most) {
    const seen = modes.filter((m) => m.quantities.some((q) => Number.isFinite(q.mean))),
        apart = (i) => {
            const means = seen.map((m) => m.quantities[i].mean),
                sd = Math.max(...seen.map((m) => m.quantities[i].sd));
            return sd > 0 ? (Math.max(...means) - Math.min(...means)) / sd : 0;
        };
    return (seen[0]?.quantities ?? [])
        .map((q, i) => ({ name: q.name, i, apart: apart(i) }))
        .filter((q) => q.apart > 0.5)
        .sort((a, b) => b.apart - a.apart)
        .slice(0, most);
}

function modeTable() {
    const shown = telling(5);
    const rows = modes.map((m, k) =>
        h(
            "tr",
            {},
            h("th", { scope: "row" }, `${k + 1}`),
            h("td", {}, fixed(m.mass, 4)),
            h("td", {}, fixed(m.mass_se, 4)),
            h("td", { class: "marks" }, m.particles.length ? m.particles.flatMap((j) => [h("span", { "data-particle": j }, swatch(j), ` ${j + 1}`), " "]) : "\u2013"),
            shown.map(({ i }) => h("td", {}, `${format(m.quantities[i].mean, 3)} (${format(m.quantities[i].sd, 2)})`)),
        ),
    );
    const head = ["Mode", "Mass", "\u00b1", "Particles", ...shown.map((q) => q.name)].map((title, i) => h("th", { scope: "col", class: i === 3 && "marks" }, title));
    return [
        h(
            "p",
            { class: "quiet" },
            "Each mode is one way to explain the data. Its mass is its posterior probability, with a standard error. Its particles are those that lie in it; cells reach into other modes, so their masses need not add up to that of the mode. The other columns are means (and standard deviations) of the quantities that differ most between modes.",
        ),
        h(
            "div",
            { class: "scroll", tabindex: "0", role: "region", "aria-label": "Modes" },
            h("table", { class: "numbers", id: "mode-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
        ),
        h("h3", {}, "Cells"),
    ];
}

function table() {
    const bad = (k) => k > diagnostics.limit,
        gains = (p) => p.gain - 2 * p.gain_se > 0.1;
    const rows = particles.map((p) =>
        h(
            "tr",
            { "data-particle": p.j, tabindex: "0", "aria-label": `Particle ${p.j + 1}` },
            h("th", { scope: "row" }, swatch(p.j), ` ${p.j + 1}`),
            h("td", {}, fixed(p.beta, 4)),
            h("td", {}, fixed(p.beta_se, 4)),
            h("td", {}, fixed(p.weight, 4)),
            h("td", {}, fixed(p.elbo, 3)),
            h("td", {}, fixed(p.elbo_se, 3)),
            h("td", {}, fixed(p.log_Z, 3)),
            h("td", gains(p) ? { class: "flag", title: "could gain more within its family of Gaussians" } : {}, fixed(p.gain, 3), gains(p) ? " \u26a0" : ""),
            h("td", {}, fixed(p.gain_se, 3)),
            h("td", {}, fixed(p.loss, 3)),
            h("td", {}, fixed(p.loss_se, 3)),
            h("td", bad(p.pareto_k) ? { class: "flag", title: "above the limit" } : {}, fixed(p.pareto_k, 2), bad(p.pareto_k) ? " \u26a0" : ""),
            h("td", {}, count(p.ess)),
        ),
    );
    const head = ["Particle", "Mass", "\u00b1", "Weight", "ELBO", "\u00b1", "Log share", "Gain", "\u00b1", "Loss", "\u00b1", "k\u0302", "ESS"].map((title) =>
        h("th", { scope: "col" }, title),
    );
    return h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Particles" },
        h("table", { class: "numbers", id: "particle-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
    );
}

// Bars or dots by particle, with error bars of two standard errors.
function chart({ key, se, label, bars, limit, none }) {
    const data = finite(key),
        errors = se ? data.filter((p) => Number.isFinite(p[se])) : [];
    return figure(
        null,
        (width) => {
            if (!data.length) return [title(label), empty(none)];
            const common = { x: (p) => p.j + 1, y: key, render: tagged(data, (p) => p.j), title: (p) => `Particle ${p.j + 1}: ${fixed(p[key], 4)}` };
            return [
                title(label),
                plot({
                    width,
                    height: 216,
                    marginLeft: 56,
                    marginTop: 12,
                    marginBottom: 42,
                    insetTop: limit === undefined ? 0 : 14, // room for its label
                    ariaLabel: label,
                    x: { ...across, type: "band", padding: 0.35, ticks: ticks() },
                    y: { label: null, grid: true, zero: Boolean(bars), nice: true, ticks: 5 },
                    marks: [
                        bars
                            ? Plot.barY(data, { ...common, fill: (p) => colour(p.j) })
                            : Plot.dot(data, { ...common, fill: (p) => colour(p.j), symbol: (p) => symbol(p.j), r: 5 }),
                        se &&
                            Plot.ruleX(errors, {
                                x: (p) => p.j + 1,
                                y1: (p) => p[key] - 2 * p[se],
                                y2: (p) => p[key] + 2 * p[se],
                                strokeWidth: 1.6,
                                marker: "tick",
                                render: tagged(errors, (p) => p.j),
                            }),
                        bars && Plot.ruleY([0]),
                        limit !== undefined &&
                            Number.isFinite(limit) && [
                                Plot.ruleY([limit], { strokeDasharray: "5,3" }),
                                Plot.text([`limit ${fixed(limit, 2)}`], { y: limit, frameAnchor: "right", textAnchor: "end", dy: -6 }),
                            ],
                    ],
                }),
            ];
        },
        { class: "medium" },
    );
}

// Black or white, whichever can be read on the colour: where luminance (WCAG 2) is 0.18 both have the same contrast.
function readable(background) {
    const { r, g, b } = rgb(background),
        [x, y, z] = [r, g, b].map((c) => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z > 0.18 ? "#000" : "#fff";
}

function distanceMap() {
    const between = distances(particles.map((p) => p.z)),
        shown = [];
    for (let j = 0; j < N; j++)
        for (let k = 0; k < j; k++) {
            const d = between(j, k);
            if (Number.isFinite(d)) shown.push({ p: j + 1, q: k + 1, d }, { p: k + 1, q: j + 1, d });
        }
    const names = {
        mahalanobis: "in posterior standard deviations (Mahalanobis)",
        sqeuclid: "Euclidean",
        l1: "sum of absolute differences",
        lp: "under the lp cost",
    };
    return figure(
        `Distances between particles, ${names[cells.cost] ?? "Euclidean, in the coordinates of the fit"}.`,
        (width) => {
            if (N < 2 || !shown.length) return empty("One particle: no distances.");
            const size = Math.min(width, 420),
                all = shown.map((c) => c.d),
                most = Math.max(...all),
                least = Math.min(...all) < most ? Math.min(...all) : 0,
                decimals = most - least < 1 ? 2 : most < 10 ? 1 : 0,
                near = (d) => interpolateBlues(1 - (most > 0 ? (d - least) / (most - least) : 0)); // the nearest are the darkest
            const key = Plot.legend({
                color: { domain: [least, most], interpolate: (t) => interpolateBlues(1 - t) },
                label: "distance: dark is near",
                width: Math.min(size, 280),
                marginLeft: 16,
                marginRight: 16,
                ticks: [least, (least + most) / 2, most],
                tickFormat: (d) => fixed(d, decimals),
            });
            key.setAttribute("class", "distance-key");
            const map = plot({
                width: size,
                height: size,
                marginLeft: 44,
                marginTop: 30,
                marginRight: 10,
                marginBottom: 10,
                padding: N > 30 ? 0 : 0.04,
                ariaLabel: "Distances between particles",
                x: { ...across, label: null, axis: "top", ticks: ticks(), tickSize: 0 },
                y: { ...across, label: null, ticks: ticks(), tickSize: 0 },
                marks: [
                    Plot.cell(shown, {
                        x: "p",
                        y: "q",
                        fill: (c) => near(c.d),
                        title: N <= 40 ? (c) => `${c.p} \u2013 ${c.q}: ${fixed(c.d, 2)}` : undefined,
                        render: tagged(shown, (c) => c.p - 1),
                    }),
                    N <= 12 &&
                        Plot.text(shown, {
                            x: "p",
                            y: "q",
                            text: (c) => fixed(c.d, decimals),
                            fill: (c) => readable(near(c.d)),
                            fontSize: 12,
                        }),
                ],
            });
            return [key, map];
        },
        { id: "distances" },
    );
}

export function drawParticles(section) {
    if (!N) {
        section.append(empty("This run has no particles."));
        return;
    }
    if (modes.length > 1) section.append(...modeTable());
    section.append(
        h(
            "p",
            { class: "quiet" },
            "Each particle represents its cell, the points nearest to it. Its mass is the posterior probability of the cell; error bars are two standard errors. Point at a particle, or move to it with the Tab key, to see it everywhere on the page.",
        ),
        h(
            "div",
            { class: "panels two" },
            chart({ key: "beta", se: "beta_se", label: "Mass of the cell", bars: true, none: "no masses" }),
            chart({ key: "elbo", se: "elbo_se", label: "ELBO of the cell, nats", none: "no bounds" }),
            chart({
                key: "pareto_k",
                label: "Pareto k\u0302 in the cell",
                limit: diagnostics.limit,
                none: "Not computed: too few draws in the tails.",
            }),
            chart({ key: "ess", label: "Effective draws (ESS) in the cell", bars: true, none: "no draws" }),
        ),
        table(),
        h(
            "p",
            { class: "quiet" },
            "Mass: of the cell. Weight: of the particle's Gaussian in the ensemble. ELBO: lower bound on the log of mass times evidence, by this Gaussian. Log share: log of the share of the Gaussian that lies inside the cell. Gain: nats that the Gaussian could still win within its family. Loss: nats by which its ELBO falls short; by chance it can be below 0. \u00b1: standard errors.",
        ),
        h("h3", {}, "Distances"),
        distanceMap(),
    );
}
