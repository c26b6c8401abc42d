// Many workers drain a queue of nodes by claiming the next, over HTTP, and many of them die on the way: while they ask,
// after they got a node, or while they say that it is done. Their connections break without a word, their claims
// lapse, and others take over. In the end each node is done, once, and its history tells of everybody who had it.

import { laterBy } from "../../src/verify/http/clock-probe.js";
import type { Caller } from "../../src/verify/lab.js";
import { between, odds } from "../../src/verify/workloads/chance.js";
import { askBriefly, crew } from "../../src/verify/workloads/crew.js";
import { probeOf } from "./clock-probe.js";
import type { Engine } from "./engines.js";
import { asking, GraphLab } from "./graph-lab.js";

const workers = 64;
/** The shortest that a policy may say. */
const claimTtlMs = 1000;
/** Longer than a dead worker's claim lasts: whoever waits so long in vain can go home. */
const patienceMs = 4000;
/** Of those who ask, who got a node, and who are done with one: how many die then. */
const deaths = { asking: 0.02, holding: 0.04, finishing: 0.02 } as const;

interface Count {
  claims: number;
  finished: number;
  died: number;
}

/** Why it is red, line by line. */
export async function runDrain(
  engine: Engine,
  nodes: number,
  seed: number,
  say: (line: string) => void,
): Promise<string[]> {
  await using server = await engine.start({});
  const graph = new GraphLab(server, seed, nodes);
  const probe = await probeOf(engine, [{ server }]);
  try {
    await graph.setPolicy(claimTtlMs);
    await graph.create();
    const count: Count = { claims: 0, finished: 0, died: 0 };
    const from = performance.now();
    await crew(workers, (place) => staff(graph, place, count));
    const seconds = (performance.now() - from) / 1000;
    const histories = [...(await graph.read()).entries()];
    const undone = histories.filter(
      ([, entries]) => entries.filter(({ what, to }) => what === "status" && to === "done").length !== 1,
    );
    const takeovers = histories.flatMap(([, entries]) =>
      entries.filter(({ what }) => what === "lapsed"),
    ).length;
    say(
      `${nodes} nodes by ${workers} workers in ${seconds.toFixed(1)} s: ${count.claims} claims, ${count.died} workers died, ${takeovers} claims lapsed and were taken over (seed ${seed})`,
    );
    const broken = graph.violations(laterBy((await probe?.end()) ?? 0, engine.terms));
    return [
      ...broken.slice(0, 20),
      ...undone.slice(0, 5).map(([id]) => `${id} was not done exactly once`),
      ...(count.died >= nodes / 30 && takeovers >= nodes / 50
        ? []
        : [`${count.died} died and ${takeovers} claims lapsed: too few to show anything`]),
    ];
  } finally {
    await probe?.end().catch(() => undefined);
    graph.close();
  }
}

/** One place at the bench: whoever dies there is followed by another, until there is nothing left to do. */
async function staff(graph: GraphLab, place: number, count: Count): Promise<void> {
  for (let nth = 0; await live(graph, graph.caller(`worker-${place}.${nth}`, place), count); nth++)
    count.died++;
}

/** Works until there is nothing left (false), or dies (true). */
async function live({ lab }: GraphLab, caller: Caller, count: Count): Promise<boolean> {
  const run = caller.process;
  for (;;) {
    const next = asking("next", { run, waitMs: patienceMs });
    if (odds(lab, deaths.asking)) {
      await askBriefly(lab, caller, next, between(lab, 0, 20));
      return true;
    }
    const reply = await caller.call(next);
    if (reply.kind === "empty") return false;
    // Too much at once: not done, and asked again.
    if (reply.kind !== "claimed") continue;
    count.claims++;
    if (odds(lab, deaths.holding)) return true;
    const { node, lease } = reply;
    const done = asking("status", {
      node,
      run,
      token: lease.token,
      status: "done",
      reason: `${run} ${node}`,
    });
    if (odds(lab, deaths.finishing)) {
      await askBriefly(lab, caller, done, between(lab, 0, 20));
      return true;
    }
    const told = await caller.call(done);
    if (told.kind === "updated") count.finished++;
  }
}
