// training.js - the course of the fit, and its replay: where particles, components, ascents were, frame after frame.
import * as Plot from "@observablehq/plot";
import { axes, cells, coordinates, D, density, draws, evidence, frames, gap, N, particles, pelbo, staged, traceColumn } from "./data.js";
import { count, empty, figure, fixed, format, h, plural, title, withError } from "./dom.js";
import { findCells } from "./geometry.js";
import { arrow, colour, symbol, tagged } from "./look.js";
import { drawsMark, plot, ringsMark } from "./marks.js";
import { chooser, chosen, domainOf, legend, massScale, onChoose } from "./posterior.js";

// ---- curves -----------------------------------------------------------------------------------------------------------------------------------
const iteration = traceColumn("iteration");
const column = (name) => {
    const y = traceColumn(name);
    return iteration && y ? Array.from(iteration, (x, i) => ({ x, y: y[i], i })) : [];
};
const whole = (x) => (Number.isInteger(x) ? count(x) : "");
const finite = (rows) => rows.filter((d) => Number.isFinite(d.y));

const frame = { height: 226, marginLeft: 62, marginTop: 14, marginBottom: 42 };

function curve(name, rows, none) {
    return figure(
        null,
        (width) => {
            if (rows.length < 2) return [title(name), empty(none)];
            return [
                title(name),
                plot({
                    width,
                    ...frame,
                    ariaLabel: name,
                    x: { label: "iteration", labelAnchor: "center", ticks: Math.min(8, rows.length), tickFormat: whole },
                    y: { label: null, grid: true, ticks: 5, zero: true, nice: true },
                    marks: curveMarks(rows),
                }),
            ];
        },
        { class: "medium" },
    );
}

const curveMarks = (rows) => [
    Plot.lineY(rows, { x: "x", y: "y", stroke: colour(0), strokeWidth: 1.6, clip: true }),
    rows.length <= 60 && Plot.dot(rows, { x: "x", y: "y", fill: colour(0), r: 2.5, clip: true, title: (d) => `iteration ${d.x}: ${fixed(d.y, 4)}` }),
];

// The values between which the bound is drawn (report/figures.c has the same rule). The gap between the final PELBO and the evidence, or two standard errors of the PELBO if these
// are more, is about a fifteenth of the range at least: values that are further away, as early ones can be, lie outside.
function boundDomain(values) {
    const sorted = [...values].sort((a, b) => a - b),
        [least, most] = [sorted[0], sorted[sorted.length - 1]],
        early = sorted[Math.floor(0.1 * sorted.length)];
    let lo = Math.max(least, early - 1.5 * (most - early) - 0.5),
        hi = most;
    if (Number.isFinite(gap)) {
        const error = 2 * (pelbo.se || 0),
            unit = Math.max(gap, error, 1e-3),
            top = Math.max(evidence.value, pelbo.value + error);
        lo = Math.min(Math.max(lo, top - 12 * unit), pelbo.value - unit / 2 - error / 2);
        hi = Math.max(top, Math.min(most, top + unit));
    } else {
        const known = [pelbo.value, evidence.value].filter(Number.isFinite);
        [lo, hi] = [Math.min(lo, ...known), Math.max(hi, ...known)];
    }
    const pad = 0.08 * (hi - lo) || Math.max(Math.abs(hi) * 0.01, 0.01);
    return [lo - pad, hi + pad];
}

// What the fit saw of its bound, and where that has ended: the PELBO of the result, below the evidence.
function boundCurve() {
    const rows = finite(column("pelbo")),
        se = traceColumn("pelbo_se"),
        what = staged ? "ELBO of the mixture, before the cells are made" : "PELBO, estimated in each iteration",
        name = "Bound on the log evidence, nats";
    const band = se ? rows.filter((d) => Number.isFinite(se[d.i])).map((d) => ({ x: d.x, lo: d.y - 2 * se[d.i], hi: d.y + 2 * se[d.i] })) : [];
    return figure(
        null,
        (width) => {
            if (!rows.length) return [title(name), empty("The run has no record of its iterations.")];
            const [x0, x1] = [rows[0].x, rows[rows.length - 1].x],
                room = Math.max(0.05 * (x1 - x0), 0.1),
                end = [{ x: x1 + room, y: pelbo.value, lo: pelbo.value - 2 * pelbo.se, hi: pelbo.value + 2 * pelbo.se }].filter((d) =>
                    Number.isFinite(d.y),
                ),
                domain = boundDomain(rows.map((d) => d.y)),
                below = rows.filter((d) => d.y < domain[0]);
            return [
                title(name),
                legend(
                    [
                        [
                            "line",
                            colour(0),
                            `${what} (band: two standard errors)${below.length ? `; ${plural(below.length, "value")} below the frame: arrows` : ""}`,
                        ],
                        end.length && ["diamond", colour(2), `PELBO of the result: ${withError(pelbo)}`],
                        Number.isFinite(evidence.value) && ["dash", colour(1), `log evidence: ${withError(evidence)}`],
                        gap > 0 && ["gap", colour(2), `gap: ${format(gap, 2)} nats`],
                    ].filter(Boolean),
                ),
                plot({
                    width,
                    ...frame,
                    ariaLabel: `${name}: PELBO of the result ${withError(pelbo)}, log evidence ${withError(evidence)}`,
                    className: "bound-plot",
                    x: { label: "iteration", labelAnchor: "center", domain: [x0, x1 + 2 * room], ticks: Math.min(8, rows.length), tickFormat: whole },
                    y: { label: null, grid: true, ticks: 5, domain },
                    marks: [
                        gap > 0 &&
                            Plot.rectY(end, { x1: x0, x2: x1 + 2 * room, y1: pelbo.value, y2: evidence.value, fill: colour(2), fillOpacity: 0.16 }),
                        Plot.areaY(band, { x: "x", y1: "lo", y2: "hi", fill: colour(0), fillOpacity: 0.2, clip: true }),
                        curveMarks(rows),
                        Plot.dot(below, {
                            x: "x",
                            y: domain[0],
                            symbol: arrow,
                            rotate: 180,
                            r: 4,
                            dy: -5,
                            fill: colour(0),
                            title: (d) => `iteration ${d.x}: ${format(d.y, 5)}`,
                        }),
                        Number.isFinite(evidence.value) &&
                            Plot.ruleY([evidence.value], { stroke: colour(1), strokeWidth: 1.6, strokeDasharray: "5,3" }),
                        Plot.ruleX(
                            end.filter((d) => Number.isFinite(d.lo)),
                            { x: "x", y1: "lo", y2: "hi", strokeWidth: 1.6, marker: "tick", clip: true },
                        ),
                        Plot.dot(end, { x: "x", y: "y", symbol: "diamond", r: 5, fill: colour(2), stroke: "var(--paper)" }),
                    ],
                }),
            ];
        },
        { class: "medium", id: "bound" },
    );
}

// Masses by iteration; of the staged solver, whose cells are cut last, the weights of its mixture by frame.
function masses() {
    const rows = [];
    for (let j = 0; j < N; j++) for (const d of finite(column(`beta_${j + 1}`))) rows.push({ x: d.x, y: d.y, j });
    let name = "Masses of the cells",
        x = "iteration";
    if (new Set(rows.map((d) => d.x)).size < 2) {
        rows.length = 0;
        frames.forEach((frame) => frame.kind === "component" && frame.weight.forEach((w, j) => rows.push({ x: frame.evaluations, y: w, j })));
        [name, x] = ["Weights of the mixture (cells come last)", "evaluations"];
    }
    return figure(
        null,
        (width) => {
            if (new Set(rows.map((d) => d.x)).size < 2)
                return [
                    title("Masses"),
                    empty(
                        staged
                            ? "The run has no record of masses: the staged solver makes cells at the end."
                            : "The run has no record of masses.",
                    ),
                ];
            const last = Math.max(...rows.map((d) => d.j)),
                xs = [...new Set(rows.map((d) => d.x))],
                full = xs.flatMap((at) => Array.from({ length: last + 1 }, (_, j) => ({ x: at, j, y: 0 })));
            const at = new Map(full.map((d) => [`${d.x} ${d.j}`, d]));
            rows.forEach((d) => (at.get(`${d.x} ${d.j}`).y = d.y));
            return [
                title(name),
                plot({
                    width,
                    ...frame,
                    ariaLabel: name,
                    x: { label: x, labelAnchor: "center", ticks: Math.min(6, xs.length), tickFormat: whole },
                    y: { label: null, domain: [0, 1], ticks: 5 },
                    marks: [
                        Plot.areaY(full, {
                            x: "x",
                            y: "y",
                            z: "j",
                            fill: (d) => colour(d.j),
                            fillOpacity: 0.75,
                            stroke: "var(--paper)",
                            strokeWidth: 0.7,
                            order: "j",
                            title: (d) => `${d.j + 1}`,
                            render: (index, scales, values, dimensions, context, next) => {
                                const group = next(index, scales, values, dimensions, context);
                                if (x === "iteration") [...group.children].forEach((child, j) => child.setAttribute("data-particle", j));
                                return group;
                            },
                        }),
                    ],
                }),
            ];
        },
        { class: "medium" },
    );
}

function curves() {
    const none = "The run has no record of its iterations.";
    return h(
        "div",
        { class: "panels two" },
        boundCurve(),
        curve("Effective draws (ESS) of a batch", finite(column("ess")), none),
        curve(
            "Distortion",
            finite(column("distortion")),
            staged ? "Known only at the end: the staged solver fits a mixture first and makes cells last." : none,
        ),
        masses(),
    );
}

// ---- replay -----------------------------------------------------------------------------------------------------------------------------------
const stages = {
    explore: "search for modes",
    fit: "fit",
    trial: "trial of the mixture",
    probe: "search for missed tails",
    bend: "fit of bent coordinates",
    close: "final draws",
    certify: "walks that check the fit",
    finish: "chains that complete the fit",
    refine: "components refined",
    bound: "bound",
    pilot: "pilot",
    settle: "settling",
    average: "averaging",
    done: "the result",
};
const kinds = { ascent: "ascent", walk: "walk", component: "component", particle: "particle" };

// The bound that a frame knows: that of the result, or what was being fitted by then.
function boundText(frame) {
    if (frame.stage === "done") return `PELBO ${withError(pelbo)}${Number.isFinite(gap) ? `, log evidence ${withError(evidence)}` : ""}`;
    if (!Number.isFinite(frame.pelbo)) return "";
    const of =
        frame.stage === "explore" || frame.stage === "pilot" ? "ELBO of one Gaussian" : staged ? "ELBO of the mixture" : "PELBO by this iteration";
    return `${of} ${fixed(frame.pelbo, 3)}`;
}

const at = () => ({ x: axes[chosen.x]?.coordinate, y: axes[chosen.y]?.coordinate });
const plane = () => {
    const { x, y } = at();
    return D < 2 ? [0] : x != null && y != null && x !== y ? [x, y] : [0, 1];
};

// The components that were last known while others move.
const before = (f, kind) => {
    for (let i = f; i >= 0; i--) if (frames[i].kind === kind) return frames[i];
    return null;
};

function dots(frame, a, b) {
    return Array.from({ length: frame.n }, (_, k) => ({
        j: k,
        x: frame.column(a)[k],
        y: b === undefined ? 0 : frame.column(b)[k],
        w: frame.weight[k],
    })).filter((d) => Number.isFinite(d.x) && Number.isFinite(d.y));
}

function trail(f, a, b) {
    const kind = frames[f].kind,
        n = frames[f].n,
        out = [];
    for (let i = Math.max(0, f - 25); i <= f; i++)
        if (frames[i].kind === kind && frames[i].n === n) for (const d of dots(frames[i], a, b)) out.push({ ...d, i });
    return out;
}

// Boundaries between points on a line.
const edges = (points) =>
    points
        .map((d) => d.x)
        .sort((p, q) => p - q)
        .map((x, i, all) => (x + all[i - 1]) / 2)
        .slice(1);

function drawFrame(f, width, domains) {
    const frame = frames[f],
        [a, b] = plane(),
        points = dots(frame, a, b),
        cellsShown = frame.kind === "particle" || frame.kind === "component",
        flat = b === undefined;
    const [xs, ys] = domains,
        behind = cellsShown ? null : before(f, "component"),
        moving = ["particle", "component"].includes(frame.kind);
    const all = cellsShown && !flat ? Array.from({ length: frame.n }, (_, k) => frame.point(k)) : [],
        found = all.length > 1 && (frame.kind === "particle" || cells.metric) ? findCells(all, a, b, xs, ys, false) : null;
    const own = axes.findIndex((axis) => axis.coordinate === a),
        other = axes.findIndex((axis) => axis.coordinate === b);
    const mass = (d) => (Number.isFinite(d.w) ? Math.max(d.w, 0) : massScale.domain[1] / 12);
    const target = flat && own >= 0 ? density(own, "posterior") : null,
        peak = target ? Math.max(...target.map((d) => d.y)) : 1;
    const side = (x, [lo, hi]) => (x < lo ? -1 : x > hi ? 1 : 0),
        inFrame = (d) => !side(d.x, xs) && (flat || !side(d.y, ys)),
        shown = points.filter(inFrame),
        height = (d) => (Number.isFinite(d.w) ? d.w : 0.06), // on a line
        outside = points
            .filter((d) => !inFrame(d))
            .map((d) => ({ ...atEdge(d, side(d.x, xs), flat ? 0 : side(d.y, ys), domains), ...(flat ? { y: height(d) } : {}) }));
    return plot({
        width,
        height: flat ? 240 : Math.min(480, Math.max(320, width * 0.6)),
        marginLeft: 58,
        marginBottom: 44,
        marginTop: 16,
        grid: true,
        clip: true,
        className: "replay-plot",
        ariaLabel: "Replay of the fit",
        x: { label: coordinates[a], domain: xs, labelAnchor: "center" },
        y: flat ? { label: "weight", domain: [0, 1], labelAnchor: "center" } : { label: coordinates[b], domain: ys, labelAnchor: "center" },
        r: massScale,
        marks: [
            found &&
                ringsMark(found, {
                    class: "cells",
                    each: ({ j }) => ({
                        fill: colour(j),
                        "fill-opacity": 0.09,
                        stroke: "currentColor",
                        "stroke-opacity": 0.5,
                        ...(frame.kind === "particle" ? { "data-particle": j } : {}),
                    }),
                }),
            !flat &&
                own >= 0 &&
                other >= 0 &&
                draws.n &&
                drawsMark(axes[own].values(), axes[other].values(), null, colour, N, { plain: true, opacity: 0.1 }),
            behind && !flat && Plot.dot(dots(behind, a, b).filter(inFrame), { x: "x", y: "y", r: mass, stroke: "currentColor", strokeOpacity: 0.5 }),
            moving &&
                !flat &&
                Plot.line(trail(f, a, b), { x: "x", y: "y", z: "j", stroke: (d) => colour(d.j), strokeOpacity: 0.5, strokeWidth: 1.2, clip: true }),
            flat && target && Plot.areaY(target, { x: "x", y: (d) => (0.9 * d.y) / peak, fill: "currentColor", fillOpacity: 0.08 }),
            flat && moving && Plot.ruleX(edges(shown), { strokeDasharray: "3,3", strokeOpacity: 0.5 }),
            flat
                ? [
                      Plot.ruleX(shown, {
                          x: "x",
                          y: height,
                          stroke: (d) => (moving ? colour(d.j) : "currentColor"),
                          strokeWidth: 2,
                      }),
                      Plot.dot(shown, {
                          x: "x",
                          y: height,
                          fill: (d) => (moving ? colour(d.j) : "currentColor"),
                          r: 4,
                      }),
                  ]
                : Plot.dot(shown, {
                      x: "x",
                      y: "y",
                      r: moving ? mass : 3.2,
                      fill: (d) => (moving ? colour(d.j) : colour(6)),
                      symbol: (d) => symbol(moving ? d.j : 5),
                      stroke: "var(--paper)",
                      strokeWidth: 1,
                      ...(frame.kind === "particle" ? { render: tagged(shown, (d) => d.j) } : {}),
                  }),
            Plot.dot(outside, {
                x: "x",
                y: "y",
                rotate: "angle",
                symbol: arrow,
                r: 5,
                fill: (d) => (moving ? colour(d.j) : flat ? "currentColor" : colour(6)),
                title: "where",
            }),
            moving &&
                !flat &&
                frame.n <= 40 &&
                Plot.text(shown, {
                    x: "x",
                    y: "y",
                    text: (d) => String(d.j + 1),
                    dy: -18,
                    fontWeight: 700,
                    stroke: "var(--paper)",
                    fill: "currentColor",
                    strokeWidth: 4,
                }),
        ],
    });
}

// A point beyond the frame: the place on its edge, and the angle of an arrow that points out of it there.
function atEdge(d, right, up, [xs, ys]) {
    const inside = (x, [lo, hi]) => Math.min(Math.max(x, lo + 0.012 * (hi - lo)), hi - 0.012 * (hi - lo));
    return {
        j: d.j,
        x: inside(d.x, xs),
        y: inside(d.y, ys),
        angle: (Math.atan2(right, up) * 180) / Math.PI,
        where: `beyond the frame: ${[d.x, ...(D < 2 ? [] : [d.y])].map((x) => format(x)).join(", ")}`,
    };
}

// The rectangle that frames are shown in: where draws and particles of the result are, or, if asked for, where anything ever was.
function domains(everything) {
    const [a, b] = plane(),
        range = (i) => {
            const axis = axes.find((q) => q.coordinate === i),
                way = everything ? frames.flatMap((f) => [...f.column(i)]).filter(Number.isFinite) : [],
                ends = way.length ? [way.reduce((p, q) => Math.min(p, q)), way.reduce((p, q) => Math.max(p, q))] : [];
            return domainOf(axis ? axis.values() : [], [...ends, ...particles.map((p) => p.z[i])]);
        };
    return b === undefined ? [range(a), [0, 1]] : [range(a), range(b)];
}

function replay() {
    if (!frames.length) return [h("h3", {}, "Replay"), empty("This run has no history.csv, so there is nothing to replay.")];
    let timer = null,
        box = null;
    const slider = h("input", {
        type: "range",
        id: "frame",
        min: 1,
        max: frames.length,
        value: frames.length,
        step: 1,
        "aria-label": "Frame",
        oninput: () => show(),
    });
    const everything = h("input", {
        type: "checkbox",
        id: "everything",
        onchange: () => {
            box = null;
            drawing.redraw();
        },
    });
    const text = h("p", { class: "frame-text", role: "status" });
    const drawing = figure(
        D < 2
            ? "Height: weight or mass of a component or particle; dashed: boundaries between their cells; shaded: the posterior density. Grey marks of equal height are ascents to modes. Unless zoomed out, the axis fits the result; arrows at its ends are points beyond it."
            : `Faint dots: posterior draws. ${cells.metric ? `Cells ${D > 2 ? "in a slice through the posterior mean, " : ""}under the final metric${staged ? "; while the mixture is fitted, cells are those of its components" : ""}.` : ""} ${frames.some((f) => f.kind === "ascent") ? "Crosses: ascents to modes, and the search for missed tails; circles behind them: the components so far." : ""} Unless zoomed out, the axes fit the result; arrows at the edge are points beyond it.`,
        (width) => drawFrame(Number(slider.value) - 1, width, (box ??= domains(everything.checked))),
        { id: "replay" },
    );
    const describe = (f) => {
        const frame = frames[f];
        text.textContent =
            `Frame ${f + 1} of ${frames.length}: ${stages[frame.stage] ?? frame.stage}, ${frame.iteration ? `iteration ${frame.iteration}, ` : ""}${count(frame.evaluations)} evaluations; ${plural(frame.n, kinds[frame.kind] ?? "point")}` +
            (boundText(frame) && `; ${boundText(frame)}`);
        slider.setAttribute("aria-valuetext", text.textContent);
    };
    const show = () => {
        describe(Number(slider.value) - 1);
        drawing.redraw();
    };
    const go = (by) => {
        slider.value = Number(slider.value) + by;
        show();
    };
    const stop = () => {
        clearInterval(timer);
        timer = null;
        play.textContent = "\u25b6 Play";
        play.setAttribute("aria-pressed", "false");
    };
    const play = h(
        "button",
        {
            type: "button",
            id: "play",
            "aria-pressed": "false",
            onclick: () => {
                if (timer) return stop();
                if (Number(slider.value) >= frames.length) slider.value = 1;
                show();
                play.textContent = "\u23f8 Pause";
                play.setAttribute("aria-pressed", "true");
                timer = setInterval(
                    () => (Number(slider.value) >= frames.length ? stop() : go(1)),
                    Math.max(60, Math.min(250, 12000 / frames.length)),
                );
            },
        },
        "\u25b6 Play",
    );
    describe(frames.length - 1);
    onChoose(() => {
        box = null;
        drawing.redraw();
    });
    return [
        h("h3", {}, "Replay"),
        h(
            "div",
            { class: "controls replay" },
            play,
            h("button", { type: "button", "aria-label": "One frame back", onclick: () => go(-1) }, "\u2039"),
            slider,
            h("button", { type: "button", "aria-label": "One frame on", onclick: () => go(1) }, "\u203a"),
            D > 1 && axes.length > 1 ? chooser() : null,
            h(
                "label",
                { class: "toggle", title: "Axes that fit all points of all frames, not only the result" },
                everything,
                " zoom out to all points",
            ),
        ),
        text,
        drawing,
    ];
}

export function drawTraining(section) {
    section.append(...replay(), h("h3", {}, "By iteration"), curves());
}
