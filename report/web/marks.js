// marks.js - marks for Observable Plot that draw many things as few elements.
import * as Plot from "@observablehq/plot";
import { create, line as makeLine } from "d3";

// Plot.plot with marks that may be left out (false, null) or come in lists.
export const plot = (options) => Plot.plot({ ...options, marks: options.marks.flat(Infinity).filter(Boolean) });

// A group that shows nothing outside the frame of the plot.
let clips = 0;
function framed(dimensions) {
    const { width, height, marginTop, marginRight, marginBottom, marginLeft } = dimensions,
        id = `frame-${++clips}`;
    const group = create("svg:g").attr("clip-path", `url(#${id})`);
    group
        .append("clipPath")
        .attr("id", id)
        .append("rect")
        .attr("x", marginLeft)
        .attr("y", marginTop)
        .attr("width", width - marginLeft - marginRight)
        .attr("height", height - marginTop - marginBottom);
    return group;
}

// One path for the draws of a cell: dots are strokes of length zero.
export function drawsMark(x, y, cell, colour, cells, attributes = {}) {
    return (index, scales, values, dimensions) => {
        const group = framed(dimensions)
            .attr("class", "draws")
            .attr("fill", "none")
            .attr("stroke-linecap", "round")
            .attr("stroke-width", attributes.width ?? 3.2)
            .attr("stroke-opacity", attributes.opacity ?? 0.5);
        const paths = Array.from({ length: cells + 1 }, () => []);
        for (let i = 0; i < x.length; i++)
            if (Number.isFinite(x[i]) && Number.isFinite(y[i]))
                paths[Math.min(cell ? cell[i] : cells, cells)].push(`M${scales.x(x[i]).toFixed(1)},${scales.y(y[i]).toFixed(1)}h0`);
        paths.forEach((path, j) => {
            if (!path.length) return;
            const element = group
                .append("path")
                .attr("d", path.join(""))
                .attr("stroke", j < cells ? colour(j) : "currentColor");
            if (j < cells) element.attr("data-particle", j);
        });
        return group.node();
    };
}

// Closed curves: [{j, rings}] with attributes for each.
export function ringsMark(shapes, style) {
    return (index, scales, values, dimensions) => {
        const group = framed(dimensions).attr("class", style.class ?? null),
            path = makeLine(
                (p) => scales.x(p[0]),
                (p) => scales.y(p[1]),
            );
        for (const shape of shapes) {
            if (!shape.rings.length) continue;
            const element = group.append("path").attr("d", shape.rings.map((ring) => path(ring) + "Z").join(""));
            for (const [name, value] of Object.entries(style.each(shape))) if (value != null) element.attr(name, value);
        }
        return group.node();
    };
}
