#!/usr/bin/env python3
"""documents.py SOURCE: would find a document that names a file, a section or a row of the policy table that does not exist.

Links of every Markdown file: their files and their anchors. Names in `code` that end like a source file: some file of the tree ends so.
The layout in docs/internals/architecture.md names files that exist, and all of src/. Names in `code` that look like rows of src/policy.def
(`part_*` for all that begin so). Sections of the method that
comments cite, and pages that rows of the policy table name."""
import glob
import os
import re
import subprocess
import sys

source = sys.argv[1]
os.chdir(source)
listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE, text=True)
files = [f for f in listed.stdout.split("\n") if os.path.isfile(f)] or [
    f for f in glob.glob("**", recursive=True) if os.path.isfile(f) and not f.startswith("build") and "node_modules/" not in f]
if len(files) < 100:
    sys.exit(f"{source} has {len(files)} files: expected the source tree")
known = {"/" + f for f in files}
problems = []

# Files that runs, users and builds make.
MADE = re.compile(r"(^|/)(run\.json|draws\.csv|particles\.csv|trace\.csv|history\.csv|results\.(csv|md)|theory\.md|report\.html|[A-Z]+\.\w+|"
                  r"(((test|cmd)_)?x|mine|model|my_model|tools|data|page|both|compared|options|schools|script|large|new|in|wrong|short)\.\w+)$")


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def anchors(path):
    """Anchors of the headings of a page, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text_of(path), flags=re.S | re.M), flags=re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        found.add(name)
    return found


def exists(name):
    return any(f.endswith("/" + name) for f in known)


for page in sorted(f for f in files if f.endswith(".md")):
    text = text_of(page)
    prose = re.sub(r"^```.*?^```|^    .*?$", "", text, flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(target):
            problems.append(f"{page}: the link {link} leads to no file")
        elif anchor and anchor not in anchors(target):
            problems.append(f"{page}: the link {link} leads to no section")
    if os.path.basename(page) == "CHANGELOG.md": # speaks of the past, too
        continue
    for code in re.findall(r"`([^`\n]+)`", prose):
        name = code.split()[0] if code.split() else ""
        if re.fullmatch(r"[\w./-]+\.(c|h|def|md|py|sh|js|mjs|txt)", name) and not MADE.search(name) and not exists(name.lstrip("./")):
            problems.append(f"{page}: there is no file {name}")

layout = re.search(r"^## Layout$(.*?)^## ", text_of("docs/internals/architecture.md"), flags=re.S | re.M).group(1)
named = set(re.findall(r"[\w./]+\.(?:c|h|def)\b", layout))
problems += [f"docs/internals/architecture.md: there is no file {n}" for n in sorted(named) if not exists(n)]
wildcards = [n.rstrip("*") for n in re.findall(r"\w+\*", layout)]
problems += [f"docs/internals/architecture.md: the layout does not name {f}" for f in files if re.match(r"src/.*\.c$", f)
             and not any(("/" + f).endswith("/" + n) for n in named) and not any(os.path.basename(f).startswith(w) for w in wildcards)]

rows = set(re.findall(r"^ROW\((\w+)", text_of("src/policy.def"), flags=re.M))
parts = {row.split("_")[0] for row in rows}
for page in ("docs/internals/staged.md", "docs/internals/finish.md", "docs/internals/nogradient.md", "docs/internals/bend.md"):
    for name in re.findall(r"`([a-z]+_[a-z_*]+)`", text_of(page)):
        if name.split("_")[0] in parts and not any(row == name or name.endswith("*") and row.startswith(name[:-1]) for row in rows):
            problems.append(f"{page}: there is no row {name} in src/policy.def")
for name in set(re.findall(r"\"(docs/[\w./-]+?\.md)", text_of("src/policy.def"))):
    if not os.path.exists(name):
        problems.append(f"src/policy.def: there is no file {name}")

sections = len(re.findall(r"^## \d+ ", text_of("docs/internals/method.md"), flags=re.M))
for path in (f for f in files if re.match(r"(src|models|svgd|tools|include|experiments|bench|tests)/.*\.(c|h|def)$", f)):
    for cited in re.findall(r"method, sections? ([\d, and]+)", text_of(path)):
        if any(not 1 <= int(n) <= sections for n in re.findall(r"\d+", cited)):
            problems.append(f"{path}: cites section {cited.strip()} of the method, which has {sections}")

print("\n".join(problems) or "documents name what exists")
sys.exit(bool(problems))
