// compare.js - several runs on one page: which of them the data support, and how their posteriors differ.
import * as Plot from "@observablehq/plot";
import { comparison, notes } from "./data.js";
import { empty, figure, fixed, format, h, plural, withError } from "./dom.js";
import { plot } from "./marks.js";
import { colour } from "./look.js";

const SHARED = 40;
const short = (name) => (name.length > 24 ? "\u2026" + name.slice(-23) : name);
const kind = (r) => (r.model?.likelihood ? `${r.model.likelihood}, ${r.model.design?.formula}` : String(r.model?.name ?? "?"));

// How clear a log Bayes factor is, in words (Kass and Raftery, 1995).
function strength(difference) {
    const d = Math.abs(difference);
    return d < 1 ? "hardly any" : d < 3 ? "positive" : d < 5 ? "strong" : "very strong";
}

function headline() {
    const [best, second] = comparison,
        gap = second.log_evidence - best.log_evidence,
        unsure = -gap < 2 * second.difference_se,
        bad = comparison.filter((r) => !r.reliable).length;
    return h(
        "div",
        { class: `banner ${bad || unsure ? "bad" : "good"}`, role: "status" },
        h("span", { class: "mark", "aria-hidden": "true" }, bad || unsure ? "!" : "\u2713"),
        h(
            "div",
            {},
            h(
                "p",
                { class: "headline" },
                unsure
                    ? `The evidence does not tell ${best.name} from ${second.name}: their difference is within two standard errors.`
                    : `The data support ${best.name} most: ${strength(gap)} evidence against ${second.name}, the next one.`,
            ),
            h(
                "ul",
                {},
                h("li", {}, `Its probability is ${fixed(best.probability, 3)} if all ${comparison.length} were equally probable before the data, and if one of them is right.`),
                h("li", {}, "The evidence weighs how well a model fits and how much its priors allow: wide priors cost evidence."),
                bad ? h("li", {}, `${plural(bad, "run")} of ${comparison.length} ${bad === 1 ? "is" : "are"} unreliable, and so is the comparison.`) : null,
                notes.map((text) => h("li", {}, String(text).replace(/^the /, "The "))),
            ),
        ),
    );
}

function rows() {
    const head = ["run", "model", "log evidence", "difference", "Bayes factor", "probability", "reliable"];
    return h(
        "table",
        { id: "comparison", class: "numbers" },
        h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
        h(
            "tbody",
            {},
            comparison.map((r, i) =>
                h(
                    "tr",
                    {},
                    h("th", { scope: "row" }, r.name),
                    h("td", {}, kind(r)),
                    h("td", {}, withError({ value: r.log_evidence, se: r.se })),
                    h("td", {}, i ? withError({ value: r.difference, se: r.difference_se }) : "best"),
                    h("td", {}, format(r.bayes_factor, 3)),
                    h("td", {}, fixed(r.probability, 4)),
                    h("td", {}, r.reliable ? "yes" : "no"),
                ),
            ),
        ),
    );
}

const left = () => 30 + 6.6 * Math.max(...comparison.map((r) => short(r.name).length));

function charts() {
    const data = comparison.map((r) => ({ ...r, lo: r.difference - 2 * r.difference_se, hi: r.difference + 2 * r.difference_se })),
        y = { label: null, domain: data.map((r) => r.name), tickFormat: short, tickSize: 0 },
        size = { height: 70 + 30 * data.length, marginBottom: 44, marginTop: 8 };
    return [
        figure(
            "Log evidence less that of the best run, in nats; lines: two standard errors.",
            (width) =>
                plot({
                    width,
                    ...size,
                    marginLeft: left(),
                    ariaLabel: "Differences of log evidence",
                    x: { label: "difference of log evidence", labelAnchor: "center", grid: true },
                    y,
                    marks: [
                        Plot.ruleX([0], { strokeOpacity: 0.5 }),
                        Plot.ruleY(data, { y: "name", x1: "lo", x2: "hi", strokeWidth: 2.5, stroke: (r) => colour(comparison.findIndex((o) => o.name === r.name)) }),
                        Plot.dot(data, { y: "name", x: "difference", r: 5, fill: (r, i) => colour(i), stroke: "var(--paper)" }),
                    ],
                }),
            { class: "medium" },
        ),
        figure(
            "Probability of each run, all being equally probable before the data.",
            (width) =>
                plot({
                    width,
                    ...size,
                    marginLeft: left(),
                    ariaLabel: "Probabilities of runs",
                    x: { label: "probability", domain: [0, 1], labelAnchor: "center", grid: true },
                    y,
                    marks: [Plot.barX(data, { y: "name", x: "probability", fill: (r, i) => colour(i), fillOpacity: 0.75 }), Plot.ruleX([0])],
                }),
            { class: "medium" },
        ),
    ];
}

// Coefficients of standardized columns, which are not those of the columns themselves.
function scaled(r) {
    const columns = r.model?.standardized?.columns;
    return new Set(columns ? [...columns, "intercept"] : []);
}

// Quantities that two runs or more have.
function shared() {
    const seen = new Map();
    comparison.forEach((r, run) => {
        const perSd = scaled(r);
        (r.posterior?.names ?? []).forEach((own, i) => {
            const { mean, q5, q95 } = r.posterior,
                name = perSd.has(own) ? `${own} (standardized)` : own;
            if (!seen.has(name)) seen.set(name, []);
            seen.get(name).push({ name, run, mean: mean[i] ?? NaN, lo: q5[i] ?? NaN, hi: q95[i] ?? NaN });
        });
    });
    return [...seen.values()].filter((list) => list.length > 1);
}

function parameters() {
    const all = shared(),
        list = all.slice(0, SHARED);
    if (!list.length) return [empty("The runs have no parameter in common.")];
    const panel = (items) =>
        figure(
            null,
            (width) =>
                plot({
                    width,
                    height: 54 + 18 * comparison.length,
                    marginLeft: left(),
                    marginTop: 6,
                    marginBottom: 40,
                    ariaLabel: `${items[0].name} in each run`,
                    x: { label: items[0].name, labelAnchor: "center", grid: true, ticks: 5 },
                    y: { label: null, domain: comparison.map((r) => r.name), tickFormat: short, tickSize: 0 },
                    marks: [
                        Plot.ruleY(items, { y: (d) => comparison[d.run].name, x1: "lo", x2: "hi", strokeWidth: 2.5, stroke: (d) => colour(d.run) }),
                        Plot.dot(items, { y: (d) => comparison[d.run].name, x: "mean", r: 4, fill: (d) => colour(d.run), stroke: "var(--paper)", title: (d) => `${d.name}: ${format(d.mean, 4)}, 5 to 95 %: ${format(d.lo, 4)} to ${format(d.hi, 4)}` }),
                    ],
                }),
            { class: "medium" },
        );
    return [
        h("p", { class: "quiet" }, `Posterior means (dots) and 5 to 95 % intervals (lines) of parameters that several runs have${all.length > SHARED ? ` (${SHARED} of ${all.length})` : ""}. A parameter may mean something else in another model.`),
        h("div", { class: "panels two" }, list.map(panel)),
    ];
}

function about(r) {
    const priors = r.priors ? Object.entries(r.priors).map(([name, text]) => `${name} ~ ${text}`) : [r.model?.prior].filter(Boolean);
    return [
        h("h3", {}, r.name),
        h("p", {}, h("code", {}, String(r.command ?? ""))),
        priors.length ? h("p", { class: "quiet" }, `Priors: ${priors.join("; ")}`) : null,
        r.reliable ? null : h("ul", { class: "warnings" }, (r.verdict?.reasons ?? []).map((text) => h("li", {}, String(text)))),
    ].filter(Boolean);
}

// Sections of the page that only a single run has are taken away.
export function drawComparison(section) {
    for (const id of ["particles", "training", "model"]) section(id).remove();
    const { data } = comparison[0];
    document.title = "wvgd comparison";
    section("head").append(
        h(
            "div",
            {},
            h("p", { class: "kicker" }, "wvgd report"),
            h("h1", {}, `${comparison.length} runs compared`),
            data?.response === undefined ? null : h("p", { class: "quiet" }, `Response ${data.response}, ${plural(data.rows, "row")}${data.dropped ? ` (${plural(data.dropped, "row")} dropped)` : ""}; best run: ${comparison[0].name}`),
        ),
    );
    section("verdict").append(headline(), rows(), h("div", { class: "panels two" }, charts()));
    section("posterior").querySelector("h2").textContent = "Parameters";
    section("posterior").append(...parameters());
    section("about").querySelector("h2").textContent = "About these runs";
    section("about").append(...comparison.flatMap(about));
}
