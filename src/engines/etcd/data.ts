/**
 * Data that several servers share, on etcd. A reading is one transaction of ranges, so it is of one revision; a commit is one that
 * compares the revision of everything that was relied on. Versions of records are the revisions that last changed them.
 */
import type { Ask, Range, RangeRow } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import { refuseClosed } from "../../store/archive.js";
import { decodeRecord, encodeRecord } from "../../store/codec.js";
import type { NumberedEvent } from "../../store/feed.js";
import type {
  Commit,
  Guarded,
  Reading,
  SharedData,
  SharedFacts,
  Versioned,
} from "../../store/shared-data.js";
import { StoreError } from "../../store/store.js";
import type { Cluster } from "./cluster.js";
import { isOutOfSpace } from "./failure.js";
import { EtcdFeed, encodeFeed, eventsMax } from "./feed.js";
import type { Layout } from "./layout.js";
import {
  type Comparison,
  capacityOf,
  type KeyValue,
  type RangeOp,
  type Status,
  type TxnResult,
} from "./messages.js";
import { isSameCluster, type Meta, type MetaNow, readMeta } from "./meta.js";
import { spansOf } from "./spans.js";

export interface DataOptions {
  readonly location: string;
  /** etcd's --max-txn-ops. */
  readonly opsMax: number;
  readonly lanesMax: number;
}

/** The ancestors of a deep path are one span; those of several names at once a few. */
const absentSpans = 8;
/** How often a reading in several parts is begun anew because its revision was compacted on the way. */
const readTriesMax = 3;

export class EtcdData implements SharedData {
  readonly facts: SharedFacts;
  readonly #feed: EtcdFeed;
  #meta: MetaNow;
  #status: Status | undefined;

  constructor(
    readonly cluster: Cluster,
    readonly layout: Layout,
    meta: MetaNow,
    readonly options: DataOptions,
  ) {
    const { location, opsMax, lanesMax } = options;
    this.#meta = meta;
    const { changes, comparisons } = capacityOf(opsMax);
    // Of a commit the meta key is compared, too, and the feed is changed.
    this.facts = {
      engine: "etcd",
      location,
      changesMax: changes - 1,
      comparesMax: comparisons - 1,
      absentSpans,
      lanesMax,
    };
    this.#feed = new EtcdFeed(cluster, layout.feed, meta.revision);
    cluster.welcome = (status) => this.#recognise(status);
  }

  get epoch(): string {
    return this.#meta.meta.epoch;
  }

  start(): Promise<void> {
    return this.#feed.start();
  }

  async read(asks: readonly Ask[]): Promise<Reading> {
    const ops = asks.map((ask) => this.#opOf(ask));
    const wanted = ops.flatMap((op) => (op === null ? [] : [op]));
    const { head, rows, revision } = await this.#readAll(wanted);
    const clock = this.#clockIn(head[0]?.[0], head[1]?.[0]);
    const records = new Map<Key, Versioned>();
    const ranges = new Map<Range, readonly RangeRow[]>();
    let at = 0;
    for (const [i, ask] of asks.entries()) {
      const found = ops[i] === null ? [] : (rows[at++] ?? []);
      if (typeof ask === "string") records.set(ask, versioned(found[0]));
      else
        ranges.set(
          ask,
          found.map(({ key, value }) => ({ sort: this.layout.sortOf(ask.index, key), key: value })),
        );
    }
    return { clock, records, ranges, revision };
  }

  /** Clock and meta, and all rows, of one revision, in as many transactions as it takes. */
  async #readAll(wanted: readonly RangeOp[]) {
    const { opsMax } = this.options;
    const head = [{ key: this.layout.clock }, { key: this.layout.meta }];
    for (let tries = 1; ; tries++)
      try {
        const first = await this.cluster.look({
          reads: [...head, ...wanted.slice(0, opsMax - head.length)],
        });
        const { revision } = first;
        const rest: Promise<TxnResult>[] = [];
        for (let at = opsMax - head.length; at < wanted.length; at += opsMax)
          rest.push(
            this.cluster.look({ reads: wanted.slice(at, at + opsMax).map((op) => ({ ...op, revision })) }),
          );
        const rows = first.found
          .slice(head.length)
          .concat(...(await Promise.all(rest)).map(({ found }) => found));
        return { head: first.found.slice(0, head.length), rows, revision };
      } catch (error) {
        if (tries === readTriesMax || !isCompacted(error)) throw error;
      }
  }

  /** null: nothing can be in it. */
  #opOf(ask: Ask): RangeOp | null {
    if (typeof ask === "string") return { key: this.layout.record(ask) };
    const { index, from, to, limit } = ask;
    if (from >= to) return null;
    return { key: this.layout.entry(index, from), end: this.layout.entry(index, to), limit };
  }

  #clockIn(clock: KeyValue | undefined, meta: KeyValue | undefined): number {
    this.#noticeMeta(meta);
    const value = Number(clock?.value);
    if (!Number.isSafeInteger(value) || value <= 0)
      throw new StoreError(
        "corrupt",
        `etcd: ${this.layout.clock} is ${JSON.stringify(clock?.value)}: no clock`,
      );
    return value;
  }

  /** Whoever changed it had a reason to stop us. */
  #noticeMeta(found: KeyValue | undefined): void {
    if (found?.revision === this.#meta.revision) return;
    if (found === undefined)
      throw new StoreError(
        "unavailable",
        `etcd: the data (${this.layout.meta}) was removed: restart this server`,
      );
    const meta = readMeta(found, this.facts.location);
    refuseClosed(this.facts.location, meta.moved);
    if (meta.epoch !== this.#meta.meta.epoch) throw replaced();
    this.#meta = { meta, revision: found.revision };
  }

  #recognise(status: Status): void {
    if (!isSameCluster(this.#meta, status)) throw replaced();
  }

  async commit(commit: Commit): Promise<"done" | "changed" | "too large"> {
    const { events } = commit;
    if (events.length > eventsMax)
      throw new StoreError(
        "unsupported",
        `one step has ${events.length} events, and etcd takes ${eventsMax}`,
      );
    const changes = new Map<string, string | null>();
    for (const { key, record, drop, add } of commit.writes) {
      changes.set(this.layout.record(key), record === null ? null : encodeRecord(record));
      for (const { index, sort } of drop) changes.set(this.layout.entry(index, sort), null);
      for (const { index, sort } of add) changes.set(this.layout.entry(index, sort), key);
    }
    if (events.length > 0) changes.set(this.layout.feed, encodeFeed(events));
    const compare = this.#comparisons(commit);
    try {
      const { succeeded } = await this.cluster.change({ compare, changes, reads: [], otherwise: [] });
      return succeeded ? "done" : "changed";
    } catch (error) {
      if (isTooLarge(error)) return "too large";
      if (error instanceof StoreError && error.kind === "unknown" && isOutOfSpace(error.message))
        return this.#shown(changes, commit.revision, error);
      throw error;
    }
  }

  /**
   * etcd has answered, so it was made or never will be. What was to be put tells which, unless others came after: all of it is there, of
   * one revision, or none of it was touched.
   */
  async #shown(
    changes: ReadonlyMap<string, string | null>,
    revision: number,
    error: StoreError,
  ): Promise<"done"> {
    // The feed is put by every commit.
    const puts = [...changes].filter(([key, value]) => value !== null && key !== this.layout.feed);
    const reads = puts.map(([key]) => ({ key }));
    const { found } = await this.cluster.look({ reads }).catch(() => Promise.reject(error));
    const now = puts.map((_, nth) => found[nth]?.[0]);
    const revisions = new Set(now.map((row) => row?.revision ?? 0));
    const isOurs = now.every(
      (row, nth) => row !== undefined && row.value === puts[nth]?.[1] && row.revision > revision,
    );
    if (puts.length > 0 && isOurs && revisions.size === 1) return "done";
    if (puts.length > 0 && [...revisions].every((one) => one <= revision))
      throw new StoreError("unavailable", error.message);
    throw error;
  }

  #comparisons({ versions, guarded, revision }: Commit): Comparison[] {
    const compare: Comparison[] = [{ key: this.layout.meta, revision: this.#meta.revision }];
    const absent: string[] = [];
    for (const [key, version] of versions)
      if (version === 0) absent.push(this.layout.record(key));
      else compare.push({ key: this.layout.record(key), revision: version });
    for (const guard of guarded) compare.push(...this.#guard(guard, versions, revision));
    const left = capacityOf(this.options.opsMax).comparisons - compare.length;
    if (absent.length <= left) for (const key of absent) compare.push({ key, revision: 0 });
    else
      for (const { first, last } of spansOf(absent, left))
        compare.push({ key: first, end: `${last}\u0000`, revisionBelow: revision + 1 });
    return compare;
  }

  /**
   * Nothing in the range was put since, and nothing of it removed. An entry goes only when its record changes, so where the record
   * is compared that is enough.
   */
  *#guard(
    { index, from, to, rows }: Guarded,
    versions: ReadonlyMap<Key, number>,
    revision: number,
  ): Generator<Comparison> {
    if (from >= to) return;
    const [key, end] = [this.layout.entry(index, from), this.layout.entry(index, to)];
    yield { key, end, revisionBelow: revision + 1 };
    for (const row of rows)
      if (!versions.get(row.key)) yield { key: this.layout.entry(index, row.sort), value: row.key };
  }

  async tick(from: number, to: number): Promise<number> {
    const { clock, meta } = this.layout;
    const { succeeded, found } = await this.cluster.change({
      compare: [
        { key: meta, revision: this.#meta.revision },
        { key: clock, value: String(from) },
      ],
      changes: new Map([[clock, String(to)]]),
      reads: [],
      otherwise: [{ key: clock }, { key: meta }],
    });
    return succeeded ? to : this.#clockIn(found[0]?.[0], found[1]?.[0]);
  }

  async lastEvent(): Promise<number> {
    return (await this.#feed.newest()).number;
  }

  events(after: number, limit: number): Promise<readonly NumberedEvent[] | null> {
    return this.#feed.events(after, limit);
  }

  listen(ring: () => void, failed: (error: unknown) => void): void {
    this.#feed.listen(ring, failed);
  }

  /** Numbers of the member that we talk to; those of before while none answers. */
  async gauges(): Promise<Readonly<Record<string, number>>> {
    this.#status = await this.cluster.status().catch(() => this.#status);
    if (this.#status === undefined) return {};
    const { dbBytes, dbInUseBytes, quotaBytes, revision } = this.#status;
    return {
      etcd_db_bytes: dbBytes,
      etcd_db_in_use_bytes: dbInUseBytes,
      etcd_revision: revision,
      ...(quotaBytes > 0 ? { etcd_quota_bytes: quotaBytes } : {}),
    };
  }

  /** Nothing is read or written here any more: the data has gone to another place. For ever. */
  async seal(to: string): Promise<void> {
    const meta: Meta = { ...this.#meta.meta, moved: to };
    const { succeeded, found } = await this.cluster.change({
      compare: [{ key: this.layout.meta, revision: this.#meta.revision }],
      changes: new Map([[this.layout.meta, JSON.stringify(meta)]]),
      reads: [],
      otherwise: [{ key: this.layout.meta }],
    });
    if (succeeded) return;
    this.#noticeMeta(found[0]?.[0]);
    return this.seal(to);
  }

  async close(): Promise<void> {
    this.#feed.close();
    this.cluster.close();
  }
}

const versioned = (found: KeyValue | undefined): Versioned =>
  found === undefined
    ? { record: null, version: 0 }
    : { record: decodeRecord(found.value), version: found.revision };

const isCompacted = (error: unknown): boolean =>
  error instanceof StoreError && /has been compacted/.test(error.message);

const isTooLarge = (error: unknown): boolean =>
  error instanceof StoreError && /request is too large|larger than max/.test(error.message);

const replaced = (): StoreError =>
  new StoreError(
    "unavailable",
    "etcd: the cluster is not the one that this server began on, or was restored from a snapshot: restart this server",
  );
