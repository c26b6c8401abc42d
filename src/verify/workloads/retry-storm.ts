/**
 * Every acquire is sent several times with one request id: at once, after its reply was lost, after its lease was
 * released, and once with another body. All of them together may be granted one lease.
 */
import type { Reply } from "../history.js";
import type { Caller, Lab, Workload } from "../lab.js";
import { between, odds, pick, shortTtlMs } from "./chance.js";
import {
  type AcquireCall,
  acquiring,
  crew,
  few,
  type Granted,
  Haste,
  letGo,
  namesOf,
  repeat,
  requestIds,
} from "./crew.js";

const nameCount = 4;
/** Each client sends through several processes: a process asks one thing at a time. */
const clientCount = 4;
const copies = 3;

interface StormTally extends Record<string, number> {
  grants: number;
  /** A repeat was answered with the lease that the request had been granted. */
  sameLease: number;
  /** The reply was lost, the grant was not. */
  lostGrants: number;
  /** A repeat after the end of the lease was told so. */
  spent: number;
  /** The id with another body was refused. */
  reused: number;
}

export const retryStorm: Workload = {
  name: "retry-storm",
  says: "every acquire is repeated with its request id, at once and after lost replies",
  minimums: { grants: 100, sameLease: 100, lostGrants: 10, spent: 20, reused: 10 },
  purpose: ["sameLease"],
  run: async (lab) => {
    const tally: StormTally = { grants: 0, sameLease: 0, lostGrants: 0, spent: 0, reused: 0 };
    const names = namesOf(lab, nameCount);
    const haste = new Haste(lab);
    await crew(few(lab, clientCount), async (index) => {
      const client = `storm-${index}`;
      const callers = Array.from({ length: copies }, (_, copy) => lab.caller(`${client}.${copy}`, index));
      const nextId = requestIds(lab, client);
      while (!lab.over.aborted) {
        const waitMs = odds(lab, 0.2) ? 1000 : 0;
        const call = acquiring(pick(lab, names), shortTtlMs(lab), { requestId: nextId(), waitMs });
        await storm(haste, callers, call, tally);
        await lab.sleep(between(lab, 30, 150), lab.over);
      }
    });
    return tally;
  },
};

async function storm(
  haste: Haste,
  callers: readonly Caller[],
  call: AcquireCall,
  tally: StormTally,
): Promise<void> {
  const { lab } = haste;
  const first = callers[0];
  if (first === undefined) return;
  // Until a grant was found again that nobody had heard of, nobody listens for long.
  const isDeaf = tally.lostGrants === 0 || odds(lab, 0.4);
  const replies = await Promise.all(callers.map((caller) => send(haste, caller, call, isDeaf)));
  // With a wait only the copy that came last stands in line, so what the others heard settles nothing.
  let known = replies.find(isGranted);
  if (known === undefined || odds(lab, 0.5)) {
    const wasLost = known === undefined && replies.some((reply) => reply.kind === "unknown");
    const { reply, hadCommitted } = await repeat(lab, first, { ...call, waitMs: 0 });
    if (wasLost && hadCommitted) tally.lostGrants++;
    if (isGranted(reply)) {
      if (known?.lease === reply.lease) tally.sameLease++;
      known ??= reply;
    }
  }
  if (known === undefined) return;
  tally.grants++;
  const { lease } = known;
  tally.sameLease += Math.max(
    0,
    replies.filter((reply) => isGranted(reply) && reply.lease === lease).length - 1,
  );
  await finish(lab, callers, call, lease, tally);
}

/** Some copies leave late, some are not listened to until the end. */
async function send(haste: Haste, caller: Caller, call: AcquireCall, isDeaf: boolean): Promise<Reply> {
  const { lab } = haste;
  if (odds(lab, 0.5)) await lab.sleep(between(lab, 0, 8));
  if (isDeaf) return haste.askBriefly(caller, call, 0.7);
  if (odds(lab, 0.5)) return haste.askBriefly(caller, call);
  return call.waitMs === 0 ? haste.ask(caller, call) : caller.call(call);
}

async function finish(
  lab: Lab,
  callers: readonly Caller[],
  call: AcquireCall,
  lease: string,
  tally: StormTally,
): Promise<void> {
  const caller = pick(lab, callers);
  if (odds(lab, 0.25)) {
    const other = await caller.call({ ...call, ttlMs: (call.ttlMs ?? 0) + 1000 });
    if (other.kind === "reused") tally.reused++;
  }
  if (odds(lab, 0.1)) return;
  await lab.sleep(between(lab, 0, 80));
  const released = await letGo(lab, pick(lab, callers), call.name, lease);
  if (released.kind !== "done" || odds(lab, 0.5)) return;
  const late = await caller.call({ ...call, waitMs: 0 });
  if (late.kind === "lost") tally.spent++;
}

const isGranted = (reply: Reply): reply is Granted => reply.kind === "granted";
