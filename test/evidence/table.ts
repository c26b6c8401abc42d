// What the cells found, as text: the table, the counters, and for each red cell why it is red.
import { lossRates } from "../../src/verify/result.js";
import type { Cell } from "./cell.js";

type Row = readonly (string | number)[];

const heads = [
  "engine",
  "fault",
  "histories",
  "operations",
  "strikes",
  "in flight",
  "lost replies",
  "violations",
  "unknown",
  "",
] as const;

export const violationsOf = ({ results }: Cell): number =>
  results.reduce((total, { verdict }) => total + verdict.violations.length, 0);
export const unknownOf = ({ results }: Cell): number =>
  results.reduce((total, { verdict }) => total + verdict.unknown.length, 0);

export const isRed = (cell: Cell): boolean => reasons(cell).length > 0;

/** A promise was broken, or could not be judged; any other red cell only showed too little. */
const isBroken = (cell: Cell): boolean =>
  violationsOf(cell) > 0 || unknownOf(cell) > 0 || cell.failure !== undefined;

/** Why a cell is red; empty when it is green. */
export function reasons(cell: Cell): string[] {
  return [
    ...(cell.failure === undefined ? [] : [cell.failure]),
    ...cell.results.flatMap(({ workload, verdict, tooLittle }) => [
      ...verdict.violations.map(({ invariant, name, says }) => `${workload}: ${invariant} ${name}: ${says}`),
      ...verdict.unknown.map((name) => `${workload}: no verdict on ${name}`),
      ...tooLittle.map((little) => `${workload}: ${shortage(little)}`),
    ]),
    ...cell.tooLittle.map((little) =>
      little.situation === "tookEffect" ? effectless(cell, little) : `the fault: ${shortage(little)}`,
    ),
  ];
}

const shortage = (little: Cell["tooLittle"][number]): string =>
  `${little.situation} ${little.reached} times, less than ${little.needed}: the run shows too little (on a slow machine give it more time with --seconds)`;

const effectless = ({ proof, tally }: Cell, { reached, needed }: Cell["tooLittle"][number]): string =>
  `the fault: ${reached} of ${tally.struck ?? 0} strikes took effect, less than ${needed}; one counts when ${proof}`;

export const tableHead = (): string => line(heads);

const none = "-";

export const tableRow = (cell: Cell): string =>
  cell.inapplicable === undefined
    ? rowOf(cell)
    : line([
        cell.engine,
        cell.fault,
        ...heads.slice(2, -1).map(() => none),
        `not applicable: ${cell.inapplicable}`,
      ]);

const rowOf = (cell: Cell): string =>
  line([
    cell.engine,
    cell.fault,
    cell.results.length,
    cell.results.reduce((total, { history }) => total + history.operations.length, 0),
    cell.tally.struck ?? 0,
    cell.tally.inFlight ?? 0,
    cell.tally.lost ?? 0,
    violationsOf(cell),
    unknownOf(cell),
    isRed(cell) ? (isBroken(cell) ? "RED" : "RED: showed too little") : "ok",
  ]);

const widths = [9, 13, 10, 11, 8, 10, 13, 11, 8, 4];

const line = (row: Row): string =>
  row
    .map((value, nth) => {
      const width = widths[nth] ?? 0;
      return nth < 2 ? String(value).padEnd(width) : String(value).padStart(width);
    })
    .join(" ")
    .trimEnd();

/** Updates that the guarded counters lost, over all cells. */
export function counterLines(cells: readonly Cell[]): string[] {
  const sum = { fenced: { lost: 0, writes: 0 }, unfenced: { lost: 0, writes: 0 } };
  for (const { tally } of cells.flatMap(({ results }) => results)) {
    const rates = lossRates(tally);
    for (const kind of ["fenced", "unfenced"] as const) {
      sum[kind].lost += rates?.[kind].lost ?? 0;
      sum[kind].writes += rates?.[kind].writes ?? 0;
    }
  }
  const told = (words: string, { lost, writes }: { lost: number; writes: number }): string =>
    `${words} ${lost} of ${writes} updates lost (${((100 * lost) / Math.max(1, writes)).toFixed(2)} %)`;
  return [
    told("guarded counter with fencing:   ", sum.fenced),
    told("guarded counter without fencing:", sum.unfenced),
  ];
}

/** Where servers share a clock: how far it fell behind while a lease could last. */
export const clockLines = (cells: readonly Cell[]): string[] =>
  cells.flatMap(({ engine, fault, tally }) =>
    tally.lateMs === undefined
      ? []
      : [`${engine} ${fault}: its clock fell behind by ${tally.lateMs} ms at most`],
  );

/** What the workloads reached, over all cells, by workload. */
export function reachedLines(cells: readonly Cell[]): string[] {
  const sums = new Map<string, Record<string, number>>();
  for (const { workload, tally } of cells.flatMap(({ results }) => results)) {
    const sum = sums.get(workload) ?? {};
    for (const [situation, times] of Object.entries(tally)) sum[situation] = (sum[situation] ?? 0) + times;
    sums.set(workload, sum);
  }
  return [...sums].map(
    ([workload, sum]) =>
      `${workload}: ${Object.entries(sum)
        .map(([situation, times]) => `${situation} ${times}`)
        .join(", ")}`,
  );
}
