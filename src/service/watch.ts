/**
 * Following names: a snapshot of what is held, then every change, resumable. One reader of the feed per stream;
 * a slow stream holds up nobody, because each pulls at its own pace.
 */
import { type FeedEvent, isLeaseEvent, type LeaseEvent } from "../core/records.js";
import type { Holding } from "../core/refusal.js";
import type { Cursor } from "../store/store.js";
import type { Leases } from "./leases.js";

/** What is followed: a server's leases, or those that a process asks the store for by itself. */
export type WatchedLeases = Pick<Leases, "store" | "inspect" | "list">;

export interface WatchQuery {
  readonly space: string;
  /** Exactly this name, or every name with this prefix. */
  readonly name: string | null;
  readonly prefix: string;
  /** Asked for every event: what the caller may not see is left out. */
  readonly accept: (name: string) => boolean;
  readonly after: Cursor | undefined;
}

export type Watched =
  | { readonly type: "snapshot"; readonly holding: Holding }
  /** The snapshot of one name that nobody holds. */
  | { readonly type: "free"; readonly name: string; readonly token: number }
  /** The snapshot is complete; a stream that ends from here on can be resumed. */
  | { readonly type: "synced"; readonly cursor: Cursor }
  | { readonly type: "event"; readonly event: LeaseEvent; readonly cursor: Cursor }
  /** The place to resume from is no longer known: a new snapshot follows. */
  | { readonly type: "reset" };

const snapshotPage = 500;
/** Longest that a change takes from its decision to the feed, in ms, while the disk is well: those come after the place. */
const onItsWayMs = 10_000;

export async function* watch(
  leases: WatchedLeases,
  query: WatchQuery,
  signal: AbortSignal,
): AsyncGenerator<Watched> {
  let shown = new Shown(leases.store.now());
  let after = query.after ?? (yield* snapshot(leases, query, await leases.store.head(), shown, signal));
  for (;;) {
    const place = yield* changes(leases, query, after, shown, signal);
    if (place === null) return;
    shown = new Shown(leases.store.now());
    yield { type: "reset" };
    after = yield* snapshot(leases, query, place, shown, signal);
  }
}

/** Returns where to begin anew when its place is no longer known; null: it is over. */
async function* changes(
  leases: WatchedLeases,
  query: WatchQuery,
  after: Cursor,
  shown: Shown,
  signal: AbortSignal,
): AsyncGenerator<Watched, Cursor | null> {
  for await (const change of leases.store.changes(after, signal)) {
    if ("reset" in change) return change.cursor;
    const { event, cursor } = change;
    if (isWatched(query, event) && !shown.has(event)) yield { type: "event", event, cursor };
  }
  return null;
}

/**
 * A snapshot is read after its place in the feed was taken, so events up to what it shows follow it there: they are
 * left out. Only rows that changed meanwhile, or shortly before, are kept, until an event goes beyond them.
 */
class Shown {
  readonly #rows = new Map<string, { readonly token: number; readonly through: number }>();

  constructor(readonly begunAt: number) {}

  held({ lock }: Holding): void {
    const { renewedAt } = lock.lease;
    if (renewedAt >= this.begunAt - onItsWayMs)
      this.#rows.set(lock.name, { token: lock.token, through: renewedAt });
  }

  free(name: string, token: number): void {
    this.#rows.set(name, { token, through: Number.POSITIVE_INFINITY });
  }

  has(event: LeaseEvent): boolean {
    const isShown = this.#shows(event) !== "not";
    if (!isShown) this.#rows.delete(event.name);
    return isShown;
  }

  /** Whether it happened before the snapshot was read. A renewal in the very ms of the last one shown may be another. */
  hasSurely(event: LeaseEvent): boolean {
    return this.#shows(event) === "surely";
  }

  #shows({ name, token, type, at }: LeaseEvent): "surely" | "likely" | "not" {
    const row = this.#rows.get(name);
    if (row === undefined || token > row.token) return "not";
    if (token < row.token || row.through > at) return "surely";
    if (type === "released" || type === "expired" || at > row.through) return "not";
    return type === "acquired" ? "surely" : "likely";
  }
}

function isWatched(query: WatchQuery, event: FeedEvent): event is LeaseEvent {
  if (!isLeaseEvent(event) || event.space !== query.space) return false;
  const named = query.name === null ? event.name.startsWith(query.prefix) : event.name === query.name;
  return named && query.accept(event.name);
}

/**
 * Read after `place` was taken in the feed. Returns the place from which changes follow. Where the list took several reads,
 * that is `place` itself: a stream that is cut before it has told what changed between them is told some of it again.
 */
async function* snapshot(
  leases: WatchedLeases,
  query: WatchQuery,
  place: Cursor,
  shown: Shown,
  signal: AbortSignal,
): AsyncGenerator<Watched, Cursor> {
  const isOneRead = yield* query.name === null
    ? heldNames(leases, query, shown)
    : oneName(leases, query.space, query.name, shown);
  const cursor = isOneRead ? await shownThrough(leases, query, place, shown, signal) : place;
  yield { type: "synced", cursor };
  return cursor;
}

async function* oneName(
  leases: WatchedLeases,
  space: string,
  name: string,
  shown: Shown,
): AsyncGenerator<Watched, boolean> {
  const { lock, holding } = await leases.inspect(space, name);
  const token = lock?.token ?? 0;
  if (holding === null) shown.free(name, token);
  else shown.held(holding);
  yield holding === null ? { type: "free", name, token } : { type: "snapshot", holding };
  return true;
}

/** Returns whether all were read in one step: a longer list is read in several, between which names change. */
async function* heldNames(
  leases: WatchedLeases,
  { space, prefix, accept }: WatchQuery,
  shown: Shown,
): AsyncGenerator<Watched, boolean> {
  let looked = 0;
  for (let after: string | null = null; ; ) {
    const page = await leases.list({
      space,
      prefix,
      after,
      limit: snapshotPage,
      accept: ({ name }) => {
        looked++;
        return accept(name);
      },
    });
    for (const holding of page.holdings) {
      shown.held(holding);
      yield { type: "snapshot", holding };
    }
    if (page.next === null) return looked <= snapshotPage;
    after = page.next;
  }
}

/**
 * The place of the last event that the snapshot shows. All before it happened before the snapshot was read, so whoever
 * resumes there misses nothing, and is told nothing again.
 */
async function shownThrough(
  leases: WatchedLeases,
  query: WatchQuery,
  place: Cursor,
  shown: Shown,
  signal: AbortSignal,
): Promise<Cursor> {
  const end = await leases.store.head();
  let through = place;
  let isAllShown = true;
  if (end === place) return through;
  for await (const change of leases.store.changes(place, signal)) {
    if ("reset" in change) break;
    const { event, cursor } = change;
    if (isWatched(query, event)) {
      if (shown.hasSurely(event) || (isAllShown && shown.has(event))) through = cursor;
      else isAllShown = false;
    }
    if (cursor === end) break;
  }
  return through;
}
