// verdict.js - the answer first: converged or not, reliable or not, with the numbers behind it and what to do.
import * as data from "./data.js";
import { count, fixed, format, h, plural, seconds, withError } from "./dom.js";

const stops = {
    converged: "The run converged",
    finished: "The run converged: Hamiltonian chains completed it",
    max_iter: "The run reached its limit of iterations before it converged",
    max_evaluations: "The run reached its limit of evaluations before it converged",
    time_up: "The run reached its time limit before it converged",
    stopped: "The run was stopped before it converged",
    running: "The run has not ended",
};

// "what is wrong: what to do about it", as the engine writes it.
function split(text) {
    const at = Math.max(text.lastIndexOf(": "), text.lastIndexOf("; "));
    if (text.includes("its first message: ")) return { problem: text, remedy: "check the model at such points" };
    return at > 0 ? { problem: text.slice(0, at), remedy: text.slice(at + 2) } : { problem: text };
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
const praise = (text) => h("li", {}, sentence(text));

function problem(text) {
    const { problem, remedy } = split(text);
    return h("li", {}, sentence(problem), remedy ? h("span", { class: "remedy" }, h("b", {}, "Remedy: "), sentence(remedy)) : null);
}

// Both are estimates: the bound may come out above the evidence.
function gapText(gap) {
    if (!Number.isFinite(gap)) return "lower bound on the log evidence";
    return gap >= 0
        ? `lower bound, \u00b1 standard error; ${format(gap, 2)} nats below the evidence`
        : `lower bound, \u00b1 standard error; ${format(-gap, 2)} nats above the evidence: both are estimates`;
}

const tile = (name, value, text) =>
    h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, h("strong", {}, value), text ? h("span", {}, text) : null));

// Walks that looked for mass that the final draws missed.
function walks(c) {
    if (!c || !(c.walks > 0)) return null;
    return tile(
        "Walks",
        count(c.walks),
        `from the final draws; ${count(c.outside)} reached points where the draws lack mass; ${count(c.evaluations)} of the evaluations`,
    );
}

// Chains that completed the fit, if there were any.
function chains(f) {
    if (!f || !(f.trajectories > 0)) return null;
    return tile(
        "Chains",
        `${count(f.chains)} \u00d7 ${count(f.trajectories)}`,
        `${f.result}; between-chain errors ${format(f.mean_se ?? NaN, 2)} sds of means, ${format(f.sd_se ?? NaN, 2)} of log sds; split R\u0302 ${fixed(f.rhat ?? NaN, 3)}; ` +
            `acceptance ${fixed(f.acceptance ?? NaN, 2)}, of jumps ${fixed(f.jumps ?? NaN, 2)}; autocorrelation ${fixed(f.autocorrelation ?? NaN, 1)} trajectories; ${count(f.states)} states among the draws; ${count(f.evaluations)} of the evaluations`,
    );
}

function tiles() {
    const { run, evidence, pelbo, gap, diagnostics: d, distortion } = data,
        s = run.seconds ?? {},
        modes = run.modes ?? {};
    const kGood = d.k < d.limit;
    return h(
        "dl",
        { class: "tiles" },
        tile("Log evidence", withError(evidence), `${run.finish?.rungs ? "ladder of chains" : run.finish?.states ? "bridge between draws and chains" : "importance sampling"} \u00b1 standard error, nats`),
        tile("PELBO", withError(pelbo), gapText(gap)),
        tile(
            "Pareto k\u0302",
            fixed(d.k, 2),
            Number.isFinite(d.k)
                ? `${kGood ? "below" : "above"} the limit ${fixed(d.limit, 2)}: the draws ${kGood ? "cover" : "do not cover"} the tails`
                : "not computed: too few draws in the tail",
        ),
        tile("Effective draws", count(d.ess), `ESS of the ${count(d.draws)} final draws`),
        tile(
            "Evaluations",
            count(run.evaluations),
            `of density and gradient, in ${plural(run.iterations, "iteration")}` + (run.bad_points ? `; ${plural(run.bad_points, "bad point")}` : ""),
        ),
        tile("Time", seconds(s.total), `${seconds(s.model)} of it in the model`),
        tile(
            "Modes",
            modes.starts ? count(modes.found) : "\u2013",
            modes.starts
                ? `from ${plural(modes.starts, "start")}; ${count(modes.hit_once)} found only once; ${modes.expected_unseen == null ? "too few to estimate how many are missed" : `expected number not found: ${format(modes.expected_unseen, 3)}`}`
                : "not searched for",
        ),
        walks(run.certificate),
        chains(run.finish),
        tile("Distortion", withError(distortion), "mean cost between a posterior point and its particle"),
    );
}

export function drawVerdict(section) {
    const { run, verdict, diagnostics } = data,
        stop = stops[run.stop] ?? `The run ended: ${run.stop}`,
        warnings = diagnostics.warnings;
    const good = verdict.reliable;
    section.append(
        h(
            "div",
            { class: `banner ${good ? "good" : "bad"}`, role: "status" },
            h("span", { class: "mark", "aria-hidden": "true" }, good ? "\u2713" : "!"),
            h(
                "div",
                {},
                h(
                    "p",
                    { class: "headline" },
                    good
                        ? `${stop}. No problems detected${data.quantities.some((q) => q.heavy) ? ", except for what is marked *" : ""}${warnings.length ? " in the computation, but see the warnings" : ""}.`
                        : run.stop === "converged" || run.stop === "finished"
                          ? `${stop}, but the result is unreliable.`
                          : `${stop}. The result is unreliable.`,
                ),
                h(
                    "p",
                    {},
                    good
                        ? "What was checked:"
                        : "The reasons, and what to do:",
                ),
                h("ul", {}, verdict.reasons.map(good ? praise : problem)),
            ),
        ),
    );
    if (warnings.length) section.append(h("h3", {}, plural(warnings.length, "warning")), h("ul", { class: "warnings" }, warnings.map(problem)));
    section.append(tiles());
}
