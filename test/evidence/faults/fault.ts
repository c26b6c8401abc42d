// What a fault is: something that is done to a server, its callers or the network between them, again and again
// while workloads run, and that leaves everything whole at its end.

import type { Operation } from "../../../src/verify/history.js";
import { monotonicMs, sleep } from "../../../src/verify/http/clock.js";
import type { Tally } from "../../../src/verify/lab.js";
import type { Server, ServerOptions } from "../../server.js";
import type { fillDisk } from "../../system-small-disk.js";
import type { failSyncs } from "../../system-tracer.js";
import type { Database } from "../database.js";
import type { Engine } from "../engines.js";
import type { Proof, Window } from "../histories.js";
import type { LoadProcess } from "../load-process.js";
import type { TcpProxy } from "../proxy.js";
import type { PushProxy } from "../push-proxy.js";

export interface Fault {
  readonly name: string;
  readonly says: string;
  /** What shows that a strike took effect. */
  readonly proof: string;
  /** Commands that it takes. */
  readonly needs: readonly string[];
  /** The workloads that suit it; undefined: the usual ones. */
  readonly workloads?: readonly string[];
  /** Processes that the load is spread over. */
  readonly loads?: number;
  /** Strikes come with requests: where those are fewer, so are they. */
  readonly isByRequest?: boolean;
  /** The callers reach the server through the proxy. */
  readonly isProxied?: boolean;
  /** For how long it holds up single requests while others pass, in ms. */
  readonly heldUpMs?: number;
  /** Which share of what a workload reaches undisturbed it must reach. */
  readonly share: number;
  /**
   * By situation: how often it must have been reached in a minute, and at least once. `inFlight`: strikes that took
   * effect and met a call under way.
   */
  readonly minimums: Tally;
  /** Made anew for each run. */
  readonly arrange: () => Arranged;
}

export interface Arranged {
  /** What the first server must be started with. */
  readonly options?: ServerOptions;
  /** Strikes until aborted. */
  readonly during: (scene: Scene, over: AbortSignal) => Promise<void>;
}

/** One of the servers that callers can ask. */
export interface Node {
  /** The one that runs now: who ends it puts the next in its place. */
  server: Server;
  /** Before it. */
  readonly proxy: TcpProxy;
  /** Whether the call was made to it. */
  readonly isAsked: (operation: Operation) => boolean;
}

/** What a fault can lay hands on. */
export interface Scene {
  readonly engine: Engine;
  /** At least one, all on the same data. */
  readonly nodes: readonly Node[];
  /** What keeps the data of all nodes, where that is not themselves. */
  readonly database: Database | null;
  /** Between the nodes and their data, where something is. */
  readonly pushes: PushProxy | null;
  /** The processes that call. */
  readonly loads: readonly Pick<LoadProcess, "signal">[];
  /** What is done to the disk under the server. */
  readonly disk: { readonly fill: typeof fillDisk; readonly failSyncs: typeof failSyncs };
  readonly random: () => number;
  /** A strike that lasted from the one instant to the other, and what shows that it did. */
  readonly struck: (window: Window, tookEffect: Proof) => void;
  readonly count: (situation: string) => void;
  /** A call that the server got and that is in no caller's history. */
  readonly also: (operation: Operation) => void;
  /** The server was brought back from a backup: see History.quiet. */
  readonly quiet: (window: Window) => void;
  /** A node was gone, or cut off from the data that others share with it: see History.upsets. */
  readonly upset: (window: Window) => void;
}

export const now = monotonicMs;

/** A node, by chance: the others go on. */
export function oneOf({ nodes, random }: Pick<Scene, "nodes" | "random">): Node {
  const node = nodes[Math.floor(random() * nodes.length)];
  if (node === undefined) throw new Error("there is no server");
  return node;
}

/** The only one, or the one that was started as the fault wanted it. */
export function firstOf({ nodes: [first] }: Pick<Scene, "nodes">): Node {
  if (first === undefined) throw new Error("there is no server");
  return first;
}

export function databaseOf({ database }: Pick<Scene, "database">): Database {
  if (database === null) throw new Error("the servers share no database");
  return database;
}

/** A length of time, in ms, by chance. */
export const between = ({ random }: Pick<Scene, "random">, fromMs: number, toMs: number): number =>
  fromMs + random() * (toMs - fromMs);

/** Between two strikes, in ms: enough to get back to work. */
const pauseDefault = { fromMs: 1000, toMs: 2000 };

/** Strikes again and again, with a pause before each. */
export async function again(
  scene: Scene,
  over: AbortSignal,
  strike: () => Promise<void>,
  { fromMs, toMs } = pauseDefault,
): Promise<void> {
  for (;;) {
    await sleep(between(scene, fromMs, toMs), over);
    if (over.aborted) return;
    await strike();
  }
}

/** The shortest TTL that workloads use. */
const ttlMs = 1000;

/** Long enough that leases run out, in the measure of the shortest. */
const beyondTtlMs = (scene: Pick<Scene, "random">): number => between(scene, 1.2 * ttlMs, 5 * ttlMs);

/** What ends sooner, because the cell is over, shows nothing. */
const lastsMinMs = 500;

/** Keeps something up for longer than leases last. Null: the end came too soon. */
export async function beyondTtl(
  scene: Scene,
  over: AbortSignal,
  begin: () => void,
  end: () => void,
): Promise<Window | null> {
  begin();
  const from = now();
  try {
    await sleep(beyondTtlMs(scene), over);
    const to = now();
    return to - from < lastsMinMs ? null : { from, to };
  } finally {
    end();
  }
}

export { sleep };
