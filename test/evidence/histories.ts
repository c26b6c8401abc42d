// Histories of several load processes put together, and what a fault met in them.
import type { Operation } from "../../src/verify/history.js";
import type { Run } from "../../src/verify/lab.js";
import { graph } from "../../src/verify/workloads/graph.js";

/** From the one instant to the other. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Whether a strike took effect, by what all callers asked and heard. */
export type Proof = (operations: readonly Operation[]) => boolean;

export interface Strike extends Window {
  readonly tookEffect: Proof;
}

/** One workload's run over all processes, with what the server was asked beside them about its own names. */
export function merged(
  workload: string,
  loads: readonly (readonly Run[])[],
  also: readonly Operation[],
  isOwn: (name: string) => boolean,
): Run {
  const tally: Record<string, number> = {};
  const parts = loads.map((runs, nth) => {
    const run = runs.find((one) => one.workload === workload);
    if (run === undefined) throw new Error(`load ${nth} brought no history of ${workload}`);
    for (const [situation, times] of Object.entries(run.tally))
      tally[situation] = (tally[situation] ?? 0) + times;
    const { operations, seen, ...more } = run.history;
    const recorder = `${nth}`;
    return {
      operations: operations.map((one) => ({ ...one, recorder, process: `${nth}/${one.process}` })),
      seen: seen.map((one) => ({ ...one, recorder, stream: `${nth}/${one.stream}` })),
      ...more,
    };
  });
  // One workload has nodes.
  const aside = also.filter(({ call }) =>
    "name" in call ? isOwn(call.name) : call.op === "node" && workload === graph.name,
  );
  return {
    workload,
    tally,
    history: {
      // All of them say the same about their clocks and the way to the server.
      ...parts[0],
      operations: [...parts.flatMap(({ operations }) => operations), ...aside],
      seen: parts.flatMap(({ seen }) => seen),
      clockBoundMs: Math.max(...parts.map(({ clockBoundMs }) => clockBoundMs)),
    },
  };
}

/** How many of the strikes met a call under way. */
export function inFlightAt(strikes: readonly Window[], operations: readonly Operation[]): number {
  const calls = withEnds(operations);
  return strikes.filter(({ from, to }) => calls.some(({ began, ended }) => began <= to && ended >= from))
    .length;
}

/** A call without a reply was over when its process went on to the next. */
function withEnds(operations: readonly Operation[]): Pick<Operation, "began" | "ended">[] {
  const sorted = [...operations].sort((one, other) => one.began - other.began);
  const next = new Map<string, number>();
  return sorted.reverse().map(({ process, began, ended }) => {
    const end = Math.min(ended, next.get(process) ?? began);
    next.set(process, began);
    return { began, ended: end };
  });
}
