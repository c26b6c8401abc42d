// Histories as files: what a load process hands over, and what is kept of a run that failed.
import { readFileSync, writeFileSync } from "node:fs";
import type { Operation } from "../../src/verify/history.js";
import type { Run } from "../../src/verify/lab.js";

/** JSON has no Infinity: an operation that never ended has `ended: null`. */
export const saveRuns = (file: string, runs: readonly Run[]): void =>
  writeFileSync(file, JSON.stringify(runs));

export const loadRuns = (file: string): Run[] =>
  (JSON.parse(readFileSync(file, "utf8")) as Run[]).map((run) => ({
    ...run,
    history: { ...run.history, operations: run.history.operations.map(withEnd) },
  }));

const withEnd = (operation: Operation): Operation => ({
  ...operation,
  ended: (operation.ended as number | null) ?? Number.POSITIVE_INFINITY,
});
