/** The closing lines of a run on a terminal: what is wrong first, then a table. */

import { lossRates, type Result, unknownReplies } from "../result.js";
import {
  complaints,
  endText,
  grouped,
  operationCount,
  outcomeText,
  plural,
  rateText,
  remarks,
} from "./words.js";

/** More complaints than this are in the report only. */
const complaintsMax = 20;

const columns = ["workload", "names", "operations", "lost replies", "violations", "undecided"] as const;

export function closingText(result: Result): string {
  const wrong = complaints(result);
  const shown = wrong.slice(0, complaintsMax);
  const rest = wrong.length - shown.length;
  return [
    ...shown,
    ...(rest === 0 ? [] : [`… and ${rest} more: --report FILE.json has them all`]),
    ...(wrong.length === 0 ? [] : [""]),
    ...table(result),
    "",
    ...result.workloads.flatMap(({ tally }) => {
      const rates = lossRates(tally);
      if (rates === null) return [];
      return [
        `lost updates without fencing: ${rateText(rates.unfenced)}, with fencing: ${rateText(rates.fenced)}`,
      ];
    }),
    ...remarks(result),
    `${outcomeText(result.outcome)}: ${plural(operationCount(result), "operation")} in ${Math.round(result.durationMs / 1000)} s${endText(result) && `, ${endText(result)}`}, seed ${result.seed}`,
  ].join("\n");
}

function table({ workloads }: Result): string[] {
  const rows = workloads.map((one) => [
    one.workload,
    grouped(one.verdict.names),
    grouped(one.history.operations.length),
    grouped(unknownReplies(one)),
    grouped(one.verdict.violations.length),
    grouped(one.verdict.unknown.length),
  ]);
  const all = [[...columns], ...rows];
  const widths = columns.map((_, nth) => Math.max(...all.map((row) => row[nth]?.length ?? 0)));
  return all.map((row) =>
    row
      .map((cell, nth) => (nth === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[nth] ?? 0)))
      .join("  "),
  );
}
