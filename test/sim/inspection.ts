// What a look inside a simulated server shows: promises that no caller can check from outside, or only much later.
// Nothing that is due stays undone, nobody stands in line for a name that could be had, and at rest the records, the
// indexes and the queues agree.
import { indexEntries, type Key, sortableInstant } from "../../src/core/keys.js";
import { endOf } from "../../src/core/lease.js";
import type { LockRecord, SessionRecord } from "../../src/core/records.js";
import type { MemoryData } from "../../src/engines/memory/store.js";
import type { Leases } from "../../src/service/leases.js";
import type { Violation } from "../../src/verify/check.js";
import { space } from "../history/answers.js";
import type { Machine } from "./machine.js";

/** A name that could be had, with somebody in line: I26 of docs/reliability.md. */
const wakeMaxMs = 500;
/** A lease that is over is settled by then: I3. */
const settleMaxMs = 1000;

export class Inspector {
  readonly violations: Violation[] = [];
  /** Since when a name could be had though somebody waits. */
  readonly #idle = new Map<string, number>();

  constructor(readonly machine: Machine) {}

  /** One look; to be taken every so often. */
  look(): void {
    const wellMs = this.machine.wellForMs();
    if (wellMs === 0) this.#idle.clear();
    const { process } = this.machine;
    if (process === null || wellMs === 0) return;
    const now = process.store.now();
    if (wellMs > settleMaxMs) this.#lookForDue(process.store.memory, now);
    this.#lookForIdle(process.leases, now, wellMs);
  }

  #lookForDue({ ordered }: MemoryData, now: number): void {
    const to = sortableInstant(now - settleMaxMs);
    for (const { key } of ordered.range({ index: "due", from: "", to, limit: 10 }))
      this.#accuse("I3", key, `was due more than ${settleMaxMs} ms ago, and the server did not look`);
  }

  #lookForIdle({ queues }: Leases, now: number, wellMs: number): void {
    const waiting = new Set<string>();
    for (const { presence, claim } of queues.all()) if (presence === "present") waiting.add(claim.name);
    for (const name of [...this.#idle.keys()]) if (!waiting.has(name)) this.#idle.delete(name);
    for (const name of waiting) {
      const since = this.#idle.get(name);
      if (!this.#couldServe(name, now)) this.#idle.delete(name);
      else if (since === undefined) this.#idle.set(name, this.machine.scheduler.now());
      else if (Math.min(wellMs, this.machine.scheduler.now() - since) > wakeMaxMs)
        this.#accuse("I26", name, `could be had for over ${wakeMaxMs} ms while somebody stood in line`);
    }
  }

  /**
   * Whether somebody in line could have the name, by what the records say and not by the service's own rules: it is
   * free, and so is every name that overlaps it, but for leases of the same session.
   */
  #couldServe(name: string, now: number): boolean {
    const { process } = this.machine;
    if (process === null) return false;
    const { store, leases } = process;
    const { records } = store.memory.ordered;
    const sessionOf = (id: string | null): SessionRecord | null =>
      (records.get(`session/${space}/${id}`)?.value ?? null) as SessionRecord | null;
    const isAlive = (session: SessionRecord | null): boolean =>
      session !== null && session.ended === null && session.expiresAt >= now;
    for (let nth = 0; ; nth++) {
      const claim = leases.queues.successors(space, name, nth);
      if (claim === undefined) return false;
      // Its wait is in vain: the next one is asked.
      if (claim.sessionId !== null && !isAlive(sessionOf(claim.sessionId))) continue;
      return [...records.values()].every(({ value: lock }) => {
        if (lock?.kind !== "lock") return true;
        if (lock.name === name) return freeFrom(lock, sessionOf(lock.lease?.sessionId ?? null)) < now;
        if (lock.lease === null || !overlaps(lock.name, name)) return true;
        const isOwn = claim.sessionId !== null && lock.lease.sessionId === claim.sessionId;
        return isOwn || endOf(lock.lease, sessionOf(lock.lease.sessionId)) < now;
      });
    }
  }

  #accuse(invariant: string, name: string, says: string): void {
    if (this.violations.some((known) => known.invariant === invariant && known.name === name)) return;
    const at = Math.round(this.machine.scheduler.now());
    this.violations.push({ invariant, name, says: `at ${at} ms: ${name} ${says}`, operations: [] });
  }

  /** When all is quiet and every lease has run out. */
  atRest(): void {
    const { process, disk } = this.machine;
    if (process === null) throw new Error("no server at rest");
    for (const waiter of process.leases.queues.all())
      this.#accuse("rest", waiter.claim.name, "still has a place in line that nobody waits in");
    if (process.store.isIdle && !isSame(process.store.memory, disk.data))
      this.#accuse("rest", "", "memory and disk differ");
    this.#entries(disk.data);
    this.#leases(disk.data, process.store.now());
  }

  /** The index entries are those that the records call for. */
  #entries(data: MemoryData): void {
    const wanted = new Set<string>();
    for (const [key, { value }] of data.ordered.records)
      if (value !== null)
        for (const { index, sort } of indexEntries(key, value)) wanted.add(`${index} ${sort} ${key}`);
    const found = new Set<string>();
    for (const index of ["held", "due", "gc", "session", "token", "audit"] as const)
      for (const { sort, key } of data.ordered.range({ index, from: "", to: "\x7f", limit: 10_000 }))
        found.add(`${index} ${sort} ${key}`);
    for (const entry of wanted) if (!found.has(entry)) this.#accuse("rest", entry, "is missing in its index");
    for (const entry of found)
      if (!wanted.has(entry)) this.#accuse("rest", entry, "is in an index for nothing");
  }

  /** Nothing that is over is held, and sessions count what is bound to them. */
  #leases(data: MemoryData, now: number): void {
    const bound = new Map<Key, number>();
    for (const [key, { value }] of data.ordered.records) {
      if (value?.kind !== "lock" || value.lease === null) continue;
      const { sessionId } = value.lease;
      const sessionKey = `session/${value.space}/${sessionId}`;
      if (sessionId !== null) bound.set(sessionKey, (bound.get(sessionKey) ?? 0) + 1);
      const session = (data.ordered.records.get(sessionKey)?.value ?? null) as SessionRecord | null;
      if (endOf(value.lease, session) < now - settleMaxMs) this.#accuse("I3", key, "is held beyond its end");
    }
    for (const [key, { value }] of data.ordered.records)
      if (value?.kind === "session" && value.leases !== (bound.get(key) ?? 0))
        this.#accuse("rest", key, `counts ${value.leases} leases and has ${bound.get(key) ?? 0}`);
  }
}

/** The last instant at which a name cannot be had for its own sake: its lease, and the lock delay after it. */
function freeFrom({ lease, availableAt }: LockRecord, session: SessionRecord | null): number {
  return lease === null ? availableAt : endOf(lease, session) + lease.delayMs;
}

/** A path overlaps what is above and below it, `repo:global` every path and every name of the repository. */
function overlaps(one: string, other: string): boolean {
  const isRepository = (name: string): boolean => /^(?:path|repo):/.test(name);
  if (!isRepository(one) || !isRepository(other)) return false;
  if (one === "repo:global" || other === "repo:global") return true;
  return one.startsWith("path:") && (one.startsWith(`${other}/`) || other.startsWith(`${one}/`));
}

function isSame(one: MemoryData, other: MemoryData): boolean {
  const text = (data: MemoryData): string =>
    [...data.ordered.records]
      .map(([key, { value }]) => `${key} ${JSON.stringify(value)}`)
      .toSorted()
      .join("\n");
  return text(one) === text(other);
}
