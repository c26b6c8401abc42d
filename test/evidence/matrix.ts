// The matrix: every engine under every fault, cell after cell, with a row of the table for each. The histories of a
// red cell are kept.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Cell, runCell } from "./cell.js";
import type { Engine } from "./engines.js";
import type { Fault } from "./faults/fault.js";
import { saveRuns } from "./history-file.js";
import { clockLines, counterLines, isRed, reachedLines, reasons, tableHead, tableRow } from "./table.js";

export interface MatrixOptions {
  readonly engines: readonly Engine[];
  readonly faults: readonly Fault[];
  readonly seconds: number;
  readonly seed: number;
  /** Where histories of red cells go. */
  readonly keepIn: string;
  readonly say: (line: string) => void;
}

/** Why it is red, line by line; empty when all cells are green. */
export async function runMatrix(options: MatrixOptions): Promise<string[]> {
  const { engines, faults, seconds, seed, say } = options;
  say(tableHead());
  const cells: Cell[] = [];
  for (const engine of engines)
    for (const fault of faults) {
      const cell = await runCell({ engine, fault, seconds: seconds * engine.stretch, seed });
      cells.push(cell);
      say(tableRow(cell));
    }
  say("");
  for (const line of [...counterLines(cells), ...reachedLines(cells), ...clockLines(cells)]) say(line);
  const red = cells.filter(isRed);
  return red.flatMap((cell) => [
    ...reasons(cell).map((reason) => `${cell.engine} ${cell.fault} (seed ${cell.seed}): ${reason}`),
    ...kept(cell, options.keepIn),
  ]);
}

function kept({ engine, fault, results }: Cell, dir: string): string[] {
  if (results.length === 0) return [];
  mkdirSync(dir, { recursive: true });
  const file = join(dir, `${engine}-${fault}.json`);
  saveRuns(
    file,
    results.map(({ workload, history, tally }) => ({ workload, history, tally })),
  );
  return [`  its histories: node dist/test/evidence/recheck.js ${file}`];
}
