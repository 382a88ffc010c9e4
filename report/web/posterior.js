// posterior.js - the table of parameters, their marginal densities, and two of them against each other.
import * as Plot from "@observablehq/plot";
import { axes, cells, components, D, density, draws, N, particles, place, quantities, staged } from "./data.js";
import { count, empty, figure, fixed, forget, format, h, title } from "./dom.js";
import { contour, findCells } from "./geometry.js";
import { colour, ensembleColour, posteriorColour, symbol, tagged } from "./look.js";
import { drawsMark, plot, ringsMark } from "./marks.js";

const PANELS = 12;

// ---- which two parameters: for the pair plot and the replay -----------------------------------------------------------------------------------
const first = axes.length > quantities.length + 1 ? quantities.length : 0; // unconstrained coordinates if there are such: cells are drawn there
export const chosen = { x: first, y: Math.min(first + 1, axes.length - 1) };
const listeners = new Set();
export const onChoose = (tell) => listeners.add(tell);
export function choose(which, i) {
    if (chosen[which] === i) return;
    const other = which === "x" ? "y" : "x";
    if (chosen[other] === i) chosen[other] = chosen[which];
    chosen[which] = i;
    listeners.forEach((tell) => tell());
}

export function chooser() {
    const make = (which, label) => {
        const select = h(
            "select",
            {
                class: `choose-${which}`,
                onchange: (event) => choose(which, Number(event.target.value)),
            },
            axes.map((axis, i) => h("option", { value: i }, axis.label)),
        );
        onChoose(() => (select.value = chosen[which]));
        select.value = chosen[which];
        return h("label", {}, `${label} `, select);
    };
    return [
        make("x", "Horizontal"),
        make("y", "vertical"),
        h("button", { type: "button", class: "swap", title: "Swap the two", onclick: () => choose("x", chosen.y) }, "\u21c4 swap"),
    ];
}

// ---- the table ------------------------------------------------------------------------------------------------------------------------------
// To the digits that the sd asks for: all of a row line up.
function bySd(q, value) {
    const decimals = 2 - Math.floor(Math.log10(q.sd));
    return q.sd > 0 && decimals <= 7 && Math.abs(value) < 1e9 ? fixed(value, Math.max(0, decimals)) : format(value, 5);
}
const columns = [
    ["name", "Parameter"],
    ["mean", "Mean", bySd],
    ["sd", "SD", (q, value) => bySd(q, value) + (q.heavy ? "*" : "")],
    ["sd_se", "SE of SD", (q, value) => format(value, 2)],
    ["q5", "5 %", bySd],
    ["q50", "50 %", bySd],
    ["q95", "95 %", bySd],
    ["mcse", "MCSE", (q, value) => format(value, 2)],
    ["ess", "ESS", (q, value) => count(value)],
];

function table(onFilter) {
    let sorted = null,
        falling = false,
        word = "";
    const body = h("tbody"),
        status = h("span", { class: "quiet", role: "status" });
    const row = (q) =>
        h(
            "tr",
            {},
            h("th", { scope: "row" }, q.name),
            columns.slice(1).map(([key, , show]) => h("td", {}, show(q, q[key]))),
            h(
                "td",
                { class: "pick" },
                axes.length > 1
                    ? ["x", "y"].map((which) =>
                          h(
                              "button",
                              {
                                  type: "button",
                                  title: `Show ${q.name} on the ${which === "x" ? "horizontal" : "vertical"} axis of the pair plot`,
                                  onclick: () => choose(which, q.index),
                              },
                              which,
                          ),
                      )
                    : null,
            ),
        );
    const fill = () => {
        const shown = quantities.filter((q) => q.name.toLowerCase().includes(word));
        if (sorted)
            shown.sort(
                (p, q) => (falling ? -1 : 1) * (sorted === "name" ? p.name.localeCompare(q.name) : p[sorted] - q[sorted] || p.index - q.index),
            );
        body.replaceChildren(...shown.map(row));
        status.textContent = word ? `${count(shown.length)} of ${count(quantities.length)}` : `${count(quantities.length)} in total`;
        onFilter(shown);
    };
    const sort = (key) => {
        falling = sorted === key && !falling;
        sorted = key;
        [...head.querySelectorAll("th")].forEach((th, i) =>
            th.setAttribute("aria-sort", columns[i]?.[0] === key ? (falling ? "descending" : "ascending") : "none"),
        );
        fill();
    };
    const head = h(
        "tr",
        {},
        columns.map(([key, title]) =>
            h("th", { scope: "col", "aria-sort": "none" }, h("button", { type: "button", onclick: () => sort(key) }, title)),
        ),
        h("th", { scope: "col", class: "pick" }, "Pair"),
    );
    const search = h("input", {
        type: "search",
        id: "search",
        placeholder: "Part of a name",
        autocomplete: "off",
        spellcheck: "false",
        oninput: (event) => {
            word = event.target.value.trim().toLowerCase();
            fill();
        },
    });
    fill();
    return [
        h("div", { class: "controls" }, h("label", { for: "search" }, "Find a parameter "), search, status),
        h(
            "div",
            { class: "scroll", tabindex: "0", role: "region", "aria-label": "Parameters" },
            h("table", { class: "numbers", id: "parameters" }, h("thead", {}, head), body),
        ),
        quantities.some((q) => q.heavy)
            ? h("p", { class: "quiet" }, "* heavy tails: the SD, and perhaps the mean, is unreliable or does not exist; use the quantiles.")
            : null,
        h("p", { class: "quiet" }, "MCSE: standard error of the mean. It can be far below SD/\u221aESS, since control variates reduce it. ESS: effective number of final draws for the mean of this parameter."),
    ].filter(Boolean);
}

// ---- densities --------------------------------------------------------------------------------------------------------------------------------
export const legend = (items) =>
    h(
        "p",
        { class: "legend" },
        items.map(([className, fill, text]) => h("span", {}, h("i", { class: className, style: `--c:${fill}` }), text)),
    );

function marginal(q) {
    const posterior = density(q.index, "posterior"),
        ensemble = density(q.index, "ensemble");
    return figure(
        null,
        (width) => {
            if (!posterior) return empty("no draws");
            const [first, last] = [posterior[0].x, posterior[posterior.length - 1].x], // the curves end where the draws do
                [x0, x1] = [first - 0.05 * (last - first), last + 0.05 * (last - first)],
                inside = particles.filter((p) => place(p, q) >= x0 && place(p, q) <= x1);
            return [
                title(q.name),
                plot({
                    width,
                    height: 128,
                    marginLeft: 10,
                    marginRight: 10,
                    marginTop: 6,
                    marginBottom: 32,
                    ariaLabel: `Density of ${q.name}`,
                    x: { label: null, ticks: 4, domain: [x0, x1] },
                    y: { axis: null, domain: [0, Math.max(...posterior.map((d) => d.y), ...(ensemble ?? []).map((d) => d.y)) * 1.04 || 1] },
                    marks: [
                        Plot.areaY(posterior, { x: "x", y: "y", fill: posteriorColour, fillOpacity: 0.22 }),
                        Plot.lineY(posterior, { x: "x", y: "y", stroke: posteriorColour, strokeWidth: 1.6 }),
                        ensemble && Plot.lineY(ensemble, { x: "x", y: "y", stroke: ensembleColour, strokeWidth: 1.6, strokeDasharray: "5,3" }),
                        Plot.ruleY([0], { strokeOpacity: 0.4 }),
                        Plot.dot(inside, {
                            x: (p) => place(p, q),
                            y: 0,
                            r: 3.6,
                            fill: (p) => colour(p.j),
                            symbol: (p) => symbol(p.j),
                            stroke: "var(--paper)",
                            strokeWidth: 0.8,
                            title: (p) => `Particle ${p.j + 1}`,
                            render: tagged(inside, (p) => p.j),
                        }),
                    ],
                }),
            ];
        },
        { class: "small" },
    );
}

function marginals() {
    const holder = h("div", { class: "panels" }),
        more = h("button", { type: "button", class: "more", onclick: () => show(list, room + PANELS) });
    let list = [],
        room = PANELS;
    const show = (shown, limit) => {
        [list, room] = [shown, limit];
        forget(holder);
        holder.replaceChildren(...list.slice(0, room).map(marginal));
        more.hidden = list.length <= room;
        more.textContent = more.hidden ? "" : `Show ${Math.min(PANELS, list.length - room)} more of ${count(list.length)}`;
        if (holder.isConnected) {
            const width = holder.firstChild?.measure();
            [...holder.children].forEach((f) => f.redraw(width));
        }
    };
    const items = [
        ["area", posteriorColour, "posterior (final draws with their weights)"],
        ["dash", ensembleColour, "ensemble (the fitted approximation)"],
        ["dot", "currentColor", "particles, in their colours and shapes"],
    ];
    const has = density(0, "ensemble") !== null;
    return {
        show: (shown) => show(shown, PANELS),
        element: [h("h3", {}, "Marginal densities"), legend(has ? items : items.filter((item) => item[0] !== "dash")), holder, more],
    };
}

// ---- pairs ------------------------------------------------------------------------------------------------------------------------------------
export function domainOf(values, extra = []) {
    const sorted = Float64Array.from([...values].filter(Number.isFinite)).sort(),
        cut = Math.floor(sorted.length / 500);
    const all = sorted.length ? [sorted[cut], sorted[sorted.length - 1 - cut], ...extra.filter(Number.isFinite)] : extra.filter(Number.isFinite);
    if (!all.length) return [-1, 1];
    const lo = Math.min(...all),
        hi = Math.max(...all),
        pad = hi > lo ? 0.06 * (hi - lo) : Math.max(Math.abs(lo), 1) * 0.1;
    return [lo - pad, hi + pad];
}

const on = { draws: true, particles: true, ellipses: N <= 20, cells: true }; // more ellipses than that hide everything else

function cellsText(found, D2) {
    if (!found) return N < 2 ? "One particle: one cell." : cells.cost === "unknown" ? "" : "Cells cannot be drawn for this cost.";
    if (D2) return "The boundaries are those of the cells themselves.";
    return "Cell boundaries are a slice through the posterior mean, not a projection. The draws differ in the other coordinates, so their colours need not match the regions.";
}

export const massScale = { range: [0, 15], domain: [0, Math.max(...particles.map((p) => p.beta).filter(Number.isFinite), 1e-9)] };
export const particleMarks = (points, x, y) => [
    Plot.dot(points, {
        x: (p) => place(p, x),
        y: (p) => place(p, y),
        r: (p) => (Number.isFinite(p.beta) ? Math.max(p.beta, 0) : massScale.domain[1] / 4),
        fill: (p) => colour(p.j),
        stroke: "var(--paper)",
        strokeWidth: 1.5,
        symbol: (p) => symbol(p.j),
        title: describe,
        render: tagged(points, (p) => p.j),
    }),
    points.length <= 60 &&
        Plot.text(points, {
            x: (p) => place(p, x),
            y: (p) => place(p, y),
            text: (p) => String(p.j + 1),
            dy: -18,
            fontWeight: 700,
            fill: "currentColor",
            stroke: "var(--paper)",
            strokeWidth: 4,
            render: tagged(points, (p) => p.j),
        }),
];
const describe = (p) =>
    `Particle ${p.j + 1}\nmass ${fixed(p.beta, 4)} \u00b1 ${fixed(p.beta_se, 4)}\nELBO ${fixed(p.elbo, 3)}\nk\u0302 ${fixed(p.pareto_k, 2)}, ESS ${count(p.ess)}`;

function pair() {
    const caption = h("figcaption", { class: "pair-caption" });
    const drawing = figure(
        null,
        (width) => {
            const x = axes[chosen.x],
                y = axes[chosen.y],
                xs = x.values(),
                ys = y.values(),
                a = x.coordinate,
                b = y.coordinate,
                placed = a !== null && b !== null;
            const seen = particles.filter((p) => Number.isFinite(place(p, x)) && Number.isFinite(place(p, y)));
            const xDomain = domainOf(
                    xs,
                    seen.map((p) => place(p, x)),
                ),
                yDomain = domainOf(
                    ys,
                    seen.map((p) => place(p, y)),
                );
            const found =
                    placed && on.cells
                        ? findCells(
                              particles.map((p) => p.z),
                              a,
                              b,
                              xDomain,
                              yDomain,
                              true,
                          )
                        : null,
                height = Math.min(560, Math.max(340, width * 0.68));
            const rings = (p, scales) =>
                scales.map((s) => contour(p, a, b, s)).filter((ring) => ring.length);
            const own = placed && on.ellipses ? particles.map((p) => ({ j: p.j, rings: rings(p, [2]) })) : [],
                mixture = placed && on.ellipses ? components.map((c) => ({ k: c.k, rings: rings(c, [2]) })) : [];
            const left = own.filter((e) => !e.rings.length).length;
            const bends = [...particles, ...components].some((p) => p.contour),
                curves = bends ? "curves" : "ellipses";
            caption.replaceChildren(
                draws.n
                    ? `${count(draws.n)} posterior draws${draws.of > draws.n ? ` of ${count(draws.of)}` : ""}, coloured by cell`
                    : "No draws are stored",
                seen.length ? "; particles sized by mass" : "",
                placed
                    ? `${on.ellipses ? `; ${staged ? `solid ${curves}: 2 sd of the components of the particles, before truncation to their cells; dashed: of the mixture that the draws come from${bends ? `. They are Gaussians in bent coordinates; the curves are ${D > 2 ? "sections, " : ""}mapped to these parameters` : ""}` : "ellipses: 2 sd of the components, before truncation to their cells"}` : ""}. `
                    : ". ",
                placed
                    ? on.cells
                        ? cellsText(found, D === 2)
                        : ""
                    : "Cells and components are defined in the unconstrained coordinates of the fit: choose two of those to see them.",
                left && on.ellipses && placed ? ` ${left} ${curves} are missing, because the page does not have ${bends ? "the map, or their covariances" : "their correlations"}.` : "",
            );
            return plot({
                width,
                height,
                marginLeft: 58,
                marginBottom: 44,
                marginTop: 16,
                grid: true,
                clip: true,
                ariaLabel: `${x.label} against ${y.label}`,
                className: "pair-plot",
                x: { label: x.label, domain: xDomain, labelAnchor: "center", ticks: Math.max(4, width / 90) },
                y: { label: y.label, domain: yDomain, labelAnchor: "center", ticks: height / 70 },
                r: massScale,
                marks: [
                    found &&
                        ringsMark(found, {
                            class: "cells",
                            each: ({ j }) => ({
                                fill: colour(j),
                                "fill-opacity": 0.07,
                                stroke: "currentColor",
                                "stroke-opacity": 0.55,
                                "stroke-width": 1,
                                "data-particle": j,
                            }),
                        }),
                    on.draws && drawsMark(xs, ys, draws.cell, colour, N),
                    ringsMark(mixture, {
                        class: "mixture",
                        each: () => ({ fill: "none", stroke: "currentColor", "stroke-opacity": 0.45, "stroke-dasharray": "4,3" }),
                    }),
                    ringsMark(own, {
                        class: "ellipses",
                        each: ({ j }) => ({ fill: "none", stroke: colour(j), "stroke-width": 1.8, "data-particle": j }),
                    }),
                    ...(seen.length && on.particles ? particleMarks(seen, x, y) : []),
                ],
            });
        },
        { id: "pair" },
    );
    drawing.append(caption);
    const toggles = Object.keys(on).map((key) =>
        h(
            "label",
            { class: "toggle" },
            h("input", {
                type: "checkbox",
                checked: on[key],
                onchange: (event) => {
                    on[key] = event.target.checked;
                    drawing.redraw();
                },
            }),
            ` ${key}`,
        ),
    );
    onChoose(() => drawing.redraw());
    return [h("h3", {}, "Two parameters"), h("div", { class: "controls" }, chooser(), h("span", { class: "toggles" }, toggles)), drawing];
}

export function drawPosterior(section) {
    const densities = marginals();
    section.append(...table(densities.show), ...densities.element);
    if (axes.length > 1) section.append(...pair());
    else section.append(h("p", { class: "quiet" }, "One parameter: there is nothing to plot it against."));
    const note = metricNote();
    if (note) section.append(note);
}

const metricNote = () =>
    cells.agreement < 0.98
        ? h(
              "p",
              { class: "quiet" },
              `The cost of this run used the covariance of the posterior as estimated during the fit. Boundaries drawn with the final covariance put ${fixed(100 * (1 - cells.agreement), 1)} % of the draws on the wrong side.`,
          )
        : null;
