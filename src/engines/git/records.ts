/**
 * The records behind the references: looks at the authority, what is remembered of the last one, and what a record means
 * by this machine's clock. A record that cannot be read stops nobody but who asks for that lock.
 */
import type { Range, RangeRow } from "../../core/decision.js";
import { indexEntries, type Key } from "../../core/keys.js";
import type { FeedEvent, LockRecord, RequestRecord } from "../../core/records.js";
import { type ListRow, StoreError } from "../../store/store.js";
import { type Authority, guardRef, lockPrefix, type Refs, type Swap } from "./authority.js";
import { decodeGuard, type Guard, parseGuard } from "./guard-blob.js";
import { type LockName, refOfLock } from "./key-refs.js";
import type { MachineClock } from "./machine-clock.js";
import type { Objects } from "./objects.js";
import { type Cell, decodeCell, lockKeyOf, parseCell, requestKeyOf, type Stored } from "./record-blob.js";
import type { Sightings } from "./sightings.js";
import type { Snapshot } from "./snapshot.js";

/** Looks in a row that found references whose records were gone again. */
const looksMax = 5;

export interface Trouble {
  /** future: it is readable, and a clock is wrong. Of the others nobody can tell who holds what. */
  readonly what: "damaged" | "newer" | "future";
  readonly resource: string | null;
  readonly ref: string;
  readonly details: string;
}

interface FoundCell {
  readonly lock: LockRecord;
  readonly requests: readonly (readonly [Key<RequestRecord>, RequestRecord])[];
}

/** What one look found. */
export interface Found {
  /** Whether it was looked at for this, and is not only remembered. */
  readonly isFresh: boolean;
  readonly size: number;
  oid(ref: string): string | null;
  guard(): Promise<Guard | null>;
  cell(lock: LockName): Promise<FoundCell | null>;
  range(range: Range): Promise<readonly RangeRow[]>;
  rows(range: Range): Promise<readonly ListRow[]>;
  locks(): Promise<readonly { readonly ref: string; readonly oid: string; readonly lock: LockRecord }[]>;
  troubles(): Promise<readonly Trouble[]>;
}

export class Records {
  /** Told of what this process wrote, with the events of the step. */
  whenWritten: (swaps: readonly Swap[], lock: LockRecord | null, events: readonly FeedEvent[]) => void = () =>
    undefined;
  /** What the last look at all locks found. */
  last: Found | null = null;

  constructor(
    readonly authority: Authority,
    readonly objects: Objects,
    readonly sightings: Sightings,
    readonly snapshot: Snapshot,
    readonly clock: MachineClock,
    /** How far the wall clocks of two machines may be apart. */
    readonly skewMs: number,
    /** How long a look may take to be believed in every part. */
    readonly trustedMs: number,
  ) {}

  /** These references as they are now. */
  async look(refs: readonly string[]): Promise<Found> {
    const found = await this.#brought(() => this.authority.read(refs), refs.includes(guardRef));
    this.snapshot.see(refs.map((ref) => [ref, found.get(ref) ?? null] as const));
    return this.#found(found, true);
  }

  /** All locks as they are now. */
  async lookAtAll(): Promise<Found> {
    const at = this.clock.now();
    const found = await this.#brought(() => this.authority.readAll(), true);
    this.snapshot.replace(found, at);
    this.sightings.keepOnly(new Set([...found.keys()].map(nameOf)));
    this.last = this.#found(found, true);
    return this.last;
  }

  /** As they were at the last look, if that says anything about all of them; else as they are now. */
  async remembered(refs: readonly string[], isWhole: boolean): Promise<Found> {
    if (!(isWhole ? this.snapshot.isWhole : this.snapshot.isRecent)) return this.lookAtAll();
    const refsNow = this.snapshot.refs();
    const wanted = isWhole ? [...refsNow.keys()] : refs;
    for (const ref of wanted) {
      const oid = refsNow.get(ref);
      // Forgotten by a clean-up of the clone's objects; or it was damaged, and may be mended since.
      if (oid !== undefined && !(await this.#isSound(ref, oid))) return this.lookAtAll();
    }
    return this.#found(new Map(refsNow), false);
  }

  async #isSound(ref: string, oid: string): Promise<boolean> {
    const text = await this.objects.read(oid);
    return text !== null && !("damaged" in (ref === guardRef ? parseGuard(text) : parseCell(text)));
  }

  /** Before the swap: from when on it counts. */
  willWrite(ref: string, oid: string, at: number): void {
    this.sightings.willWrite(nameOf(ref), oid, at);
  }

  wrote(swaps: readonly Swap[], lock: LockRecord | null, events: readonly FeedEvent[]): void {
    this.snapshot.set(swaps.map(({ ref, fresh }) => [ref, fresh] as const));
    this.whenWritten(swaps, lock, events);
  }

  /** The request ids that stand in a record, to go on standing in the next. */
  async requestsAt(oid: string | null): Promise<readonly RequestRecord[]> {
    const text = oid === null ? null : await this.objects.read(oid);
    const stored = text === null ? null : parseCell(text);
    return stored === null || "damaged" in stored ? [] : this.#decode("", "", stored).requests;
  }

  /** A look whose records are all here, and that no clean-up went through between the floor and the locks. */
  async #brought(read: () => Promise<Refs>, hasFloor: boolean): Promise<Refs> {
    for (let look = 0; look < looksMax; look++) {
      const from = performance.now();
      const refs = await read();
      const isLong = hasFloor && this.authority.isRemote && performance.now() - from > this.trustedMs;
      if (!(await this.#isHere(refs))) continue;
      if (!isLong || !(await this.#isFloorRaised(refs.get(guardRef)))) return refs;
    }
    throw new StoreError(
      "unavailable",
      `the locks of ${this.authority.place} change faster than they can be read`,
    );
  }

  async #isHere(refs: Refs): Promise<boolean> {
    const missing = await this.#missing(refs);
    if (missing.size === 0) return true;
    await this.authority.bring(missing);
    return !this.authority.isRemote || (await this.#missing(missing)).size === 0;
  }

  /** A lock that was not there may have been removed during the look; then its token is in the floor that is there now. */
  async #isFloorRaised(before: string | undefined): Promise<boolean> {
    const refs = await this.authority.read([guardRef]);
    const after = refs.get(guardRef);
    if (after === before) return false;
    if (!(await this.#isHere(refs))) return true;
    const floorsAt = async (oid: string | undefined) => (await this.#guardAt(oid))?.floors ?? {};
    try {
      return JSON.stringify(await floorsAt(before)) !== JSON.stringify(await floorsAt(after));
    } catch {
      return false; // damaged: whoever needs it is told
    }
  }

  async #missing(refs: Refs): Promise<Map<string, string>> {
    const missing = new Map<string, string>();
    for (const [ref, oid] of refs) if ((await this.objects.read(oid)) === null) missing.set(ref, oid);
    return missing;
  }

  #found(refs: Refs, isFresh: boolean): Found {
    const lockRefs = [...refs].filter(([ref]) => ref.startsWith(lockPrefix));
    const locks = async () => {
      const found: { ref: string; oid: string; lock: LockRecord }[] = [];
      for (const [ref, oid] of lockRefs) {
        const cell = await this.#cellAt(ref, oid);
        if (!("what" in cell)) found.push({ ref, oid, lock: cell.lock });
      }
      return found;
    };
    const rows = async ({ index, from, to, limit }: Range) =>
      (await locks())
        .flatMap(({ lock }) => {
          const key = lockKeyOf({ lock, requests: [] });
          return indexEntries(key, lock).map((entry) => ({ ...entry, key, record: lock }));
        })
        .filter((entry) => entry.index === index && entry.sort >= from && entry.sort < to)
        .sort((a, b) => (a.sort < b.sort ? -1 : 1))
        .slice(0, limit);
    return {
      isFresh,
      size: lockRefs.length,
      oid: (ref) => refs.get(ref) ?? null,
      guard: () => this.#guardAt(refs.get(guardRef)),
      cell: (lock) => this.#cellOf(lock, refs.get(refOfLock(lock))),
      range: async (range) => (await rows(range)).map(({ sort, key }) => ({ sort, key })),
      rows: async (range) => (await rows(range)).map(({ sort, record }) => ({ sort, record })),
      locks,
      troubles: async () => {
        const cells = await Promise.all(lockRefs.map(([ref, oid]) => this.#cellAt(ref, oid)));
        return [
          ...(await this.#guardTroubles(refs.get(guardRef))),
          ...cells.flatMap((cell) => ("what" in cell ? [cell] : this.#aheadOf(cell))),
        ];
      },
    };
  }

  async #guardAt(oid: string | undefined): Promise<Guard | null> {
    if (oid === undefined) return null;
    return decodeGuard((await this.objects.read(oid)) ?? "");
  }

  async #guardTroubles(oid: string | undefined): Promise<Trouble[]> {
    if (oid === undefined) return [];
    const guard = parseGuard((await this.objects.read(oid)) ?? "");
    if (!("damaged" in guard)) return [];
    const what = guard.isFuture ? "newer" : "damaged";
    return [
      { what, resource: null, ref: guardRef, details: `it ${guard.damaged}, so that nothing is granted` },
    ];
  }

  async #cellOf(lock: LockName, oid: string | undefined): Promise<FoundCell | null> {
    if (oid === undefined) return null;
    const cell = await this.#cellAt(refOfLock(lock), oid);
    if (!("what" in cell))
      return {
        lock: cell.lock,
        requests: cell.requests.map((request) => [requestKeyOf(request), request] as const),
      };
    throw new StoreError(
      "corrupt",
      cell.what === "newer"
        ? `the record of ${lock.name} cannot be read: ${cell.details}. Who holds it cannot be told until then`
        : `the record of ${lock.name} is damaged: ${cell.details}. Nobody can hold it until it is mended; git update-ref -d ${cell.ref} (or a push that deletes it) removes it, after which its tokens may repeat`,
    );
  }

  async #cellAt(
    ref: string,
    oid: string,
  ): Promise<(Cell & { readonly stored: Stored; readonly ref: string }) | Trouble> {
    const text = await this.objects.read(oid);
    const stored = text === null ? { damaged: "its object is missing", isFuture: false } : parseCell(text);
    if ("damaged" in stored)
      return { what: stored.isFuture ? "newer" : "damaged", resource: null, ref, details: stored.damaged };
    const { space, resource } = stored;
    if (refOfLock({ space, name: resource }) !== ref)
      return {
        what: "damaged",
        resource,
        ref,
        details: `it is the record of ${resource}, in another's place`,
      };
    return { ...this.#decode(ref, oid, stored), stored, ref };
  }

  #decode(ref: string, oid: string, stored: Stored): Cell {
    const isTimed = oid !== "" && (stored.lease !== null || stored.delay_left_ms > 0);
    const sighting = isTimed ? this.sightings.see(nameOf(ref), oid) : null;
    return decodeCell(stored, {
      now: this.clock.now(),
      wallNow: this.clock.wall(),
      seenAt: sighting?.at ?? null,
      wrote: sighting?.wrote ?? false,
      skewMs: this.skewMs,
    });
  }

  /** Written, by its own word, later than our clock can be wrong. */
  #aheadOf({ stored, ref }: { readonly stored: Stored; readonly ref: string }): Trouble[] {
    const aheadMs = (stored.lease?.renewed ?? 0) - this.clock.wall();
    if (aheadMs <= this.skewMs) return [];
    const details = `it was written ${Math.round(aheadMs / 1000)} s in the future: a clock is wrong, here or at its holder's`;
    return [{ what: "future", resource: stored.resource, ref, details }];
  }
}

const nameOf = (ref: string): string => ref.slice(ref.lastIndexOf("/") + 1);
