// Handing out work in one process: a service on a store whose looks for work can be held up or made to fail, and timers
// that run out when they are told to.
import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { Decide } from "../src/core/decision.js";
import type { Key } from "../src/core/keys.js";
import { policyDefault } from "../src/core/limits.js";
import type { Claimed } from "../src/core/nodes/claim.js";
import type { Priority } from "../src/core/nodes/records.js";
import { MemoryData, MemoryStore } from "../src/engines/memory/store.js";
import { Leases } from "../src/service/leases.js";
import type { NextAsk, NextOutcome } from "../src/service/next-work.js";
import { Nodes } from "../src/service/nodes.js";
import type { Timer } from "../src/store/clock.js";
import { space } from "./store-lab.js";

export const ticketMs = 10_000;
const limits = { waitersMax: 6, waitersPerNameMax: 4, waitersPerPrincipalMax: 4, ticketMs };

/** The steps of a look name no node: those that do are let through. */
const isLook = (keys: readonly Key[]): boolean => !keys.some((key) => key.startsWith("node/"));

function gate(): { readonly open: () => void; readonly opened: Promise<void> } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

export class WorkStore extends MemoryStore {
  looks = 0;
  /** With more of them than this they fail: looks without an end would leave a test no turn to say so. */
  looksMax = Number.POSITIVE_INFINITY;
  #next: { readonly before?: Promise<void>; readonly after?: Promise<void>; readonly error?: Error } = {};

  /** The next look begins when this is called. */
  holdLook(): () => void {
    const { open, opened } = gate();
    this.#next = { before: opened };
    return open;
  }

  /** The next look is done at once, and its caller learns of it when this is called. */
  holdReply(): () => void {
    const { open, opened } = gate();
    this.#next = { after: opened };
    return open;
  }

  failLook(error: Error): void {
    this.#next = { error };
  }

  override async transact<Reply>(keys: readonly Key[], decide: Decide<Reply>): Promise<Reply> {
    if (!isLook(keys)) return super.transact(keys, decide);
    assert.ok(++this.looks <= this.looksMax, "looks without an end");
    const { before, after, error } = this.#next;
    this.#next = {};
    if (error !== undefined) throw error;
    await before;
    const reply = await super.transact(keys, decide);
    await after;
    return reply;
  }
}

/** Everything that is on its way has come to its end. */
export async function quiet(): Promise<void> {
  for (let i = 0; i < 20; i++) await turn();
}

export class Scene {
  now = 1000;
  readonly store = new WorkStore(new MemoryData({ monotonic: () => this.now, wall: () => this.now }));
  readonly leases: Leases;
  readonly nodes: Nodes;
  readonly reports: string[] = [];
  readonly #timers = new Map<() => void, number>();
  #leases = 0;

  constructor() {
    const report = (what: string): void => void this.reports.push(what);
    this.leases = new Leases(this.store, policyDefault, limits, report, () => () => undefined);
    const after: Timer = (ms, run) => {
      this.#timers.set(run, ms);
      return () => this.#timers.delete(run);
    };
    this.nodes = new Nodes(this.leases, after);
  }

  /** Follows the feed: who waits is woken. */
  static async started(): Promise<Scene> {
    const scene = new Scene();
    void scene.leases.start();
    await quiet();
    return scene;
  }

  /** Timers of so many ms run out, or all of them. */
  async runOut(ms: number | null = null): Promise<void> {
    for (const [run, of] of [...this.#timers])
      if (ms === null || of === ms) {
        this.#timers.delete(run);
        run();
      }
    await quiet();
  }

  create(id: string, more: { type?: string; priority?: Priority } = {}) {
    const { type = "task", priority = null } = more;
    const fields = { title: "t", summary: null, status: null, project: null };
    return this.nodes.create({ space, principal: "ann", id, type, priority, ...fields });
  }

  ask(more: Partial<NextAsk> = {}): NextAsk {
    const plain = { session: null, dispatch: null, request: null, type: null, scope: null };
    return { space, principal: "ann", leaseId: `lease-${++this.#leases}`, ...plain, ...more };
  }

  async taken(asked: NextAsk): Promise<Claimed> {
    const outcome = await this.nodes.work.next(asked, null);
    assert.ok("edge" in outcome, JSON.stringify(outcome));
    return outcome;
  }

  /** A call that waits; it has looked once when this resolves. */
  async waiting(asked: NextAsk, ms = 60_000): Promise<Waiter> {
    const waiter = new Waiter(this, asked, ms);
    await quiet();
    return waiter;
  }

  named(principal: string, id: string) {
    return { space, principal, id, session: null, token: null };
  }

  claimBy(principal: string, id: string) {
    const leaseId = `lease-${++this.#leases}`;
    return { ...this.named(principal, id), dispatch: null, rebind: false, leaseId, request: null };
  }

  async holder(id: string): Promise<string | null> {
    const now = await this.nodes.look(space, id);
    return "refused" in now ? null : (now.held?.node.claim.by ?? null);
  }

  async story(id: string): Promise<string[]> {
    const found = await this.nodes.history(space, id, 0, 100);
    return (found?.entries ?? []).map(({ what, by, token }) => `${what} ${by} ${token}`);
  }
}

export class Waiter {
  /** The node, `empty`, a refusal, or what failed; null: it waits. */
  told: string | null = null;
  outcome: NextOutcome | null = null;
  readonly #gone = new AbortController();

  constructor(
    { nodes }: Scene,
    readonly ask: NextAsk,
    ms: number,
  ) {
    nodes.work.next(ask, { ms, gone: this.#gone.signal }).then(
      (outcome) => {
        this.outcome = outcome;
        this.told = "edge" in outcome ? outcome.node.id : "empty" in outcome ? "empty" : outcome.refused;
      },
      (error: unknown) => {
        this.told = String(error);
      },
    );
  }

  leave(): void {
    this.#gone.abort();
  }
}
