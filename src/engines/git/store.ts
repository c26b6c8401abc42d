/**
 * The git engine: locks as references to records, changed by compare-and-swap. A decision runs over what the references
 * said at one look (or are remembered to have said, where a look costs a connection), and counts only if they still say
 * so when they are swapped. What was read and not changed is covered as it must be: names that overlap others by the
 * guard, refusals by a look of their own. One lock changes per step.
 */
import { randomBytes } from "node:crypto";
import type { Ask, Decide, Decided, Range } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import { roundsMax } from "../../core/limits.js";
import { hasOverlap } from "../../core/names.js";
import type { LockRecord } from "../../core/records.js";
import { follow } from "../../store/feed.js";
import { LoadedView } from "../../store/rounds.js";
import {
  type Change,
  type Cursor,
  type ListRow,
  noBounds,
  type Store,
  StoreError,
  type StoreFacts,
} from "../../store/store.js";
import { type Authority, guardRef, type Swap, type SwapEnd } from "./authority.js";
import { Feed } from "./feed.js";
import { fenceSwap, unfinishedIn } from "./fence.js";
import { type Floors, floorIn, raisedForAll } from "./floors.js";
import { decodeGuard, encodeGuard, type Guard, type GuardedGrant } from "./guard-blob.js";
import { laneOf, lockOf, refOf, refOfLock, spaceOfFloor } from "./key-refs.js";
import { changesIn, type LockChange, leavesFree } from "./lock-change.js";
import type { MachineClock } from "./machine-clock.js";
import type { Objects } from "./objects.js";
import { encodeCell, type Writing } from "./record-blob.js";
import type { Found, Records, Trouble } from "./records.js";
import { type Removal, Tried, type Written } from "./tried.js";

/** How long a step goes on trying while others keep winning, in ms. */
const contendMaxMs = 10_000;
const pauseFirstMs = 2;
const pauseMaxMs = 200;

export interface GitStoreParts {
  readonly authority: Authority;
  readonly objects: Objects;
  readonly records: Records;
  readonly floors: Floors;
  readonly clock: MachineClock;
  /** What others may see of this process's session. */
  readonly session: string | null;
}

/** Where the references stand that a decision looked at, and whether they were looked at for it. */
interface Sight {
  readonly view: LoadedView;
  readonly oids: Map<string, string | null>;
  guard: Guard | null;
  /** Why the guard cannot be read: who needs it is refused, and others, who renew or give back, go on. */
  fault: StoreError | null;
  readonly mustLook: boolean;
  /** Nothing in it is only remembered. */
  isFresh: boolean;
  /** More than one lock was read. */
  hasOthers: boolean;
  /** A look at all locks serves every question after it. */
  whole: Found | null;
}

export class GitStore implements Store {
  readonly facts: StoreFacts;
  readonly #parts: GitStoreParts;
  readonly #feed: Feed;
  /** Steps of one handle on the same lock come one after the other: they would only lose against each other. */
  readonly #lanes = new Map<string, Promise<unknown>>();
  #isClosed = false;

  constructor(parts: GitStoreParts) {
    this.#parts = parts;
    this.#feed = new Feed(parts.records, parts.clock);
    this.facts = {
      engine: "git",
      location: `references of ${parts.authority.place}`,
      order: "cluster",
      ...noBounds,
      locksMax: 1,
    };
  }

  async transact<Reply>(keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply> {
    this.#check(signal);
    const lane = laneOf(keys);
    const turn = (this.#lanes.get(lane) ?? Promise.resolve()).then(() => {
      this.#check(signal);
      return this.#decided(keys, decide, signal);
    });
    const settled = turn.catch(() => undefined);
    this.#lanes.set(lane, settled);
    void settled.then(() => {
      if (this.#lanes.get(lane) === settled) this.#lanes.delete(lane);
    });
    return turn;
  }

  async #decided<Reply>(keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply> {
    const tried = new Tried<Reply>();
    try {
      return await this.#tryOn(tried, keys, decide, signal);
    } catch (error) {
      throw tried.told(error);
    }
  }

  async #tryOn<Reply>(
    tried: Tried<Reply>,
    keys: readonly Key[],
    decide: Decide<Reply>,
    signal?: AbortSignal,
  ): Promise<Reply> {
    const { authority, clock } = this.#parts;
    const until = clock.now() + contendMaxMs;
    let mustLook = !authority.isRemote;
    for (let attempt = 0; ; attempt++) {
      const sight: Sight = {
        view: new LoadedView(clock.now()),
        oids: new Map(),
        guard: null,
        fault: null,
        mustLook,
        isFresh: true,
        hasOthers: false,
        whole: null,
      };
      const decision = await this.#decide(sight, keys, decide);
      const landed = tried.landed(sight.oids);
      // An answer was lost, and the write was not.
      if (landed !== undefined) return this.#done(landed);
      // Also one that ends what it found to be over: the lease that it is refused for is another's, and in no swap.
      const isRefusal = decision.writes.length === 0 || (sight.hasOthers && leavesFree(decision.writes));
      if (isRefusal && !sight.isFresh) {
        mustLook = true;
        continue;
      }
      if (isRefusal && tried.isOvertaken((key) => sight.view.get(key)))
        throw new StoreError("unknown", "it may have been done, and be over by now");
      if (decision.writes.length === 0) return decision.reply;
      if (!tried.isUncertain) this.#check(signal);
      const now = await this.#prepare(decision, sight);
      tried.sends(now);
      const end = await this.#swap(now);
      if (end === "done") return this.#done(now);
      mustLook = true;
      tried.ended(now, end);
      if (this.#isClosed) throw new StoreError("closed", "the store was closed before it was written");
      if (clock.now() > until) throw tried.givenUp(authority);
      await this.#pause(attempt);
    }
  }

  async #decide<Reply>(sight: Sight, keys: readonly Key[], decide: Decide<Reply>): Promise<Decided<Reply>> {
    await this.#load(sight, keys, false);
    for (let round = 0; round < roundsMax; round++) {
      const decision = decide(sight.view);
      if (!("need" in decision)) return decision;
      await this.#load(sight, decision.need, true);
    }
    throw new StoreError("unsupported", `a decision asked for more than ${roundsMax} rounds of records`);
  }

  /** Brings what was asked for into the view. Locks before the floor: one that was removed is in the floor by then. */
  async #load(sight: Sight, asks: readonly Ask[], isAsked: boolean): Promise<void> {
    const ranges = asks.filter((ask): ask is Range => typeof ask !== "string");
    const keys = asks.filter((ask): ask is Key => typeof ask === "string");
    const refs = keys.flatMap((key) => refOf(key) ?? []);
    const isGuarded = (key: Key): boolean =>
      spaceOfFloor(key) !== null || hasOverlap(lockOf(key)?.name ?? "");
    // The guard must be as it was before any lock under it was read, so it is never looked at later than they are.
    if (ranges.length > 0 || keys.some(isGuarded)) refs.push(guardRef);
    sight.hasOthers ||= ranges.length > 0 || keys.filter((key) => lockOf(key) !== null).length > 1;
    const found = sight.whole ?? (await this.#look(sight, refs, ranges.length > 0 || this.#wantsAll(keys)));
    for (const ref of refs) if (!sight.oids.has(ref)) sight.oids.set(ref, found.oid(ref));
    if (refs.includes(guardRef)) await this.#loadGuard(sight, found, isAsked);
    for (const key of keys) await this.#loadKey(sight, key, found);
    for (const range of ranges) sight.view.addRange(range, await found.range(range));
  }

  async #loadGuard(sight: Sight, found: Found, isAsked: boolean): Promise<void> {
    if (sight.fault === null && sight.guard === null)
      try {
        sight.guard = await found.guard();
        if (sight.guard !== null) this.#parts.floors.saw(sight.guard);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        sight.fault = error;
      }
    if (sight.fault !== null && isAsked) throw sight.fault;
  }

  async #look(sight: Sight, refs: readonly string[], isWhole: boolean): Promise<Found> {
    const { records } = this.#parts;
    const found = sight.mustLook
      ? await (isWhole ? records.lookAtAll() : records.look(refs))
      : await records.remembered(refs, isWhole);
    sight.isFresh &&= found.isFresh;
    if (isWhole) sight.whole = found;
    return found;
  }

  /** Names that overlap others will ask for those, and one connection brings all as well as one. */
  #wantsAll(keys: readonly Key[]): boolean {
    return this.#parts.authority.isRemote && keys.some((key) => hasOverlap(lockOf(key)?.name ?? ""));
  }

  async #loadKey(sight: Sight, key: Key, found: Found): Promise<void> {
    const { view } = sight;
    if (view.get(key) !== undefined) return;
    const lock = lockOf(key);
    if (lock !== null) {
      const cell = await found.cell(lock);
      view.addRecord(key, cell?.lock ?? null);
      for (const [requestKey, request] of cell?.requests ?? []) view.addRecord(requestKey, request);
      return;
    }
    const space = spaceOfFloor(key);
    if (space !== null && sight.fault !== null) return; // the decision asks again if it needs it
    if (space !== null) view.addRecord(key, space === "*" ? null : floorIn(sight.guard, space));
    else if (key.startsWith("request/")) {
      // Those that were granted something stand with their lock, which was loaded before.
      if (view.get(key) === undefined) view.addRecord(key, null);
    } else if (key.startsWith("session/")) view.addRecord(key, null);
    else throw new StoreError("unsupported", `a repository keeps locks, not ${key.split("/")[0]} records`);
  }

  /** The swaps that make the decision true, with their objects written. The guard comes first. */
  async #prepare<Reply>(decision: Decided<Reply>, sight: Sight): Promise<Written<Reply>> {
    const { objects, records, clock, session } = this.#parts;
    const { lock, requests, ...raised } = changesIn(decision.writes);
    const swaps: Swap[] = [];
    const { now } = sight.view;
    const isRemoval = lock !== null && lock.record === null;
    const floors = isRemoval
      ? raisedForAll(raised.floors, (await sight.whole?.locks()) ?? [], now)
      : raised.floors;
    let guard: Guard | null = null;
    const writing = { now, wallNow: clock.wall(), writeId: randomBytes(16).toString("hex"), session };
    const isGuarded = lock?.record?.lease != null && hasOverlap(lock.record.name) && isGrant(lock, sight);
    const isNamed = isRemoval && isArrived(lock, sight);
    if (isGuarded || floors.length > 0 || isNamed) {
      if (!sight.oids.has(guardRef)) await this.#load(sight, ["floor/default" as Key], true);
      if (sight.fault !== null) throw sight.fault;
      const grant = isGuarded ? grantOf(lock, sight) : isNamed ? null : (sight.guard?.grant ?? null);
      const text = encodeGuard(sight.guard, floors, grant, writing.writeId);
      guard = decodeGuard(text);
      swaps.push({ ref: guardRef, old: sight.oids.get(guardRef) ?? null, fresh: await objects.write(text) });
      if (isGuarded) swaps.push(...(await this.#fence(lock, sight, writing)));
    }
    if (lock !== null) {
      const ref = refOf(lock.key);
      if (ref === null) throw new StoreError("unsupported", `no reference for ${lock.key}`);
      const old = sight.oids.get(ref) ?? null;
      const before = await records.requestsAt(old);
      const text =
        lock.record && encodeCell({ lock: lock.record, requests: [...before, ...requests] }, writing);
      const fresh = text === null ? null : await objects.write(text);
      if (fresh !== null && isTimed(lock.record)) records.willWrite(ref, fresh, now);
      swaps.push({ ref, old, fresh });
    }
    const removal = isRemoval ? removalOf(lock, sight, guard) : null;
    return { reply: decision.reply, decision, swaps, removal };
  }

  /** The grant before this one, if its lock was not seen to change. */
  async #fence({ key }: LockChange, sight: Sight, writing: Writing): Promise<Swap[]> {
    const { guard, oids, whole } = sight;
    if (guard?.grant == null) return [];
    const ref = refOfLock({ space: guard.grant.space, name: guard.grant.resource });
    if (ref === refOf(key)) return [];
    const found = whole ?? (await this.#look(sight, [ref], false));
    const unfinished = unfinishedIn(guard, () => oids.get(ref) ?? found.oid(ref));
    return unfinished === null ? [] : [await fenceSwap(guard, found, writing, this.#parts)];
  }

  /**
   * In one step, but for a lock that is removed: its token is in the floor before it is gone, for whoever reads the two one
   * after the other; and at a remote for as long as a look there may take.
   */
  async #swap<Reply>({ swaps, removal }: Written<Reply>): Promise<SwapEnd> {
    const { authority, floors } = this.#parts;
    if (removal === null) return authority.swap(swaps);
    for (const swap of swaps) {
      if (swap.fresh === null && authority.isRemote) await floors.stand(removal.space, removal.token);
      const end = await authority.swap([swap]);
      if (end !== "done") return end;
      if (swap.ref === guardRef && removal.guard !== null) floors.saw(removal.guard);
    }
    return "done";
  }

  #done<Reply>({ reply, decision, swaps }: Written<Reply>): Reply {
    this.#parts.records.wrote(swaps, changesIn(decision.writes).lock?.record ?? null, decision.events);
    return reply;
  }

  #pause(attempt: number): Promise<void> {
    const ms = Math.min(pauseMaxMs, pauseFirstMs * 2 ** Math.min(attempt, 8)) * (0.5 + Math.random());
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  async list(range: Range): Promise<readonly ListRow[]> {
    this.#check();
    const found = await this.#parts.records.lookAtAll();
    return found.rows(range);
  }

  changes(after: Cursor | undefined, signal: AbortSignal): AsyncIterable<Change> {
    return follow(this.#feed, after, signal);
  }

  async head(): Promise<Cursor> {
    this.#check();
    return this.#feed.head();
  }

  now(): number {
    return this.#parts.clock.now();
  }

  async ping(): Promise<void> {
    this.#check();
    await this.#parts.records.look([guardRef]);
  }

  async gauges(): Promise<Readonly<Record<string, number>>> {
    return { records: (await this.#parts.records.lookAtAll()).size };
  }

  async backup(): Promise<void> {
    throw new StoreError("unsupported", "locks in a repository are backed up with the repository");
  }

  /** Records that cannot be read, and such as seem to come from the future; `seen`: by the list before. */
  async troubles(seen: "seen" | "now" = "now"): Promise<readonly Trouble[]> {
    this.#check();
    const { records } = this.#parts;
    return ((seen === "seen" ? records.last : null) ?? (await records.lookAtAll())).troubles();
  }

  /** Rejects if lock references cannot be written. */
  async probe(): Promise<void> {
    this.#check();
    const { objects, authority } = this.#parts;
    await authority.probe(await objects.write(`probe ${randomBytes(16).toString("hex")}\n`));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#feed.close();
    await Promise.all(this.#lanes.values());
    await Promise.all([this.#parts.objects.close(), this.#parts.authority.close()]);
  }

  #check(signal?: AbortSignal): void {
    if (this.#isClosed) throw new StoreError("closed", "the store was closed");
    if (signal?.aborted)
      throw new StoreError("unavailable", "the request was cancelled before it was written");
  }
}

/** A lease that the record did not have before. */
function isGrant({ key, record }: LockChange, { view }: Sight): boolean {
  const before = view.get<LockRecord>(key as Key<LockRecord>);
  return before?.lease?.id !== record?.lease?.id;
}

/** Whether it matters when it was written. */
const isTimed = (record: LockRecord | null): boolean =>
  record !== null && (record.lease !== null || record.availableAt !== 0);

function grantOf({ key }: LockChange, { oids }: Sight): GuardedGrant | null {
  const lock = lockOf(key);
  return lock && { space: lock.space, resource: lock.name, was: oids.get(refOfLock(lock)) ?? null };
}

/** Whether the grant that the guard names is one of this lock, and was made: then nobody need look for it any more. */
function isArrived({ key }: LockChange, { guard, oids }: Sight): boolean {
  const lock = lockOf(key);
  const grant = guard?.grant;
  if (lock === null || grant == null || grant.space !== lock.space || grant.resource !== lock.name)
    return false;
  return oids.get(refOfLock(lock)) !== grant.was;
}

function removalOf({ key }: LockChange, { view }: Sight, guard: Guard | null): Removal {
  const { space = "" } = lockOf(key) ?? {};
  return { space, token: view.get<LockRecord>(key as Key<LockRecord>)?.token ?? 0, guard };
}
