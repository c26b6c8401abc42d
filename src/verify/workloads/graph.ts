/**
 * Several people with several runs each share the nodes of a work graph: they take the next or a certain one, renew,
 * extend, reserve, set statuses, release and walk away, so that others take over when the lease has run out. At the end
 * every node, its history and the queue are looked at.
 */
import type { Reply } from "../history.js";
import { claimTimes } from "../http/node-type.js";
import type { Caller, Lab, Workload } from "../lab.js";
import type { NodeCall, NodeLease, NodeVerb } from "../node-calls.js";
import { between, odds, once, pick } from "./chance.js";
import { Abandoned, askUntilKnown, crew, Haste, isKnown, requestIds } from "./crew.js";

const nodeCount = 10;
const processCount = 10;
/** What may still be on its way when all processes have ended, and the longest that a lease can last. */
const settledWithinMs = claimTimes.claimTtlMaxMs + 2000;
const lookEveryMs = 200;

interface GraphTally extends Record<string, number> {
  grants: number;
  /** Of those: by `next`. */
  nextGrants: number;
  takeovers: number;
  renewals: number;
  extended: number;
  reserved: number;
  releases: number;
  statuses: number;
  /** Refused because another, or another run, has it. */
  takenRefused: number;
  staleRefused: number;
  lostGrants: number;
  /** Entries in the histories at the end. */
  entries: number;
  /** Looks at the queue beside all nodes. */
  queues: number;
}

interface Desk {
  readonly lab: Lab;
  readonly haste: Haste;
  readonly type: string;
  readonly nodes: readonly string[];
  readonly tally: GraphTally;
  readonly abandoned: Abandoned;
  readonly firsts: { readonly abandon: () => boolean; readonly cut: () => boolean };
}

interface Worker {
  readonly caller: Caller;
  /** Its run; null: any run of its person may go on with what it claims. */
  readonly run: string | null;
  readonly nextId: () => string;
}

interface Held {
  readonly node: string;
  readonly lease: NodeLease;
}

export const graph: Workload = {
  name: "graph",
  says: "people and their runs claim, keep, abandon and take over the nodes of a work graph",
  needsGraph: true,
  minimums: {
    grants: 150,
    nextGrants: 60,
    takeovers: 8,
    renewals: 50,
    extended: 15,
    reserved: 5,
    releases: 50,
    statuses: 40,
    takenRefused: 30,
    staleRefused: 10,
    lostGrants: 5,
    entries: 200,
    queues: 1,
  },
  purpose: ["nextGrants", "takeovers", "takenRefused", "lostGrants", "entries", "queues"],
  run: async (lab) => {
    if (lab.nodeType === undefined) throw new Error("there is no work graph to work on");
    const desk: Desk = {
      lab,
      haste: new Haste(lab),
      type: await lab.nodeType(),
      nodes: nodeIds(lab),
      tally: {
        grants: 0,
        nextGrants: 0,
        takeovers: 0,
        renewals: 0,
        extended: 0,
        reserved: 0,
        releases: 0,
        statuses: 0,
        takenRefused: 0,
        staleRefused: 0,
        lostGrants: 0,
        entries: 0,
        queues: 0,
      },
      abandoned: new Abandoned(),
      firsts: { abandon: once(), cut: once() },
    };
    const founder = lab.caller("graph-founder", 0);
    for (const node of desk.nodes) await askUntilKnown(lab, founder, asking(desk, "create", { node }));
    await crew(processCount, (index) => work(desk, index));
    const closing = lab.caller("graph-closing", 0);
    await leaveOne(desk, closing);
    await look(desk, closing);
    return desk.tally;
  },
};

/** Ids take no slashes; chance keeps those of several processes apart. */
function nodeIds(lab: Lab): string[] {
  const stem = lab.prefix.replaceAll("/", "-").replaceAll(/^[^a-z0-9]+/g, "");
  const own = between(lab, 0, 2 ** 31).toString(36);
  return Array.from({ length: nodeCount }, (_, nth) => `${stem}${own}-n${nth}`);
}

const asking = (desk: Desk, verb: NodeVerb, more: Partial<NodeCall> = {}): NodeCall => ({
  op: "node",
  verb,
  node: null,
  type: desk.type,
  run: null,
  token: null,
  requestId: null,
  waitMs: 0,
  ...more,
});

async function work(desk: Desk, index: number): Promise<void> {
  const { lab, tally, abandoned, firsts } = desk;
  const process = `graph-${index}`;
  const worker: Worker = {
    caller: lab.caller(process, index),
    run: index % 5 === 4 ? null : process,
    nextId: requestIds(lab, process),
  };
  while (!lab.over.aborted) {
    const isNext = odds(lab, 0.5);
    const held = await take(desk, worker, isNext);
    if (held !== null) {
      tally.grants++;
      if (isNext) tally.nextGrants++;
      if (abandoned.takenBy(held.node, held.lease.token)) tally.takeovers++;
      if (odds(lab, 0.12) || firsts.abandon()) abandoned.leave(held.node, held.lease.token);
      else await hold(desk, worker, held);
    }
    if (odds(lab, 0.05)) await worker.caller.call(asking(desk, "look", { node: pick(lab, desk.nodes) }));
    await lab.sleep(between(lab, 20, 150), lab.over);
  }
}

/** One try. With a request id the reply may be lost on purpose, and is asked for again. */
async function take(desk: Desk, { caller, run, nextId }: Worker, isNext: boolean): Promise<Held | null> {
  const { lab, haste, tally } = desk;
  const requestId = odds(lab, 0.6) ? nextId() : null;
  const call = isNext
    ? asking(desk, "next", { run, requestId, waitMs: odds(lab, 0.2) ? 1000 : 0 })
    : asking(desk, "claim", { run, requestId, node: pick(lab, desk.nodes) });
  const isCut = requestId !== null && (odds(lab, 0.3) || desk.firsts.cut());
  // One that waits tells nothing of how long a reply takes.
  const ask = () => (call.waitMs > 0 ? caller.call(call) : haste.ask(caller, call));
  let reply = await (isCut ? haste.askBriefly(caller, call) : ask());
  if (reply.kind === "unknown" && requestId !== null) {
    await lab.sleep(between(lab, 5, 30));
    reply = await askUntilKnown(lab, caller, { ...call, waitMs: 0 });
    if (hadCommitted(reply)) tally.lostGrants++;
  }
  if (reply.kind === "taken") tally.takenRefused++;
  // A restore may have forgotten the node.
  if (reply.kind === "refused" && reply.code === "not_found" && call.node !== null)
    await caller.call(asking(desk, "create", { node: call.node }));
  return reply.kind === "claimed" ? { node: reply.node, lease: reply.lease } : null;
}

/** Whether the lost reply had told of a claim: a repeat that is told of a lease which has begun before. */
const hadCommitted = (repeat: Reply): boolean =>
  repeat.kind === "lost" || (repeat.kind === "claimed" && repeat.lease.leftMs < claimTimes.claimTtlMs);

async function hold(desk: Desk, worker: Worker, { node, lease: { token } }: Held): Promise<void> {
  const { lab, tally } = desk;
  const { caller, run } = worker;
  const mine = { node, run, token };
  await lab.sleep(between(lab, 5, 80));
  for (let nth = between(lab, 0, 2); nth > 0; nth--) {
    const renewed = await caller.call(asking(desk, "renew", mine));
    if (renewed.kind === "lost") return;
    if (renewed.kind === "kept") tally.renewals++;
    await lab.sleep(between(lab, 5, 80));
  }
  if (odds(lab, 0.2)) {
    const extended = await caller.call(asking(desk, "extend", { ...mine, ms: between(lab, 100, 2000) }));
    if (extended.kind === "kept") tally.extended++;
  }
  if (odds(lab, 0.1)) {
    const reserved = await caller.call(asking(desk, "reserve", mine));
    if (reserved.kind === "kept") tally.reserved++;
    // It runs out after its grace, or goes on.
    if (odds(lab, 0.5)) {
      desk.abandoned.leave(node, token);
      return;
    }
  }
  await end(desk, worker, mine);
}

async function end(
  desk: Desk,
  { caller, nextId }: Worker,
  mine: { readonly node: string; readonly run: string | null; readonly token: number },
): Promise<void> {
  const { lab, tally } = desk;
  const setting = (status: "open" | "active" | "done", whose = mine): Promise<Reply> =>
    caller.call(asking(desk, "status", { ...whose, status, reason: nextId() }));
  const note = (reply: Reply): boolean => {
    if (reply.kind === "updated") tally.statuses++;
    return reply.kind === "updated";
  };
  if (odds(lab, 0.3)) note(await setting("active"));
  if (odds(lab, 0.4)) {
    if (!note(await setting("done"))) return;
    await lab.sleep(between(lab, 0, 100));
    // There must be something to do for the others.
    const again = asking(desk, "status", { node: mine.node, status: "open", reason: nextId() });
    note(await askUntilKnown(lab, caller, again));
    return;
  }
  const released = await caller.call(asking(desk, "release", mine));
  if (released.kind === "done") tally.releases++;
  if (!isKnown(released) || odds(lab, 0.6)) return;
  const late = await caller.call(asking(desk, odds(lab, 0.5) ? "renew" : "release", mine));
  if (late.kind === "lost") tally.staleRefused++;
}

/** So that what is looked at has a node whose lease ran out, whatever chance did before. */
async function leaveOne(desk: Desk, caller: Caller): Promise<void> {
  for (const node of desk.nodes) {
    const { kind } = await caller.call(asking(desk, "claim", { node }));
    if (kind === "claimed") return;
  }
}

/** Waits until nobody is on any node, then looks at all of it, and leaves nothing to do behind. */
async function look(desk: Desk, caller: Caller): Promise<void> {
  const { lab, tally, nodes } = desk;
  await lab.sleep(lookEveryMs);
  for (const until = lab.now() + settledWithinMs; lab.now() < until; ) {
    const all = await caller.call(asking(desk, "list"));
    if (all.kind === "nodes" && all.nodes.every(({ lease }) => lease === null)) break;
    await lab.sleep(lookEveryMs);
  }
  const queue = await caller.call(asking(desk, "queue"));
  if (queue.kind === "nodes") tally.queues++;
  for (const node of nodes) {
    const told = await askUntilKnown(lab, caller, asking(desk, "history", { node }));
    if (told.kind === "entries") tally.entries += told.entries.length;
    await askUntilKnown(lab, caller, asking(desk, "look", { node }));
  }
  for (const node of nodes)
    await askUntilKnown(lab, caller, asking(desk, "status", { node, status: "done" }));
}
