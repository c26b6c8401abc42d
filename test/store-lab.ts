// What tests of stores share: records to write, decisions that write them, everything that a store holds, clocks
// that can be turned, and a directory that goes away with its test.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Decision, View } from "../src/core/decision.js";
import { type Draft, deciding } from "../src/core/draft.js";
import { type IndexName, type Key, lockKey, tokenKey } from "../src/core/keys.js";
import type { Claim } from "../src/core/lease.js";
import { policyDefault } from "../src/core/limits.js";
import type { AnyRecord, LockRecord, TokenRecord } from "../src/core/records.js";
import type { Clocks } from "../src/store/clock.js";
import type { Change, Store } from "../src/store/store.js";

export const space = "default";
export const farAhead = 4_000_000_000_000;
export const indexes: readonly IndexName[] = ["held", "due", "gc", "session", "token", "audit"];

/** A held name; its token counts what a test counts. */
export function held(name: string, token: number, changes: Partial<LockRecord> = {}): LockRecord {
  return {
    kind: "lock",
    space,
    name,
    token,
    attempts: 1,
    lease: {
      id: `lease-${name}-${token}`,
      principal: "runner-1",
      owner: null,
      sessionId: null,
      sessionHash: null,
      metadata: "a test",
      ttlMs: 60_000,
      since: 1,
      renewedAt: 1,
      expiresAt: farAhead,
      delayMs: 0,
      progress: null,
    },
    previous: null,
    outcome: null,
    availableAt: 0,
    dueAt: farAhead,
    gcAt: 0,
    ...changes,
  };
}

/** A free name: in no index but `gc`. */
export const free = (name: string, token: number): LockRecord =>
  held(name, token, { lease: null, dueAt: 0, gcAt: farAhead });

/** A record that stands in one index only, where the test says. */
export const marker = (id: string, sort: string, inSpace = space): TokenRecord => ({
  kind: "token",
  id,
  space: inSpace,
  name: sort,
  hash: "0",
  role: "worker",
  scopes: [],
  reentrant: false,
  createdAt: 1,
  createdBy: "test",
  expiresAt: null,
});

/** Somebody asking for a name. */
export const claim = (name: string, changes: Partial<Claim> = {}): Claim => ({
  space,
  name,
  principal: "runner-1",
  owner: null,
  metadata: null,
  ttlMs: 60_000,
  delayMs: 0,
  sessionId: null,
  leaseId: `lease-${randomUUID()}`,
  proof: null,
  reentrant: false,
  request: null,
  ...changes,
});

/** Decides by a draft, which works out the index entries and asks for what is missing. */
export const drafting =
  <Reply>(body: (draft: Draft) => Reply) =>
  (view: View): Decision<Reply> =>
    deciding(view, policyDefault, body);

export function put(store: Store, key: Key, record: AnyRecord | null): Promise<void> {
  return store.transact(
    [key],
    drafting((draft) => {
      draft.get(key);
      draft.put(key, record);
    }),
  );
}

export const putLock = (store: Store, record: LockRecord): Promise<void> =>
  put(store, lockKey(record.space, record.name), record);
export const putMarker = (store: Store, record: TokenRecord): Promise<void> =>
  put(store, tokenKey(record.id), record);

export function get<R extends AnyRecord>(store: Store, key: Key<R>): Promise<R | null> {
  return store.transact(
    [key],
    drafting((draft) => draft.get(key)),
  );
}

/** One more token of a name, with an event that tells it. */
export function bump(store: Store, name: string, signal?: AbortSignal): Promise<number> {
  const key = lockKey(space, name);
  return store.transact(
    [key],
    drafting((draft) => {
      const token = (draft.get(key)?.token ?? 0) + 1;
      draft.put(key, held(name, token));
      draft.emit({ type: "token", space, id: `${name}=${token}` });
      return token;
    }),
    signal,
  );
}

export const tokenOf = async (store: Store, name: string): Promise<number> =>
  (await get(store, lockKey(space, name)))?.token ?? 0;

/** Writes one event and nothing else that matters. */
export async function tell(store: Store, id: string): Promise<void> {
  await store.transact([], () => ({ reply: undefined, writes: [], events: [{ type: "token", space, id }] }));
}

/** What a change tells, in one word. */
export function told(change: Change): string {
  if ("reset" in change) return "reset";
  const { event } = change;
  return event.type === "token" ? event.id : event.type === "acquired" ? event.name : event.type;
}

/** The next `count` changes. */
export async function take(changes: AsyncIterator<Change>, count: number): Promise<Change[]> {
  const taken: Change[] = [];
  while (taken.length < count) {
    const next = await changes.next();
    if (next.done) break;
    taken.push(next.value);
  }
  return taken;
}

export const follow = (store: Store, after: string | undefined, signal: AbortSignal): AsyncIterator<Change> =>
  store.changes(after, signal)[Symbol.asyncIterator]();

/** Everything that stands in an index, as `index/sort` to record. */
export async function everything(store: Store, pageSize = 500): Promise<Map<string, AnyRecord>> {
  const found = new Map<string, AnyRecord>();
  for (const index of indexes)
    for (let from = ""; ; ) {
      const page = await store.list({ index, from, to: "\x7f", limit: pageSize });
      for (const { sort, record } of page) found.set(`${index}/${sort}`, record);
      const last = page.at(-1);
      if (last === undefined) break;
      from = `${last.sort}\u0000`;
    }
  return found;
}

/** Clocks that stand still until a test turns them. */
export class TurnedClocks implements Clocks {
  monotonicAt = 1_000;
  wallAt = 1_700_000_000_000;
  readonly monotonic = (): number => this.monotonicAt;
  readonly wall = (): number => this.wallAt;

  /** Time passes. */
  pass(ms: number): void {
    this.monotonicAt += ms;
    this.wallAt += ms;
  }

  /** Somebody sets the wall clock. */
  step(ms: number): void {
    this.wallAt += ms;
  }
}

/** A directory of this test's own. */
export function scratch(t: Pick<TestContext, "after">): string {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  t.after(() => rmSync(dir, { recursive: true, force: true, maxRetries: 3 }));
  return dir;
}

/** For what nobody announces: looks again until it is so. */
export async function until(holds: () => boolean | Promise<boolean>, withinMs = 20_000): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not within ${withinMs} ms: ${holds.toString()}`);
    await delay(5);
  }
}

/** Numbers that look random and are the same for the same seed. */
export function seeded(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
