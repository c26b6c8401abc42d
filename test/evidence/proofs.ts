// What shows that a strike took effect: seen from outside, in the replies of the server, in the histories of its
// callers or by asking the system, never because the fault says so. A strike without it does not count.
import { statfsSync } from "node:fs";
import type { Operation } from "../../src/verify/history.js";
import { sleep } from "../../src/verify/http/clock.js";
import { call as ask, type Server } from "../server.js";
import { dataSeenBy } from "../system-small-disk.js";
import type { Node } from "./faults/fault.js";
import type { Proof, Window } from "./histories.js";

/** Replies that were on their way when it began may still be read. */
const graceMs = 100;
/** A caller that works begins a call at least this often. */
const activeMs = 2000;
/** How long something may take to show. */
export const showsWithinMs = 5000;

/** What was seen, or not, when it happened. */
export const seen =
  (fact: boolean): Proof =>
  () =>
    fact;

/** Nobody who asks this node heard anything meanwhile. */
export const nobodyHeard =
  ({ isAsked }: Pick<Node, "isAsked">, { from, to }: Window): Proof =>
  (operations) =>
    !operations.some(
      (operation) => isAsked(operation) && operation.ended > from + graceMs && operation.ended < to,
    );

/** Nobody who asks this node was granted anything meanwhile that was decided then. */
export const nobodyServed =
  ({ isAsked }: Pick<Node, "isAsked">, { from, to }: Window): Proof =>
  (operations) =>
    !operations.some(
      (operation) =>
        isAsked(operation) &&
        operation.reply.kind === "granted" &&
        operation.began > from + graceMs &&
        operation.ended < to,
    );

/** This client, which was at work just before, began nothing meanwhile. */
export const clientWasStill =
  (nth: number, { from, to }: Window): Proof =>
  (operations) => {
    const own = operations.filter(({ process }) => process.startsWith(`${nth}/`));
    const began = (after: number, before: number): boolean =>
      own.some((operation) => operation.began > after && operation.began < before);
    return began(from - activeMs, from) && !began(from + graceMs, to);
  };

/** Somebody was refused without effect meanwhile because nothing could be written. */
export const writesWereRefused =
  ({ from, to }: Window): Proof =>
  (operations) =>
    operations.some(
      (operation) => isUnavailable(operation) && operation.ended > from && operation.ended < to,
    );

export const isUnavailable = ({ reply }: Operation): boolean =>
  reply.kind === "refused" && reply.code === "unavailable";

/** No reply came, and not because the workload gave up on it on purpose. */
export const isLost = ({ reply }: Operation): boolean =>
  reply.kind === "unknown" && reply.why !== "cut" && reply.why !== "unknown_outcome";

/** Its commit failed. Who waits in line is told the same when a repeat takes over its place. */
export const isUncertain = ({ call, reply }: Operation): boolean =>
  reply.kind === "unknown" && reply.why === "unknown_outcome" && !(call.op === "acquire" && call.waitMs > 0);

/** By the server, not because the call was never sent. */
export const isRefused = ({ reply }: Operation): boolean =>
  reply.kind === "refused" && !reply.code.startsWith("unsent");

/** Whether the process ends soon. */
export async function endsSoon({ exited }: Server): Promise<boolean> {
  const ended = new AbortController();
  const end = exited.then(() => {
    ended.abort();
    return true;
  });
  return Promise.race([end, sleep(showsWithinMs, ended.signal).then(() => false)]);
}

/** The process is gone, it ended with this code (null: by a signal), and there is another that answers. */
export async function isReplaced(before: Server, after: Server, code: number | null): Promise<boolean> {
  if (!isGone(before.pid) || (await before.exited) !== code || after.pid === before.pid) return false;
  const { status } = await ask(after, "GET", "/ready");
  return status === 200;
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** There is no room left on the disk that the server writes to. */
export const isFull = (server: Server): boolean => statfsSync(dataSeenBy(server)).bavail === 0;
