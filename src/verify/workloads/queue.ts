/**
 * More processes than names, all of them waiting in line. Most are served after a release, some because the holder
 * before let its lease run out; some waiters leave, and some of those come back with their ticket.
 */
import type { Reply } from "../history.js";
import type { Caller, Lab, Workload } from "../lab.js";
import { between, odds, once, pick } from "./chance.js";
import {
  Abandoned,
  type AcquireCall,
  acquiring,
  askBriefly,
  askUntilKnown,
  crew,
  letGo,
  look,
  namesOf,
  requestIds,
} from "./crew.js";

const nameCount = 3;
const processCount = 12;
const ttlMs = 2000;
/** A grant that took longer than this was waited for: a call takes a few ms. */
const waitedMs = 40;

interface QueueTally extends Record<string, number> {
  grants: number;
  /** Granted after standing in line. */
  waitersGranted: number;
  /** Granted because the holder before never released. */
  takeovers: number;
  /** The wait was over before the turn came. */
  timedOut: number;
  /** Stopped listening while in line. */
  left: number;
  /** Came back to the place that the ticket kept, and was served. */
  returned: number;
}

export const queue: Workload = {
  name: "queue",
  says: "waiters stand in line, leave, and come back with their ticket",
  minimums: { grants: 150, waitersGranted: 100, takeovers: 5, left: 30, returned: 8 },
  purpose: ["waitersGranted", "takeovers"],
  run: async (lab) => {
    const tally: QueueTally = {
      grants: 0,
      waitersGranted: 0,
      takeovers: 0,
      timedOut: 0,
      left: 0,
      returned: 0,
    };
    const names = namesOf(lab, nameCount);
    const abandoned = new Abandoned();
    const isFirst = once();
    const looking = look(lab, () => lab.over.aborted);
    await crew(processCount, async (index) => {
      const process = `queue-${index}`;
      const caller = lab.caller(process, index);
      const nextId = requestIds(lab, process);
      while (!lab.over.aborted) {
        const requestId = odds(lab, 0.5) ? nextId() : null;
        const waitMs = 1000 * between(lab, 1, 3);
        const call = acquiring(pick(lab, names), ttlMs, { waitMs, requestId });
        const reply = await stand(lab, caller, call, tally);
        if (reply.kind === "granted") {
          tally.grants++;
          if (abandoned.takenBy(call.name, reply.token)) tally.takeovers++;
          if (odds(lab, 0.06) || isFirst()) abandoned.leave(call.name, reply.token);
          else {
            await lab.sleep(between(lab, 10, 120));
            await letGo(lab, caller, call.name, reply.lease);
          }
        }
        await lab.sleep(between(lab, 5, 100), lab.over);
      }
    });
    await looking;
    return tally;
  },
};

async function stand(lab: Lab, caller: Caller, call: AcquireCall, tally: QueueTally): Promise<Reply> {
  const beganAt = lab.now();
  const leaves = odds(lab, 0.15);
  const reply = leaves ? await askBriefly(lab, caller, call, between(lab, 50, 400)) : await caller.call(call);
  if (reply.kind === "granted" && lab.now() - beganAt > waitedMs) tally.waitersGranted++;
  if (reply.kind === "held") tally.timedOut++;
  if (leaves && reply.kind === "unknown") tally.left++;
  // Without a ticket there is nothing to come back to; a few that have one stay away.
  if (reply.kind !== "unknown" || call.requestId === null || odds(lab, 0.25)) return reply;
  await lab.sleep(between(lab, 10, 300));
  const again = await askUntilKnown(lab, caller, call);
  if (again.kind === "granted") tally.returned++;
  return again;
}
