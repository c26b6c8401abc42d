/** The lookout's thread: keeps what it is given of each workload's history, and judges that much of it. */
import { parentPort } from "node:worker_threads";
import { check } from "./check.js";
import type { Operation, Seen } from "./history.js";
import type { Glimpse, Looked } from "./lookout.js";

interface Known {
  readonly operations: Operation[];
  readonly seen: Seen[];
}

const known = new Map<string, Known>();

function isViolated(glimpse: Glimpse): boolean {
  const { workload, operations, seen, underWay, clockBoundMs, timely, terms } = glimpse;
  const all = known.get(workload) ?? { operations: [], seen: [] };
  known.set(workload, all);
  for (const operation of operations) all.operations.push(operation);
  for (const one of seen) all.seen.push(one);
  const { violations } = check({
    operations: [...all.operations, ...underWay],
    seen: all.seen,
    clockBoundMs,
    ...(timely === undefined ? {} : { timely }),
    ...(terms === undefined ? {} : { terms }),
  });
  return violations.length > 0;
}

parentPort?.on("message", (glimpses: readonly Glimpse[]) => {
  const from = performance.now();
  // All of them: what is left out now would be missing at the next look.
  const found = glimpses.map(isViolated);
  const looked: Looked = { isViolated: found.includes(true), tookMs: performance.now() - from };
  parentPort?.postMessage(looked);
});
