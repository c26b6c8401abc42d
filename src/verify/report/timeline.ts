/**
 * The timeline of a workload: a row per name, a bar per hold, coloured by process, labelled with its token; a cross
 * where a reply was lost, a dot where a call was refused. Bounded, so that a browser can show it: it says what it
 * leaves out.
 */

import type { Operation } from "../history.js";
import type { WorkloadResult } from "../result.js";
import { type Hold, holdsOf } from "./holds.js";
import { type Html, html, hues } from "./page.js";
import { grouped, secondsText } from "./words.js";

const windowMaxMs = 60_000;
const rowsMax = 12;
const marksMax = 4000;
const pxPerMs = 0.06;
const rowPx = 26;
const headPx = 22;
/** Digits of a token are about this wide. */
const digitPx = 6.5;

export function timeline(result: WorkloadResult): Html {
  const { operations } = result.history;
  const accused = new Set(
    result.verdict.violations
      .filter(({ invariant }) => invariant !== "I29")
      .flatMap((violation) => violation.operations.map((nth) => operations[nth])),
  );
  const window = windowOf(operations, accused);
  const names = namesShown(operations, result);
  const isShown = ({ from, to }: { from: number; to: number }): boolean =>
    to >= window.from && from <= window.to;
  const holds = holdsOf(operations).filter((hold) => names.includes(hold.name) && isShown(hold));
  const marks = operations.filter(
    ({ call, reply, began }) =>
      (reply.kind === "unknown" || reply.kind === "refused") &&
      "name" in call &&
      names.includes(call.name) &&
      isShown({ from: began, to: began }),
  );
  const processes = [...new Set(holds.map(({ process }) => process))].sort();
  const drawing = new Drawing(window, names, processes);
  const leases = new Set([...accused].map((operation) => leaseOf(operation)));
  const shown = { holds: holds.slice(0, marksMax), marks: marks.slice(0, marksMax) };
  return html`${leftOut(result, window, names.length, holds.length + marks.length - shown.holds.length - shown.marks.length)}
<div class="lanes"><ol>${names.map((name) => html`<li title="${name}">${short(name)}</li>`)}</ol><div>
<svg width="${drawing.width}" height="${drawing.height}" role="img" aria-label="Holders of ${names.length} names over time">
${drawing.ticks()}
${shown.holds.map((hold) => drawing.bar(hold, leases.has(hold.lease)))}
${shown.marks.map((operation) => drawing.mark(operation))}
</svg></div></div>
<p class="legend">Bars are leases by process, labelled with their fencing token; × a reply that was lost, ● a call that was refused:
${processes.map((process, nth) => html`<i class="p${nth % hues.length}"></i>${process}`)}</p>`;
}

interface Window {
  readonly from: number;
  readonly to: number;
}

/** The first minute, or the minute around the first operation that is accused. */
function windowOf(operations: readonly Operation[], accused: ReadonlySet<Operation | undefined>): Window {
  const at = [...accused].reduce(
    (least, operation) => Math.min(least, operation?.began ?? least),
    Number.POSITIVE_INFINITY,
  );
  const last = operations.reduce(
    (latest, { began, ended }) => Math.max(latest, Number.isFinite(ended) ? ended : began),
    0,
  );
  const from = Number.isFinite(at) && at > windowMaxMs ? at - windowMaxMs / 2 : 0;
  return { from, to: Math.min(last, from + windowMaxMs) };
}

/** Names with violations come first. */
function namesShown(operations: readonly Operation[], { verdict }: WorkloadResult): string[] {
  const all = new Set(operations.flatMap(({ call }) => ("name" in call ? [call.name] : [])));
  const accused = new Set([...verdict.violations.map(({ name }) => name), ...verdict.unknown]);
  return [...all]
    .sort((one, other) => Number(accused.has(other)) - Number(accused.has(one)) || (one < other ? -1 : 1))
    .slice(0, rowsMax);
}

const leaseOf = (operation: Operation | undefined): string | undefined => {
  if (operation?.reply.kind === "granted") return operation.reply.lease;
  return operation !== undefined && "lease" in operation.call
    ? (operation.call.lease ?? undefined)
    : undefined;
};

/** The prefix of the run says nothing here. */
const short = (name: string): string => name.split("/").at(-1) ?? name;

function leftOut(result: WorkloadResult, window: Window, rows: number, marks: number): Html {
  const { operations } = result.history;
  const end = operations.reduce((latest, { began }) => Math.max(latest, began), 0);
  const parts = [
    ...(result.verdict.names > rows ? [`${result.verdict.names - rows} more names`] : []),
    ...(end > window.to
      ? [`everything after ${secondsText(window.to)} (the run took ${secondsText(end)})`]
      : []),
    ...(window.from > 0 ? [`everything before ${secondsText(window.from)}`] : []),
    ...(marks > 0 ? [`${grouped(marks)} bars and marks`] : []),
  ];
  return parts.length === 0
    ? html``
    : html`<p class="soft">Left out: ${parts.join("; ")}. A report in JSON has it all.</p>`;
}

class Drawing {
  readonly width: number;
  readonly height: number;

  constructor(
    readonly window: Window,
    readonly names: readonly string[],
    readonly processes: readonly string[],
  ) {
    this.width = Math.ceil((window.to - window.from) * pxPerMs) + 20;
    this.height = headPx + names.length * rowPx;
  }

  #x(at: number): number {
    return Math.round(10 * (Math.max(0, at - this.window.from) * pxPerMs)) / 10;
  }

  #y(name: string): number {
    return headPx + this.names.indexOf(name) * rowPx;
  }

  ticks(): Html[] {
    const ticks: Html[] = [];
    for (let at = this.window.from; at <= this.window.to; at += 1000) {
      const seconds = Math.round(at / 1000);
      const x = this.#x(at);
      const label =
        seconds % 2 === 0 ? html`<text class="time" x="${x + 3}" y="11">${seconds} s</text>` : html``;
      ticks.push(html`<line class="tick" x1="${x}" x2="${x}" y1="0" y2="${this.height}"/>${label}`);
    }
    return ticks;
  }

  bar(hold: Hold, isAccused: boolean): Html {
    const x = this.#x(hold.from);
    const width = Math.max(1.5, Math.round(10 * (this.#x(Math.min(hold.to, this.window.to)) - x)) / 10);
    const y = this.#y(hold.name) + 2;
    const label =
      width > digitPx * String(hold.token).length + 2
        ? html`<text class="token" x="${x + 2}" y="${y + 11}">${hold.token}</text>`
        : html``;
    const says = `token ${hold.token}, ${hold.process}, ${secondsText(hold.from)} – ${secondsText(hold.to)}, ${hold.how}, lease ${hold.lease}`;
    const colour = this.processes.indexOf(hold.process) % hues.length;
    return html`<g><title>${says}</title><rect class="p${colour}${isAccused ? " accused" : ""}" x="${x}" y="${y}" width="${width}" height="15" rx="2"/>${label}</g>`;
  }

  mark({ call, reply, began, process }: Operation): Html {
    const x = this.#x(began);
    const y = this.#y("name" in call ? call.name : "") + 21;
    const why = reply.kind === "unknown" ? reply.why : reply.kind === "refused" ? reply.code : "";
    const title = html`<title>${call.op} by ${process} at ${secondsText(began)}: ${reply.kind}, ${why}</title>`;
    if (reply.kind === "refused")
      return html`<circle class="refused" cx="${x}" cy="${y}" r="2">${title}</circle>`;
    return html`<path class="lost" d="M${x - 2.5} ${y - 2.5}l5 5m0 -5l-5 5">${title}</path>`;
  }
}
