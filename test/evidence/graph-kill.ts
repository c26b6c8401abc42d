// The server is killed with -9 again and again while callers claim, release, set statuses and take the next node. After
// each start every node, its history and its lease are read: no edge without its entry, no lease whose edge is missing,
// nothing lost that was acknowledged.
import { monotonicMs } from "../../src/verify/http/clock.js";
import { type ClockProbe, laterBy } from "../../src/verify/http/clock-probe.js";
import type { Caller } from "../../src/verify/lab.js";
import type { NodeCall } from "../../src/verify/node-calls.js";
import { between, odds, pick } from "../../src/verify/workloads/chance.js";
import { crew } from "../../src/verify/workloads/crew.js";
import { ok } from "../http-api.js";
import type { Server } from "../server.js";
import { probeOf } from "./clock-probe.js";
import type { Engine } from "./engines.js";
import { asking, GraphLab } from "./graph-lab.js";
import { operator } from "./principals.js";

const nodes = 48;
const callers = 16;
/** Long enough that most leases outlast a restart, short enough that some do not. */
const claimTtlMs = 8000;
/** Calls that are answered between a start and the next kill. */
const answered = { least: 40, most: 300 } as const;
/** Nobody waits longer for them. */
const loadMaxMs = 5000;

/** Why it is red, line by line. */
export async function runKills(
  engine: Engine,
  kills: number,
  seed: number,
  say: (line: string) => void,
): Promise<string[]> {
  const node = { server: await engine.start({}) };
  const graph = new GraphLab(node.server, seed, nodes);
  const reasons: string[] = [];
  let leases = 0;
  let probe: ClockProbe | null = null;
  try {
    probe = await probeOf(engine, [node]);
    await graph.setPolicy(claimTtlMs);
    await graph.create();
    for (let nth = 0; nth < kills && reasons.length === 0; nth++) {
      await loadUntilKilled(graph, node.server);
      node.server = await node.server.restart();
      const held = await heldNodes(node.server);
      leases += held.length;
      reasons.push(...held.flatMap(strayLease).map((reason) => `after kill ${nth + 1}: ${reason}`));
      await graph.read();
    }
    const { operations } = graph.lab.history();
    const lost = operations.filter(({ reply }) => reply.kind === "unknown").length;
    say(
      `${kills} kills, ${operations.length} calls, ${lost} without a reply, ${leases} leases that outlived a kill (seed ${seed})`,
    );
    // Where nobody runs who could move a shared clock on, no time passes for leases.
    reasons.push(...graph.violations(laterBy((await probe?.end()) ?? 0, engine.terms)).slice(0, 20));
    if (lost < kills || leases < kills)
      reasons.push(`${lost} replies lost, ${leases} leases outlived a kill: too few to show anything`);
    return reasons;
  } finally {
    await probe?.end().catch(() => undefined);
    graph.close();
    await node.server[Symbol.asyncDispose]();
  }
}

/** Everybody calls until enough was answered; then the server is gone in the middle of it. */
async function loadUntilKilled(graph: GraphLab, server: Server): Promise<void> {
  const { lab } = graph;
  const enough = lab.recorder.operations.length + between(lab, answered.least, answered.most);
  const until = monotonicMs() + loadMaxMs;
  let isKilled = false;
  await crew(callers, async (index) => {
    const caller = graph.caller(`caller-${index}`, index);
    const held = new Map<string, number>();
    while (!isKilled) {
      await step(graph, caller, held);
      if (isKilled || (lab.recorder.operations.length < enough && monotonicMs() < until)) continue;
      isKilled = true;
      server.kill("SIGKILL");
    }
  });
  await server.exited;
}

let reasonsGiven = 0;

/** What a caller does next, with what it holds or to get something. */
async function step({ lab, ids }: GraphLab, caller: Caller, held: Map<string, number>): Promise<void> {
  const run = caller.process;
  if (held.size === 0 || odds(lab, 0.4)) {
    const isNext = odds(lab, 0.5);
    const reply = await caller.call(
      isNext ? asking("next", { run }) : asking("claim", { run, node: pick(lab, ids) }),
    );
    if (reply.kind === "claimed") held.set(reply.node, reply.lease.token);
    return;
  }
  const [node, token] = pick(lab, [...held]);
  const mine = { node, run, token };
  const setting = (status: NonNullable<NodeCall["status"]>, whose: Partial<NodeCall> = mine): NodeCall =>
    asking("status", { ...whose, status, reason: `${run} ${++reasonsGiven}` });
  const dice = lab.random();
  if (dice < 0.2) await caller.call(asking("renew", mine));
  else if (dice < 0.3) await caller.call(setting("active"));
  else if (dice < 0.4) held.delete(node);
  else if (dice < 0.6) {
    held.delete(node);
    const { kind } = await caller.call(setting("done"));
    if (kind === "updated") await caller.call(setting("open", { node }));
  } else {
    held.delete(node);
    await caller.call(asking("release", mine));
  }
}

interface HeldNode {
  readonly id: string;
  readonly edges: readonly { readonly type: string; readonly to: string }[];
  readonly lease?: { readonly by: string; readonly token: number };
  /** The same lease as the locks show it. */
  readonly lock: { readonly fencing_token: number };
}

/** Every node that a lock says is held, asked for by the locks' own names. A server that is busy is asked again. */
async function heldNodes(server: Server): Promise<HeldNode[]> {
  const token = operator.bearer;
  const query = { prefix: "node:", limit: "1000" };
  const { locks } = await ok(server, "listLocks", { token, query });
  const found: HeldNode[] = [];
  for (const lock of locks) {
    const id = lock.name.slice("node:".length);
    const node = await ok<Omit<HeldNode, "lock">>(server, "getNode", { token, name: id });
    found.push({ ...node, lock });
  }
  return found;
}

/** A lease may run out between the two looks; another cannot begin. */
function strayLease({ id, edges, lease, lock }: HeldNode): string[] {
  const carrier = edges.find(({ type }) => type === "assigned")?.to;
  if (carrier === undefined) return [`${id} is held with token ${lock.fencing_token}, and has no edge`];
  if (lease === undefined) return [];
  if (lease.by !== carrier) return [`${id} is held by ${lease.by}, and its edge names ${carrier}`];
  return lease.token === lock.fencing_token ? [] : [`${id} is held with two tokens`];
}
