// Several servers over the same data in memory, where one can count, hold up and spoil: each less its face.
import assert from "node:assert/strict";
import { setMaxListeners } from "node:events";
import { after } from "node:test";
import { lineKey } from "../src/core/keys.js";
import { policyDefault } from "../src/core/limits.js";
import { Leases } from "../src/service/leases.js";
import { systemTimer } from "../src/store/clock.js";
import { SharedStore } from "../src/store/shared-store.js";
import { SharedMemory, SharedMemoryData } from "./shared-memory.js";
import { claim, space } from "./store-lab.js";

export const limits = {
  waitersMax: 5000,
  waitersPerNameMax: 5000,
  waitersPerPrincipalMax: 5000,
  ticketMs: 2000,
};
export const never: AbortSignal = new AbortController().signal;
setMaxListeners(0, never);
// The servers' own timers keep no process alive.
const alive = setInterval(() => undefined, 1000);
after(() => clearInterval(alive));

export class Cluster implements AsyncDisposable {
  readonly memory = new SharedMemory();
  readonly nodes: Node[] = [];

  static async of(count: number): Promise<Cluster> {
    const cluster = new Cluster();
    for (let i = 0; i < count; i++) await cluster.add();
    return cluster;
  }

  async add(): Promise<Node> {
    const node = new Node(this.memory);
    this.nodes.push(node);
    await node.store.open();
    await node.leases.start();
    return node;
  }

  node(i: number): Node {
    return this.nodes[i % this.nodes.length] ?? assert.fail();
  }

  turns(name: string): readonly string[] {
    return (
      (this.memory.ordered.records.get(lineKey(space, name))?.value as { turns?: string[] } | undefined)
        ?.turns ?? []
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.nodes) await node.end();
  }
}

/** A server, less its face. It can be killed: nothing of it does anything any more. */
export class Node {
  readonly data: SharedMemoryData;
  readonly store: SharedStore;
  readonly leases: Leases;
  #isDead = false;

  constructor(memory: SharedMemory) {
    this.data = new SharedMemoryData(memory);
    this.store = new SharedStore(this.data);
    const timer = (ms: number, run: () => void) => systemTimer(ms, () => this.#isDead || run());
    this.leases = new Leases(this.store, policyDefault, limits, () => undefined, timer);
  }

  get id(): string {
    return this.leases.queues.peerId ?? assert.fail();
  }

  acquire(name: string, leaseId: string, waitMs = 0, gone: AbortSignal = never) {
    return this.leases.acquire(claim(name, { leaseId }), { ms: waitMs, gone });
  }

  async release(name: string, leaseId: string): Promise<void> {
    const call = {
      space,
      name,
      principal: "runner-1",
      leaseId,
      outcome: null,
      note: null,
      repeatable: false,
    };
    assert.ok("released" in (await this.leases.release(call)));
  }

  /** As kill -9 does: not even its reads come back. */
  kill(): void {
    this.#isDead = true;
    const dead = (): Promise<never> => new Promise(() => undefined);
    Object.assign(this.data, { read: dead, commit: dead, tick: dead, events: dead, lastEvent: dead });
    void this.data.close();
  }

  async end(): Promise<void> {
    if (this.#isDead) return;
    this.leases.close();
    await this.leases.leave();
    await this.store.close();
  }
}

export const until = async (what: string, isSo: () => boolean): Promise<void> => {
  for (const deadline = performance.now() + 10_000; !isSo(); ) {
    if (performance.now() > deadline) assert.fail(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

export const grantedTo = (acquired: Awaited<ReturnType<Node["acquire"]>>): number => {
  assert.ok("granted" in acquired.outcome, JSON.stringify(acquired.outcome));
  return acquired.outcome.granted.lock.token;
};
