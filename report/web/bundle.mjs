// bundle.mjs PACKAGES PAGE: page.html with page.css and main.js, and all that it imports, inside; the data of a run go where @@WVGD-DATA@@ stands. The script is allowed by its hash.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [packages, page] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const { buildSync, transformSync } = createRequire(join(packages, "here.js"))("./esbuild");

const script = buildSync({
    entryPoints: [join(here, "main.js")],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2020",
    charset: "ascii",
    legalComments: "inline",
    nodePaths: [packages],
}).outputFiles[0].text.trim();
const style = transformSync(readFileSync(join(here, "page.css"), "utf8"), { loader: "css", minify: true }).code.trim();
const licences = ["@observablehq/plot", "d3"]
    .map((name) => `${name}: ${readFileSync(join(packages, name, "LICENSE"), "utf8").trim()}`)
    .join("\n\n")
    .replace(/-->/g, "");
const hash = createHash("sha256").update(script).digest("base64");
if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");

const put = { SCRIPT: script, STYLE: style, LICENCES: licences, HASH: hash };
const text = readFileSync(join(here, "page.html"), "utf8").replace(/@@(SCRIPT|STYLE|LICENCES|HASH)@@/g, (_, name) => put[name]);
mkdirSync(dirname(page), { recursive: true });
writeFileSync(page + ".partial", text);
renameSync(page + ".partial", page);
