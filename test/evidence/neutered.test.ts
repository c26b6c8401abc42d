// What a green cell is worth: each fault with its effect taken out, and everything else as it is, makes its cell red,
// because the proof of its strikes is missing.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { runCell } from "./cell.js";
import { type Engine, sqlite } from "./engines.js";
import { clock } from "./faults/clock.js";
import { diskFull } from "./faults/disk-full.js";
import { duplicates } from "./faults/duplicates.js";
import type { Arranged, Fault, Node, Scene } from "./faults/fault.js";
import { fsync } from "./faults/fsync.js";
import { kill } from "./faults/kill.js";
import { late } from "./faults/late.js";
import { lostPush } from "./faults/lost-push.js";
import { lostReplies } from "./faults/lost-replies.js";
import { partition } from "./faults/partition.js";
import { restart } from "./faults/restart.js";
import { restore } from "./faults/restore.js";
import { stopClient } from "./faults/stop-client.js";
import { stopServer } from "./faults/stop-server.js";
import { git } from "./git-engines.js";
import type { Fate } from "./proxy.js";
import type { PushFate } from "./push-proxy.js";
import { isRed, reasons } from "./table.js";

const seed = Math.floor(Math.random() * 2 ** 31);
/** Long enough for a strike or two. */
const seconds = 3;
/** A load that calls all the time is enough. */
const workloads = ["mutex", "queue"];
/** Cells at once: they wait more than they work. */
const concurrency = 4;

/** The thing with some of its members replaced; what is set goes to the thing itself or to what replaces it. */
function having<Thing extends object>(thing: Thing, changes: Partial<Thing>): Thing {
  const whose = (key: PropertyKey): object => (key in changes ? changes : thing);
  return new Proxy(thing, {
    get: (_, key) => {
      const value: unknown = Reflect.get(whose(key), key);
      return typeof value === "function" ? value.bind(thing) : value;
    },
    set: (_, key, value) => Reflect.set(whose(key), key, value),
  });
}

const withScene =
  (change: (scene: Scene) => Partial<Scene>) =>
  ({ during, ...arranged }: Arranged): Arranged => ({
    ...arranged,
    during: (scene, over) => during(having(scene, change(scene)), over),
  });

const nothing = (): void => undefined;
const withNodes = (change: (node: Node) => Partial<Node>) =>
  withScene(({ nodes }) => ({ nodes: nodes.map((node) => having(node, change(node))) }));
const withFates = (change: (fate: Fate) => Fate) =>
  withNodes(({ proxy }) => ({
    proxy: having(proxy, {
      set fateOf(fateOf: typeof proxy.fateOf) {
        proxy.fateOf = (request) => change(fateOf(request));
      },
    }),
  }));
const deafServer = withNodes(({ server }) => ({ server: having(server, { kill: nothing }) }));
const withPushes = (change: (fate: PushFate) => PushFate) =>
  withScene(({ pushes }) => ({
    pushes:
      pushes &&
      having(pushes, {
        set fateOf(fateOf: typeof pushes.fateOf) {
          pushes.fateOf = () => change(fateOf());
        },
      }),
  }));

interface Neutered {
  readonly engine?: Engine;
  readonly fault: Fault;
  readonly without: string;
  readonly neuter: (arranged: Arranged) => Arranged;
  /** What else is missing then, beside strikes that took effect: one of them is enough. */
  readonly lacks?: string;
}

const rows: readonly Neutered[] = [
  { fault: kill, without: "a kill", neuter: deafServer },
  { fault: stopServer, without: "a stop", neuter: deafServer },
  {
    fault: stopClient,
    without: "a stop",

    neuter: withScene(({ loads }) => ({ loads: loads.map(() => ({ signal: nothing })) })),
  },
  {
    fault: lostReplies,
    without: "a loss",

    neuter: withFates(() => ({ kind: "pass" })),
  },
  {
    fault: late,
    without: "a delay",
    lacks: "arrivedLate",
    neuter: withFates((fate) => ("ms" in fate ? { ...fate, ms: 0 } : fate)),
  },
  {
    fault: duplicates,
    without: "a second request",

    neuter: withFates(() => ({ kind: "pass" })),
  },
  {
    fault: partition,
    without: "a partition",

    neuter: withNodes(({ proxy }) => ({ proxy: having(proxy, { part: nothing }) })),
  },
  {
    fault: clock,
    without: "a clock that can be stepped",

    neuter: ({ during }) => ({ during }),
  },
  {
    fault: diskFull,
    without: "ballast",

    neuter: withScene(({ disk }) => ({ disk: { ...disk, fill: () => ({ remove: nothing }) } })),
  },
  {
    fault: fsync,
    without: "a failure",

    neuter: withScene(({ disk }) => ({
      disk: { ...disk, failSyncs: async () => ({ output: () => "", detach: async () => undefined }) },
    })),
  },
  {
    fault: restart,
    without: "an end",

    neuter: withScene(({ engine }) => ({ engine: { ...engine, bounce: async (server) => server } })),
  },
  {
    fault: restart,
    without: "order: killed instead",

    neuter: withScene(({ engine }) => ({ engine: { ...engine, bounce: (server) => server.restart() } })),
  },
  {
    fault: restore,
    without: "the backup",

    neuter: withScene(({ engine }) => ({ engine: { ...engine, restore: async (server) => server } })),
  },
  {
    fault: restore,
    without: "the backup: only restarted",

    neuter: withScene(({ engine }) => ({ engine: { ...engine, restore: engine.bounce } })),
  },
  { engine: git, fault: lostPush, without: "a loss", neuter: withPushes(() => "pass") },
];

describe("a fault without its effect is no evidence", { concurrency }, () => {
  // What strikes is the same for every engine that it can strike.
  for (const { engine = sqlite, fault, without, neuter, lacks } of rows)
    test(`${engine.name}, ${fault.name} without ${without}`, async (t) => {
      const neutered: Fault = { ...fault, workloads, arrange: () => neuter(fault.arrange()) };
      const cell = await runCell({ engine, fault: neutered, seconds, seed });
      for (const reason of reasons(cell)) t.diagnostic(reason);
      assert.equal(cell.failure, undefined);
      assert.ok(isRed(cell));
      const lacking = cell.tooLittle.filter(({ situation }) => ["tookEffect", lacks].includes(situation));
      assert.notEqual(lacking.length, 0, `seed ${seed}: ${JSON.stringify(cell.tally)}`);
      const violated = cell.results.flatMap(({ verdict }) => verdict.violations);
      assert.deepEqual(violated, []);
    });
});
