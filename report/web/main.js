// main.js - the page: its head, sections, theme and what happens when it is resized or printed.
import { comparison, dir, D, N, notes, quantities, run, transformed } from "./data.js";
import { h, plural, redrawAll } from "./dom.js";
import { watchHighlight } from "./look.js";
import { drawComparison } from "./compare.js";
import { drawModel } from "./model.js";
import { drawParticles } from "./particles.js";
import { drawPosterior } from "./posterior.js";
import { drawTraining } from "./training.js";
import { drawVerdict } from "./verdict.js";

const started = performance.now();
const section = (id) => document.getElementById(id);
const titleOf = (id) => section(id).querySelector("h2").textContent;

function themeButton() {
    const modes = ["auto", "light", "dark"],
        button = h("button", {
            type: "button",
            id: "theme",
            title: "Light or dark page, or as set in the system",
            onclick: () => set(modes[(modes.indexOf(button.dataset.mode) + 1) % 3]),
        });
    const set = (mode) => {
        button.dataset.mode = mode;
        button.textContent = { auto: "\u25d0 Auto", light: "\u2600 Light", dark: "\u263e Dark" }[mode];
        if (mode === "auto") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = mode;
    };
    set("auto");
    return button;
}

// What the model was made from, as the summary says it.
function describeData() {
    const { target, rows, features, labels, standardized, prior, likelihood, design } = run.model ?? {},
        plain = labels?.[0] === "0" && labels?.[1] === "1",
        classes = labels?.length === 2 ? ` (${plain ? "0/1" : `"${labels[0]}" counts as 0, "${labels[1]}" as 1`})` : "";
    return [
        likelihood ? `${design?.formula}, likelihood ${likelihood}` : null,
        target === undefined || rows === undefined
            ? null
            : `Target ${target}${classes}; ${plural(rows, "row")}${run.data?.dropped ? ` (${run.data.dropped} dropped: values are missing)` : ""}, ${plural(features, "feature")}${likelihood ? "" : `, ${standardized ? "" : "not "}standardized`}`,
        run.priors
            ? `Priors: ${Object.entries(run.priors)
                  .map(([name, text]) => `${name} ~ ${text}`)
                  .join("; ")}`
            : prior === undefined
              ? null
              : `Prior: ${prior}`,
    ].filter((text) => text !== null);
}

function drawHead() {
    const model = String(run.model?.name ?? "model");
    document.title = `${model}: wvgd report`;
    section("head").append(
        h(
            "div",
            {},
            h("p", { class: "kicker" }, "wvgd report"),
            h("h1", {}, model),
            h(
                "p",
                { class: "quiet" },
                `${plural(D, "parameter")}${transformed ? `, ${plural(quantities.length, "quantity").replace("quantitys", "quantities")} shown` : ""}, ${plural(N, "cell")}, in ${dir}`,
            ),
            describeData().map((text) => h("p", { class: "quiet" }, text)),
        ),
        themeButton(),
    );
}

function drawContents(ids) {
    section("contents").append(
        h(
            "ul",
            {},
            ids.map((id) => h("li", {}, h("a", { href: `#${id}` }, titleOf(id)))),
        ),
    );
}

function drawAbout(target) {
    const options = Object.entries(run.options ?? {}).map(([name, value]) =>
        h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, String(value))),
    );
    target.append(h("p", {}, "Made by ", h("code", {}, String(run.command ?? "")), ` (wvgd ${run.version}).`));
    if (notes.length)
        target.append(
            h("h3", {}, "What is missing from this page"),
            h(
                "ul",
                { class: "notes" },
                notes.map((text) => h("li", {}, String(text))),
            ),
        );
    target.append(h("details", {}, h("summary", {}, plural(options.length, "option")), h("table", { class: "options" }, h("tbody", {}, options))));
}

function guarded(id, draw) {
    try {
        draw(section(id));
    } catch (error) {
        section(id).append(h("p", { class: "empty" }, `This part could not be drawn: ${error.message}`));
        console.error(error);
    }
}

function drawRun() {
    drawHead();
    guarded("verdict", drawVerdict);
    guarded("posterior", drawPosterior);
    guarded("particles", drawParticles);
    guarded("training", drawTraining);
    guarded("model", drawModel);
    guarded("about", drawAbout);
}

if (comparison) {
    drawComparison(section);
    section("head").append(themeButton());
} else drawRun();
drawContents(["verdict", "posterior", "particles", "training", "model", "about"].filter((id) => section(id) && !section(id).hidden));
watchHighlight();
redrawAll();

let width = document.body.clientWidth,
    waiting = null;
new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redrawAll, 150);
}).observe(document.body);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((element) => (element.open = true)));
document.documentElement.dataset.ready = String(Math.round(performance.now() - started));
