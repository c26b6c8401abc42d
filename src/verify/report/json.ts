/** A result as JSON and back, whole: the histories can be judged again from it. */
import type { Operation } from "../history.js";
import type { Result } from "../result.js";

/** Says what the file is; raised when a reader of an older one would misread it. */
const format = "holdfast-verify/1";

/** JSON has no Infinity: an operation that never ended has `ended: null`. */
export const resultToJson = (result: Result): string => `${JSON.stringify({ format, ...result })}\n`;

export function resultFromJson(text: string): Result {
  const { format: found, ...result } = JSON.parse(text) as Result & { format?: unknown };
  if (found !== format)
    throw new Error(`this is no ${format} report but ${JSON.stringify(found) ?? "something else"}`);
  return {
    ...result,
    workloads: result.workloads.map((workload) => ({
      ...workload,
      history: { ...workload.history, operations: workload.history.operations.map(withEnd) },
    })),
  };
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
