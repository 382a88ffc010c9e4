// fetch.mjs LOCK DIRECTORY PACKAGE...: puts PACKAGE..., and what they depend on, into DIRECTORY (a node_modules) as package-lock.json pins them.
// For machines with Node.js but without npm, whose Debian package brings 370 others. Each archive comes from the registry (npm_config_registry, or the public one) and must
// have the SHA-512 that the lock file names. What is there already in the right version is left alone. Exit code 1 and one line on stderr if something is missing.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [lockFile, directory, ...roots] = process.argv.slice(2);
const lock = JSON.parse(readFileSync(lockFile, "utf8")).packages;
const registry = (process.env.npm_config_registry || "https://registry.npmjs.org").replace(/\/+$/, "");

/* Where the lock file puts `name` for a package that lies at `from`. */
function place(name, from) {
    for (let at = from; ; at = at.slice(0, Math.max(at.lastIndexOf("/node_modules/"), 0))) {
        const path = (at ? at + "/" : "") + "node_modules/" + name;
        if (lock[path]) return path;
        if (!at) return null;
    }
}

const fits = (list, value) => !list || list.includes(value);

/* All places that the packages need, on this machine. */
function collect(names, from, found) {
    for (const name of names) {
        const path = place(name, from),
            entry = path && lock[path];
        if (!entry) throw new Error(`${name} is not in ${lockFile}`);
        if (found.has(path) || !fits(entry.os, process.platform) || !fits(entry.cpu, process.arch)) continue;
        found.add(path);
        collect(Object.keys({ ...entry.dependencies, ...entry.optionalDependencies }), path, found);
    }
    return found;
}

function isThere(path, version) {
    try {
        return JSON.parse(readFileSync(join(path, "package.json"), "utf8")).version === version;
    } catch {
        return false;
    }
}

async function download(url) {
    for (let attempt = 1; ; attempt++)
        try {
            const answer = await fetch(url, { signal: AbortSignal.timeout(30000) });
            if (!answer.ok) throw new Error(`the registry answers ${answer.status}`);
            return Buffer.from(await answer.arrayBuffer());
        } catch (error) {
            if (attempt === 3) throw new Error(`${url}: ${error.cause?.code || error.cause?.message || error.message}`);
        }
}

async function install(path) {
    const { version, integrity } = lock[path],
        name = path.slice(path.lastIndexOf("node_modules/") + 13),
        target = join(directory, path.slice(13));
    if (isThere(target, version)) return 0;
    const archive = await download(`${registry}/${name}/-/${name.slice(name.indexOf("/") + 1)}-${version}.tgz`);
    const [kind, wanted] = [integrity.slice(0, 6), integrity.slice(7)];
    if (kind !== "sha512" || createHash("sha512").update(archive).digest("base64") !== wanted)
        throw new Error(`${name} ${version} is not what the lock file names: its hash differs`);
    const file = `${target}.tgz`,
        partial = `${target}.partial`;
    rmSync(partial, { recursive: true, force: true });
    mkdirSync(partial, { recursive: true });
    writeFileSync(file, archive);
    execFileSync("tar", ["-xzf", file, "-C", partial, "--strip-components=1", "--no-same-owner"]);
    rmSync(file);
    if (existsSync(target)) rmSync(target, { recursive: true });
    renameSync(partial, target);
    return 1;
}

try {
    const places = [...collect(roots, "", new Set())].sort(); // those inside others come after them
    let next = 0,
        count = 0;
    const worker = async () => {
        while (next < places.length) {
            const added = await install(places[next++]);
            count += added;
        }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
    console.log(`${places.length} packages, ${count} of them new`);
} catch (error) {
    console.error(error.message);
    process.exit(1);
}
