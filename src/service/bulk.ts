/**
 * Many calls in as few steps as the store takes: one where it has no bounds. Each call is decided for itself, so nothing depends on
 * which of them share a step.
 */
import { StepTooLargeError, type Store, StoreError } from "../store/store.js";

/** Calls that a step begins with, where each relies on about `relies` records. */
export const stepMaxOf = ({ facts }: Store, relies: number): number =>
  Math.max(1, Math.floor(facts.keysMax / relies));

/** The replies of all calls. If some were answered and others failed, all of it is unknown: some of it was done. */
export async function bySteps<Call, Reply>(
  calls: readonly Call[],
  stepMax: number,
  step: (some: readonly Call[]) => Promise<readonly Reply[]>,
): Promise<readonly Reply[]> {
  if (calls.length <= stepMax) return fitting(calls, step);
  const parts: Promise<readonly Reply[]>[] = [];
  for (let at = 0; at < calls.length; at += stepMax) parts.push(fitting(calls.slice(at, at + stepMax), step));
  const ends = await Promise.allSettled(parts);
  const failed = ends.find((end) => end.status === "rejected");
  if (failed === undefined) return (await Promise.all(parts)).flat();
  if (failed.reason instanceof StoreError && ends.some((end) => end.status === "fulfilled"))
    throw new StoreError("unknown", `some of the call was done, and then: ${failed.reason.message}`);
  throw failed.reason;
}

/** In one step, or in two if that is too much for one, and so on. */
export async function fitting<Call, Reply>(
  calls: readonly Call[],
  step: (some: readonly Call[]) => Promise<readonly Reply[]>,
): Promise<readonly Reply[]> {
  try {
    return await step(calls);
  } catch (error) {
    if (!(error instanceof StepTooLargeError) || calls.length < 2) throw error;
    return bySteps(calls, Math.ceil(calls.length / 2), step);
  }
}
