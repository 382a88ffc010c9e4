// page.mjs PACKAGES CHROMIUM [DIRECTORY]: only starts it (exit code 1: it does not start), or looks at the pages of the runs in DIRECTORY (page.sh makes them) in headless Chromium. Exit code 1 and a line for each thing that is wrong.
import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, executablePath, directory] = process.argv.slice(2);
const { chromium } = createRequire(join(packages, "here.js"))("./playwright-core");
let failures = 0;
const complain = (text) => {
    console.error(`FAILED: ${text}`);
    failures++;
};
const check = (good, text) => {
    if (!good) complain(text);
};

// A busy machine may take a minute for what takes a second where nothing else runs.
const launch = () => chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"], timeout: 180000 });
const browser = await launch().catch(launch);
if (!directory) {
    const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
    await page.goto("data:text/html,<p>here");
    await browser.close();
    process.exit(0);
}

// Opens the page of a run; complains about errors and requests.
async function open(run, options = {}) {
    const page = await browser.newPage({ viewport: { width: 1200, height: 900 }, ...options }),
        file = join(directory, run, "report.html");
    page.setDefaultTimeout(120000);
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && complain(`${run}: console: ${message.text()}`));
    page.on("pageerror", (error) => complain(`${run}: ${error.message}`));
    page.on("request", (request) => check(request.url() === `file://${file}`, `${run}: the page asks for ${request.url()}`));
    page.on("dialog", (dialog) => {
        complain(`${run}: the page opens a dialog`);
        dialog.dismiss();
    });
    const begin = Date.now();
    await page.goto(`file://${file}`);
    await page.waitForSelector("html[data-ready]", { timeout: 120000 });
    return { page, size: statSync(file).size / 1e6, seconds: (Date.now() - begin) / 1000 };
}

const places = (page, selector) =>
    page.$$eval(selector, (all) =>
        all.map((e) => {
            const box = e.getBoundingClientRect();
            return `${Math.round(box.x + box.width / 2)},${Math.round(box.y + box.height / 2)}`;
        }),
    );
const setSlider = (page, value) =>
    page.$eval(
        "#frame",
        (slider, v) => {
            slider.value = v;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
        },
        value,
    );
const shapes = '#replay g[aria-label="dot"] [data-particle]';

async function lookAtSections(page, run) {
    const text = await page.innerText("#verdict");
    for (const word of ["converged", "Log evidence", "PELBO", "Pareto k", "Effective draws", "Evaluations", "Time"])
        check(text.includes(word), `${run}: the verdict lacks "${word}"`);
    for (const id of ["posterior", "particles", "training"]) check((await page.$$(`#${id} svg`)).length > 0, `${run}: #${id} has no figure`);
    check((await page.$$(".empty")).length === 0 || run !== "joint", `${run}: something could not be drawn`);
}

// Draws lie in the cells that they belong to: the boundaries are the true ones.
async function lookAtCells(page, run) {
    const [inside, all] = await page.evaluate(() => {
        const svg = document.querySelector("#pair svg.pair-plot, #pair svg"),
            cells = new Map([...svg.querySelectorAll(".cells path")].map((p) => [p.dataset.particle, p]));
        let good = 0,
            seen = 0;
        for (const draws of svg.querySelectorAll(".draws path[data-particle]"))
            for (const m of draws.getAttribute("d").matchAll(/M([-\d.]+),([-\d.]+)/g)) {
                const point = new DOMPoint(Number(m[1]), Number(m[2]));
                if (![...cells.values()].some((c) => c.isPointInFill(point))) continue; // beyond the frame
                seen++;
                good += cells.get(draws.dataset.particle)?.isPointInFill(point) ? 1 : 0;
            }
        return [good, seen];
    });
    check(all > 500 && inside >= 0.995 * all, `${run}: ${inside} of ${all} draws lie in their cells`);
}

async function lookAtHighlight(page, run) {
    await page.locator('#pair g[aria-label="dot"] [data-particle="1"]').scrollIntoViewIfNeeded();
    await page.locator('#pair g[aria-label="dot"] [data-particle="1"]').hover({ force: true });
    const lit = await page.$$eval(".lit", (all) => [...new Set(all.map((e) => e.dataset.particle))].join());
    check(lit === "1", `${run}: hovering particle 2 highlights "${lit}"`);
    for (const where of ["#particle-table tr", "#pair .ellipses path", "#pair .draws path", "#pair .cells path", "#replay", "#particles figure"])
        check((await page.$$(`${where}.lit, ${where} .lit`)).length > 0, `${run}: hovering a particle does not highlight it in ${where}`);
    const faded = await page.$eval(
        '#pair .draws path[data-particle="0"]',
        (e) => Number(getComputedStyle(e).opacity) < 1 || e.getAnimations().length > 0,
    );
    check(faded, `${run}: the others do not fade`);
    await page.mouse.move(1, 1); // else the particle under the mouse may be lit again
    await page.focus('#particle-table tr[data-particle="2"]');
    check((await page.$$('#pair .draws path[data-particle="2"].lit')).length === 1, `${run}: a particle in focus is not highlighted`);
    await page.keyboard.press("Escape");
    check((await page.$$(".lit")).length === 0, `${run}: Escape does not end the highlight`);
}

async function lookAtReplay(page, run) {
    const last = await places(page, shapes);
    for (let value = 1; value < 60; value++) {
        // the first frame with particles
        await setSlider(page, value);
        if ((await page.innerText(".frame-text")).includes("particle")) break;
    }
    const early = await places(page, shapes),
        text = await page.innerText(".frame-text");
    check(early.length === last.length && early.some((p, i) => p !== last[i]), `${run}: the slider does not move the particles (${text})`);
    await page.focus("#frame");
    const before = await page.inputValue("#frame");
    await page.keyboard.press("ArrowRight");
    check((await page.inputValue("#frame")) === String(Number(before) + 1), `${run}: an arrow key does not move the slider`);
    await page.click("#play");
    await page
        .waitForFunction((value) => Number(document.querySelector("#frame").value) > value + 2, Number(before), { timeout: 60000 })
        .catch(() => complain(`${run}: the replay does not play`));
    await page.click("#play");
    check((await page.$$("#replay .cells path")).length > 1, `${run}: the replay has no cells`);
}

// The result as the last frame and the curve have it is that of the card; before that the fit names what its bound is of.
async function lookAtBound(page, run, early) {
    const card = await page.$$eval(
            ".tile",
            (all) => all.find((e) => e.querySelector("dt").textContent === "PELBO").querySelector("strong").textContent,
        ),
        last = await page.innerText(".frame-text"),
        key = await page.innerText("#bound .legend");
    check(last.includes("the result") && last.includes(`PELBO ${card}`), `${run}: the last frame has another PELBO than ${card}: ${last}`);
    check(key.includes(`PELBO of the result: ${card}`) && key.includes("log evidence"), `${run}: the curve has another PELBO than ${card}: ${key}`);
    const [mark, evidence, frame] = await page.$eval("#bound svg.bound-plot", (svg) => {
        const middle = (e) => e.getBoundingClientRect().y + e.getBoundingClientRect().height / 2;
        return [
            middle([...svg.querySelectorAll('g[aria-label="dot"]')].pop().firstElementChild),
            middle(svg.querySelector('g[aria-label="rule"] line')),
            svg.getBoundingClientRect().height,
        ];
    });
    check(mark - evidence > 0 && mark - evidence < frame, `${run}: the gap between PELBO and evidence has ${mark - evidence} pixels`);
    const texts = [];
    for (let value = 1; value <= 60; value++) {
        await setSlider(page, value);
        texts.push(await page.innerText(".frame-text"));
    }
    check(
        texts.some((text) => text.includes(early)),
        `${run}: no frame tells of the ${early}`,
    );
    check(!texts.some((text) => text.includes("search for modes") && text.includes("PELBO")), `${run}: a search for modes has a PELBO`);
    await setSlider(page, 1e9);
}

// The axes of the replay fit the result, and points beyond them are arrows; zoomed out everything is inside.
async function lookAtZoom(page, run) {
    const look = () =>
        page.$eval("#replay svg", (svg) => ({
            draws: svg.querySelector(".draws path").getBBox().width / svg.clientWidth,
            arrows: [...svg.querySelectorAll("title")].filter((title) => title.textContent.startsWith("beyond the frame")).length,
            points: svg.querySelectorAll('g[aria-label="dot"] path').length,
        }));
    let near = { arrows: 0 };
    for (let value = 1; value < 30 && !near.arrows; value++) {
        await setSlider(page, value);
        near = await look();
    }
    await page.focus("#everything");
    await page.keyboard.press("Space");
    const far = await look();
    check(near.draws > 0.6, `${run}: the draws take ${near.draws} of the width of the replay`);
    check(near.arrows > 0 && far.arrows === 0, `${run}: ${near.arrows} arrows, ${far.arrows} zoomed out`);
    check(
        far.draws < 0.5 && far.points === near.points,
        `${run}: zoomed out, ${far.points} of ${near.points} points, and draws on ${far.draws} of the width`,
    );
    await page.keyboard.press("Space");
    await setSlider(page, 1e9);
}

// Numbers on the map of distances can be read (WCAG 2: a contrast of 4.5), and there is a key.
async function lookAtDistances(page, run) {
    const [least, numbers, key] = await page.$eval("#distances", (figure) => {
        const luminance = (colour) => {
                const [r, g, b] = colour.match(/[\d.]+/g).map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            },
            fill = (e) => luminance(getComputedStyle(e).fill),
            cells = [...figure.querySelectorAll('g[aria-label="cell"] rect')],
            texts = [...figure.querySelectorAll('g[aria-label="text"] text')];
        const contrasts = texts.map((text, i) => {
            const [a, b] = [fill(text), fill(cells[i])].sort((p, q) => q - p);
            return (a + 0.05) / (b + 0.05);
        });
        return [Math.min(...contrasts), texts.length, figure.querySelector(".distance-key").textContent];
    });
    check(numbers > 2 && least >= 4.5, `${run}: a contrast of ${least} among ${numbers} numbers on the map of distances`);
    check(key.includes("dark is near"), `${run}: the map of distances has no key: ${key}`);
}

async function lookAtChoice(page, run) {
    const look = () =>
        page.evaluate(() =>
            [
                document.querySelector("#pair svg").getAttribute("aria-label"),
                document.querySelector("#pair .draws path").getAttribute("d").slice(0, 200),
                document.querySelector("#replay svg").textContent,
            ].join("|"),
        );
    const before = await look();
    await page.selectOption("select.choose-x >> nth=0", { index: 1 });
    check((await look()) !== before, `${run}: choosing a parameter does not redraw`);
    await page.selectOption("select.choose-x >> nth=0", { index: 0 });
    check((await look()) === before, `${run}: choosing it back does not redraw`);
}

async function lookAtTheme(page, run) {
    const paper = () => page.$eval("body", (body) => getComputedStyle(body).backgroundColor),
        light = await paper();
    await page.emulateMedia({ colorScheme: "dark" });
    const dark = await paper();
    check(light !== dark, `${run}: no dark page`);
    await page.click("#theme");
    check((await paper()) === light, `${run}: the theme cannot be chosen`);
    await page.emulateMedia({ colorScheme: "light" });
    check((await page.pdf()).length > 20000, `${run}: no PDF`);
}

// ---- the joint solver: everything moves -----------------------------------------------------------------------------------------------------
{
    const { page } = await open("joint");
    await lookAtSections(page, "joint");
    await lookAtCells(page, "joint");
    await lookAtHighlight(page, "joint");
    await lookAtBound(page, "joint", "PELBO by this iteration");
    await lookAtReplay(page, "joint");
    await lookAtChoice(page, "joint");
    await lookAtTheme(page, "joint");
    await page.close();
}
// ---- bent coordinates: contours of two sds hold 1 - exp(-2) of the posterior, where the map is told -----------------------------------------
if (existsSync(join(directory, "banana"))) {
    const { page } = await open("banana"),
        share = await page.evaluate(() => {
            const curve = document.querySelector("#pair .mixture path"),
                draws = [...document.querySelectorAll("#pair .draws path")]
                    .flatMap((path) => [...path.getAttribute("d").matchAll(/M([-\d.]+),([-\d.]+)/g)])
                    .map((m) => new DOMPoint(Number(m[1]), Number(m[2])));
            return draws.filter((point) => curve.isPointInFill(point)).length / draws.length;
        });
    check(Math.abs(share - (1 - Math.exp(-2))) < 0.06, `banana: the contour holds ${share} of the draws`); // four standard errors of 500 effective draws
    check((await page.$$("#pair .ellipses path")).length === 4, "banana: no contours of the particles");
    await page.close();
}
for (const [run, curves] of [["hierarchy", true], ...Array.from({ length: 10 }, (_, i) => [`map${i}`, false])]) {
    const { page } = await open(run),
        found = await page.$$eval("#pair .ellipses path", (all) => all.filter((e) => (e.getAttribute("d") ?? "").length > 0).length),
        caption = await page.innerText(".pair-caption");
    check(found === (curves ? 4 : 0), `${run}: ${found} contours`);
    check(caption.includes("are missing") === !curves && caption.includes("bent coordinates"), `${run}: the caption is "${caption}"`);
    check((await page.$$("#pair .draws path")).length > 0, `${run}: no draws`);
    await page.close();
}
for (const run of ["staged", "own"]) {
    const { page } = await open(run, { colorScheme: "dark" });
    await lookAtSections(page, run);
    await lookAtCells(page, run);
    await lookAtBound(page, run, "ELBO of the mixture");
    await lookAtZoom(page, run);
    await lookAtDistances(page, run);
    await page.close();
}

// ---- several runs ---------------------------------------------------------------------------------------------------------------------------
{
    const { page } = await open("compared");
    const text = await page.innerText("main");
    for (const word of ["The data support", "Bayes factor", "Parameters", "--features a", "Priors"]) check(text.includes(word), `compared: its page lacks "${word}"`);
    check((await page.$$("#comparison tbody tr")).length === 2, "compared: not a row for each run");
    check((await page.$$("main svg")).length === 5, `compared: ${(await page.$$("main svg")).length} figures, expected two of the evidence and those of a, intercept and log_sigma`);
    await page.close();
}

// ---- chains that completed the fit, and walks that looked at it --------------------------------------------------------------------------------
{
    const { page } = await open("chains");
    const text = await page.innerText("#verdict");
    for (const word of ["Chains", "128 \u00d7", "settled; between-chain errors", "split R", "acceptance 0.", "autocorrelation", "bridge between draws and chains", "Walks", "reached points"])
        check(text.includes(word), `chains: the verdict lacks "${word}"`);
    check(!text.includes("NaN") && !text.includes("undefined"), "chains: a number is missing");
    await page.close();
}

// ---- model pages ----------------------------------------------------------------------------------------------------------------------------
for (const [run, wanted] of [
    ["one", ["cut off at the boundary", "target"]],
    ["gp", ["Particle 1: mass", "length scale"]],
    ["hostile", ["Calibration", "Brier", "Replicated data", "Effects"]],
    ["glm", ["Predictions and data", "Residuals", "Replicated data", "Effects"]],
    ["line", ["Residuals", "contain", "Replicated data", "maximum", "Effects", "The mean of y"]],
]) {
    const { page } = await open(run);
    const text = await page.innerText("#model");
    for (const word of wanted) check(text.includes(word), `${run}: its page lacks "${word}"`);
    check((await page.$$("#model svg")).length > 0 && (await page.$$("#model .empty")).length === 0, `${run}: nothing is drawn for the model`);
    await page.close();
}

// ---- hostile names --------------------------------------------------------------------------------------------------------------------------
{
    const { page } = await open("hostile");
    const names = await page.$$eval("#parameters th[scope=row]", (all) => all.map((e) => e.textContent));
    for (const name of [
        "<script>window.hurt=1</script>",
        "</script><img src=x onerror=window.hurt=1>",
        "<!--<script>",
        "a\"b'c`${window.hurt=1}",
        "caf\u00e9\u2028 & <b>bold</b>",
        "constructor",
        "__proto__",
    ])
        check(names.includes(name), `hostile: the name ${JSON.stringify(name)} is not shown as it is: ${JSON.stringify(names)}`);
    for (let i = 0; i < 5; i++) await page.selectOption("select.choose-y >> nth=0", { index: i });
    const found = await page.evaluate(() => [
        window.hurt,
        document.querySelectorAll("script").length,
        document.querySelectorAll("img, b:not(.remedy b), iframe, object").length,
    ]);
    check(found[0] === undefined && found[1] === 2 && found[2] === 0, `hostile: names have become markup: ${found}`);
    await page.close();
}

// ---- a large run ----------------------------------------------------------------------------------------------------------------------------
{
    const { page, size, seconds } = await open("large");
    console.log(`10,000 draws, 200 parameters, 100 particles: ${size.toFixed(2)} MB, loaded in ${seconds.toFixed(2)} s`);
    check(size < 10, `large: the page has ${size} MB`);
    check(seconds < 60, `large: the page takes ${seconds} s`); // 1 to 2 s where nothing else runs
    await page.fill("#search", "theta[19");
    check((await page.$$("#parameters tbody tr")).length === 11, "large: the search does not find 11 parameters");
    await page.click("#parameters tbody tr:nth-child(3) .pick button >> nth=0");
    check((await page.getAttribute("#pair svg", "aria-label")).startsWith("theta[191]"), "large: the table does not choose the parameter");
    await page.close();
}

await browser.close();
process.exit(failures ? 1 : 0);
