// dom.js - elements and numbers. Text only ever becomes text: nothing here parses HTML.
export function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (value === true) element.setAttribute(name, "");
        else if (value !== false && value != null) element.setAttribute(name, value);
    element.append(...children.flat().filter((child) => child != null && child !== false));
    return element;
}

const plain = (text) => text.replace("-", "\u2212");

// Digits that matter: 1234567, 0.01234, 1.2e-7. En dash: no number.
export function format(x, digits = 4) {
    if (!Number.isFinite(x)) return "\u2013";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e7 || size < 1e-4)
        return x
            .toExponential(Math.max(digits - 2, 1))
            .replace(/-/g, "\u2212")
            .replace("e+", "e");
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return plain(size >= 1e4 ? Math.round(x).toLocaleString("en-US") : x.toFixed(Math.min(decimals, 8)));
}
export const fixed = (x, decimals) =>
    Number.isFinite(x) ? plain(Math.abs(x) < 0.5 * 10 ** -decimals ? (0).toFixed(decimals) : x.toFixed(decimals)) : "\u2013";
export const count = (x) => (Number.isFinite(x) ? Math.round(x).toLocaleString("en-US") : "\u2013");
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// A value and its standard error, both to the digit that the error allows.
export function withError({ value, se }) {
    if (!Number.isFinite(value)) return "\u2013";
    if (!Number.isFinite(se)) return format(value, 5);
    const decimals = se > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(se)))) : 4;
    return `${fixed(value, decimals)} \u00b1 ${fixed(se, decimals)}`;
}

export const seconds = (s) =>
    !Number.isFinite(s)
        ? "\u2013"
        : s < 1
          ? `${format(s * 1000, 2)} ms`
          : s < 120
            ? `${format(s, 2)} s`
            : s < 7200
              ? `${format(s / 60, 2)} min`
              : `${format(s / 3600, 2)} h`;

// A figure with a caption; `draw` gives its content and is called again when the page changes its width.
const figures = new Set();
export function figure(caption, draw, attributes = {}) {
    const holder = h("div", { class: "plot" }),
        element = h("figure", attributes, holder, caption ? h("figcaption", {}, caption) : null);
    element.measure = () => holder.clientWidth;
    element.redraw = (width = element.measure()) => {
        let content;
        try {
            content = draw(Math.max(220, Math.round(width || 480)));
        } catch (error) {
            content = empty(`This figure could not be drawn: ${error.message}`);
            console.error(error);
        }
        holder.replaceChildren(...[content].flat().filter(Boolean));
        element.dispatchEvent(new CustomEvent("drawn", { bubbles: true }));
    };
    figures.add(element);
    return element;
}

// All widths are measured before anything is drawn: the browser lays the page out once.
export function redrawAll() {
    const shown = [...figures].filter((element) => element.isConnected),
        widths = shown.map((element) => element.measure());
    shown.forEach((element, i) => element.redraw(widths[i]));
}
export const forget = (parent) => parent.querySelectorAll("figure").forEach((element) => figures.delete(element));

export const title = (text) => h("p", { class: "title" }, text);
export const empty = (text) => h("p", { class: "empty" }, text);
