/** A result as JSON and back, whole: the histories can be judged again from it. */
import { VerifyError } from "../error.js";
import type { Operation } from "../history.js";
import type { Contacted, Result, WorkloadResult } from "../result.js";

/** Says what the file is; raised when a reader of an older one would misread it. */
const format = "holdfast-verify/1";

/** JSON has no Infinity: an operation that never ended has `ended: null`. */
export const resultToJson = (result: Result): string => `${JSON.stringify({ format, ...result })}\n`;

/** What reports of an earlier version do not tell. */
const untold: Contacted & Pick<Result, "endedEarly"> = {
  unreachable: null,
  dismissed: [],
  rateLimited: 0,
  unsent: 0,
  endedEarly: false,
};

/** Throws a VerifyError for what is no report, or not a whole one. */
export function resultFromJson(text: string): Result {
  const { format: found, ...result } = fieldsIn(parsed(text)) as Partial<Result> & { format?: unknown };
  if (found !== format)
    throw new VerifyError(
      `this is no ${format} report but ${JSON.stringify(found) ?? "something else"}`,
      "usage",
    );
  const { workloads } = result;
  if (!Array.isArray(workloads) || !workloads.every(isWhole) || typeof result.outcome !== "string")
    throw new VerifyError(`this ${format} report is not whole: its histories are missing`, "usage");
  return {
    ...untold,
    ...(result as Result),
    workloads: workloads.map((workload: WorkloadResult) => ({
      ...workload,
      needed: workload.needed ?? {},
      history: { ...workload.history, operations: workload.history.operations.map(withEnd) },
    })),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new VerifyError(`this is no ${format} report: it is not JSON`, "usage");
  }
}

const fieldsIn = (value: unknown): object => (typeof value === "object" && value !== null ? value : {});

/** Has what a verdict is reached from, and the verdict. */
function isWhole(workload: unknown): boolean {
  const { history, verdict, tally } = fieldsIn(workload) as Partial<WorkloadResult>;
  const { operations, seen, clockBoundMs } = fieldsIn(history) as Partial<WorkloadResult["history"]>;
  const isTold = [verdict, tally].every((part) => typeof part === "object" && part !== null);
  return isTold && Array.isArray(operations) && Array.isArray(seen) && typeof clockBoundMs === "number";
}

const withEnd = (operation: Operation): Operation => ({
  ...operation,
  ended: (operation.ended as number | null) ?? Number.POSITIVE_INFINITY,
});

/** What a script wants to know, without the histories. */
export const resultSummary = ({ workloads, ...result }: Result): object => ({
  format,
  ...result,
  workloads: workloads.map(({ history, ...workload }) => ({
    ...workload,
    clockBoundMs: history.clockBoundMs,
  })),
});
