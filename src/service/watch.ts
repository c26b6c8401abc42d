/**
 * Following names: a snapshot of what is held, then every change, resumable. One reader of the feed per stream;
 * a slow stream holds up nobody, because each pulls at its own pace.
 */
import type { LeaseEvent } from "../core/records.js";
import type { Holding } from "../core/refusal.js";
import type { Cursor } from "../store/store.js";
import type { Leases } from "./leases.js";

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

export async function* watch(
  leases: Leases,
  query: WatchQuery,
  signal: AbortSignal,
): AsyncGenerator<Watched> {
  let after = query.after;
  let shown = new Shown(leases.store.now());
  if (after === undefined) {
    after = await leases.store.head();
    yield* snapshot(leases, query, after, shown);
  }
  for await (const change of leases.store.changes(after, signal)) {
    if ("reset" in change) {
      yield { type: "reset" };
      shown = new Shown(leases.store.now());
      yield* snapshot(leases, query, change.cursor, shown);
    } else if (change.event.type !== "token" && isWatched(query, change.event) && !shown.has(change.event))
      yield { type: "event", event: change.event, cursor: change.cursor };
  }
}

/**
 * A snapshot is read after its place in the feed was taken, so events up to what it shows follow it there: they are
 * left out. Only rows that changed meanwhile are kept, until an event goes beyond them.
 */
class Shown {
  readonly #rows = new Map<string, { readonly token: number; readonly through: number }>();

  constructor(readonly since: number) {}

  held({ lock }: Holding): void {
    const { renewedAt } = lock.lease;
    if (renewedAt >= this.since) this.#rows.set(lock.name, { token: lock.token, through: renewedAt });
  }

  free(name: string, token: number): void {
    this.#rows.set(name, { token, through: Number.POSITIVE_INFINITY });
  }

  has({ name, token, type, at }: LeaseEvent): boolean {
    const row = this.#rows.get(name);
    if (row === undefined) return false;
    const isEnd = type === "released" || type === "expired";
    const isOld =
      token < row.token || (token === row.token && (isEnd ? row.through > at : at <= row.through));
    if (!isOld) this.#rows.delete(name);
    return isOld;
  }
}

function isWatched(query: WatchQuery, event: LeaseEvent): boolean {
  if (event.space !== query.space) return false;
  const named = query.name === null ? event.name.startsWith(query.prefix) : event.name === query.name;
  return named && query.accept(event.name);
}

async function* snapshot(
  leases: Leases,
  query: WatchQuery,
  cursor: Cursor,
  shown: Shown,
): AsyncGenerator<Watched> {
  if (query.name !== null) {
    const { lock, holding } = await leases.inspect(query.space, query.name);
    if (holding === null) shown.free(query.name, lock?.token ?? 0);
    else shown.held(holding);
    yield holding === null
      ? { type: "free", name: query.name, token: lock?.token ?? 0 }
      : { type: "snapshot", holding };
    yield { type: "synced", cursor };
    return;
  }
  for (let after: string | null = null; ; ) {
    const { space, prefix } = query;
    const page = await leases.list({
      space,
      prefix,
      after,
      limit: snapshotPage,
      accept: (lock) => query.accept(lock.name),
    });
    for (const holding of page.holdings) {
      shown.held(holding);
      yield { type: "snapshot", holding };
    }
    if (page.next === null) break;
    after = page.next;
  }
  yield { type: "synced", cursor };
}
