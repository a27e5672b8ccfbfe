import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { m } from "../messages";
import { clock } from "../ui/format";
import { useDark } from "../ui/theme";

export interface Curve {
  readonly label: string;
  readonly values: readonly (number | null)[];
  readonly dashed?: boolean;
}

const HEIGHT = 168;
const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6"];

/** A colour of the design as the canvas wants it: what the style sheet makes of it just now. */
function resolve(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

export function Chart({
  title,
  at,
  curves,
  format,
  limit,
  binary = false,
}: {
  title: string;
  binary?: boolean; //: steps of the axis are powers of two
  at: readonly number[];
  curves: readonly Curve[];
  format: (value: number) => string;
  limit: number | null;
}) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = useDark();
  const shape = `${dark} ${limit} ${curves.map((curve) => curve.label).join("|")}`;
  const shown = useRef({ at, curves, format, limit });
  shown.current = { at, curves, format, limit };

  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn anew only when it has another shape
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const grid = { stroke: resolve("--line"), width: 1 };
    const axis = {
      stroke: resolve("--ink-3"),
      grid,
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    // Under the cursor; else the newest.
    const shownValue = (u: uPlot, value: number | null, series: number, at: number | null): string => {
      const told =
        at === null
          ? ([...(u.data[series] ?? [])] as (number | null)[]).findLast((one) => one != null)
          : value;
      return told == null ? "" : shown.current.format(told);
    };
    const many = shown.current.curves.length > 1;
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { sync: { key: "resources" }, points: { size: 6 } },
        legend: { show: many || limit !== null, live: true },
        scales: {
          y: { range: (_, __, max) => [0, Math.max(max * 1.1, (limit ?? 0) * 1.05, Number.MIN_VALUE) || 1] },
        },
        axes: [
          { ...axis, space: 70, values: (_, ticks) => ticks.map((tick) => clock(new Date(tick * 1000))) },
          {
            ...axis,
            size: 66,
            ...(binary ? { incrs: POWERS } : {}),
            values: (_, ticks) => ticks.map((tick) => shown.current.format(tick)),
          },
        ],
        series: [
          {},
          ...shown.current.curves.map((curve, i) => ({
            label: curve.label,
            stroke: resolve(COLOURS[i % COLOURS.length] ?? "--accent"),
            width: 1.6,
            ...(curve.dashed ? { dash: [4, 3] } : {}),
            points: { show: shown.current.at.length < 3 },
            value: shownValue,
          })),
          ...(limit === null
            ? []
            : [
                {
                  label: m.resources.limit,
                  stroke: resolve("--red"),
                  width: 1,
                  dash: [6, 4],
                  points: { show: false },
                  value: shownValue,
                },
              ]),
        ],
      },
      dataOf(shown.current),
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(dataOf({ at, curves, limit }));
  }, [at, curves, limit]);

  return (
    <figure className="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} />
    </figure>
  );
}

function dataOf({
  at,
  curves,
  limit,
}: {
  at: readonly number[];
  curves: readonly Curve[];
  limit: number | null;
}): uPlot.AlignedData {
  const lines = curves.map((curve) => [...curve.values]);
  return [[...at], ...lines, ...(limit === null ? [] : [at.map(() => limit)])] as uPlot.AlignedData;
}
