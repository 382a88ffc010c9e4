// look.js - colours that people with any colour vision can tell apart (Okabe and Ito), and one highlighted particle for the whole page.
import { symbolCircle, symbolCross, symbolDiamond2, symbolSquare2, symbolStar, symbolTriangle2, symbolWye } from "d3";

const COLOURS = 8; // --c0 ... in page.css, lighter on a dark page
const downwards = {
    draw: (context, size) => {
        const s = Math.sqrt(size) * 0.7;
        context.moveTo(-s, -0.6 * s);
        context.lineTo(s, -0.6 * s);
        context.lineTo(0, 1.1 * s);
        context.closePath();
    },
};
// An arrow's head that points upwards, for points beyond a frame.
export const arrow = {
    draw: (context, size) => {
        const s = Math.sqrt(size);
        context.moveTo(0, -0.8 * s);
        context.lineTo(0.45 * s, 0.6 * s);
        context.lineTo(-0.45 * s, 0.6 * s);
        context.closePath();
    },
};
const symbols = [symbolCircle, symbolSquare2, symbolTriangle2, symbolDiamond2, symbolStar, symbolCross, symbolWye, downwards];
export const colour = (j) => `var(--c${j % COLOURS})`;
export const symbol = (j) => symbols[(j + Math.floor(j / COLOURS)) % symbols.length]; // other pairs of colour and shape after the first eight
export const posteriorColour = colour(0),
    ensembleColour = colour(1);

let lit = null;
const told = new Set();

function apply(root) {
    for (const element of root.querySelectorAll("[data-particle]"))
        element.classList.toggle("lit", lit !== null && element.dataset.particle === String(lit));
}

export function highlight(j) {
    if (j === lit) return;
    lit = j;
    document.documentElement.classList.toggle("has-lit", lit !== null);
    apply(document);
    told.forEach((tell) => tell(lit));
}
export const onHighlight = (tell) => told.add(tell);

// Hovering or focusing anything that belongs to a particle highlights the particle everywhere; Escape ends it.
export function watchHighlight() {
    const find = (target) => target instanceof Element && target.closest("[data-particle]");
    const on = (event) => {
        const element = find(event.target);
        highlight(element ? Number(element.dataset.particle) : null);
    };
    document.addEventListener("pointerover", on);
    document.addEventListener("focusin", on);
    document.addEventListener("pointerleave", () => highlight(null));
    document.addEventListener("keydown", (event) => event.key === "Escape" && highlight(null));
    document.addEventListener("drawn", (event) => apply(event.target));
}

// For Plot's marks: elements learn which particle they show. `of` gives it for an item of the data.
export const tagged = (data, of) => (index, scales, values, dimensions, context, next) => {
    const group = next(index, scales, values, dimensions, context);
    const holder = group.hasAttribute("clip-path") && group.firstElementChild?.tagName === "g" ? group.firstElementChild : group; // Plot wraps what it clips
    [...holder.children]
        .filter((child) => child.tagName !== "marker")
        .forEach((child, i) => {
            const j = index[i] === undefined ? null : of(data[index[i]] ?? data[0]);
            if (j != null) child.setAttribute("data-particle", j);
        });
    return group;
};
