/**
 * This engine's data as it is carried to another engine, or from one. The word that keeps servers away stands in the meta key, which every
 * transaction compares: whoever puts it there stops all others at once, and what is put into a target is put only while it stands.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { indexEntries, type Key } from "../../core/keys.js";
import {
  type Arrived,
  disturbed,
  type Found,
  ownPrefixes,
  type Source,
  type Stored,
  type Target,
} from "../../store/archive.js";
import { decodeRecord, encodeRecord } from "../../store/codec.js";
import { NoDataError, StoreError } from "../../store/store.js";
import { Cluster } from "./cluster.js";
import { Layout } from "./layout.js";
import type { KeyValue, Span } from "./messages.js";
import { foundMeta, type Meta, type MetaNow, readMeta } from "./meta.js";
import { settleMeta } from "./open.js";
import { type EtcdPlace, readEtcdUrl } from "./url.js";

/** Changes of one transaction in bytes: well below what etcd takes by default, which is 1.5 MiB. */
const bytesMax = 512 * 1024;
/** A clock that stands still for so long is moved by nobody, in ms. */
const watchMs = 1500;

/** `rest` is what stands behind `etcd:`. Throws `NoDataError` if there is none. */
export const openEtcdSource = (rest: string): Promise<Source> => open(rest, true);

export const openEtcdTarget = (rest: string): Promise<Target> => open(rest, false);

async function open(rest: string, mustBeThere: boolean): Promise<EtcdArchive> {
  const place = readEtcdUrl(rest);
  const { endpoints, user, opsMax, location } = place;
  const cluster = new Cluster({ endpoints, user, opsMax });
  const layout = new Layout(place.prefix);
  try {
    const { found } = await cluster.look({ reads: [{ key: layout.meta }] });
    if (found[0]?.[0] === undefined && mustBeThere) throw new NoDataError(location);
    const now = await foundMeta(cluster, layout, location);
    // What a server does first: a cluster that was restored is made sure of before its data is trusted.
    const { meta } =
      now.meta.moved === null ? await settleMeta(cluster, layout, place, () => undefined) : now;
    return new EtcdArchive(cluster, layout, place, meta.epoch);
  } catch (error) {
    cluster.close();
    throw error;
  }
}

export class EtcdArchive implements Source, Target {
  readonly location: string;
  readonly #opsMax: number;

  constructor(
    readonly cluster: Cluster,
    readonly layout: Layout,
    { location, opsMax }: EtcdPlace,
    readonly epoch: string,
  ) {
    this.location = location;
    this.#opsMax = opsMax;
  }

  async closed(): Promise<string | null> {
    return (await this.#meta()).meta.moved;
  }

  async #meta(): Promise<MetaNow> {
    const found = await this.#one(this.layout.meta);
    if (found === undefined)
      throw new StoreError("unavailable", `the data in ${this.location} was removed meanwhile`);
    return { meta: readMeta(found, this.location), revision: found.revision };
  }

  async #one(key: string): Promise<KeyValue | undefined> {
    const { found } = await this.cluster.look({ reads: [{ key }] });
    return found[0]?.[0];
  }

  async seal(word: string): Promise<string> {
    for (;;) {
      const before = await this.#meta();
      if (before.meta.moved !== null) return before.meta.moved;
      const sealed: Meta = { ...before.meta, moved: word };
      if (await this.#change(before.revision, [[this.layout.meta, JSON.stringify(sealed)]])) return word;
    }
  }

  async clock(): Promise<number> {
    const value = Number((await this.#one(this.layout.clock))?.value);
    if (!Number.isSafeInteger(value))
      throw new StoreError("corrupt", `there is no clock in ${this.location}`);
    return value;
  }

  async page(after: Key, limit: number): Promise<readonly Stored[]> {
    const rows = await this.#range(
      after === "" ? this.layout.record("") : `${this.layout.record(after)}\u0000`,
      beyond(this.layout.record("")),
      limit,
    );
    return rows.map(({ key, value }) => ({ key: this.layout.keyOf(key), record: decodeRecord(value) }));
  }

  async #range(key: string, end: string, limit: number): Promise<readonly KeyValue[]> {
    if (key >= end) return [];
    const { found } = await this.cluster.look({ reads: [{ key, end, limit }] });
    return found[0] ?? [];
  }

  async look(): Promise<Found> {
    const { meta } = await this.#meta();
    const { own, others } = this.#parts();
    const reads = [...others, ...own].map((span) => ({ ...span, limit: 1 }));
    const found = (await this.cluster.look({ reads })).found.map(([first]) => first);
    const occupant = found.slice(0, others.length).find((first) => first !== undefined);
    const hasOwn = found.slice(others.length).some((first) => first !== undefined);
    return {
      closed: meta.moved,
      origin: meta.origin ?? null,
      occupant: occupant === undefined ? null : this.layout.keyOf(occupant.key),
      isServed: hasOwn && (await this.#isServed()),
    };
  }

  /** The records that servers write by themselves, and all others, in order. */
  #parts(): { readonly own: readonly Span[]; readonly others: readonly Span[] } {
    const all = spanOf(this.layout.record(""));
    const own = ownPrefixes.map((prefix) => spanOf(this.layout.record(prefix)));
    const starts = [all.key, ...own.map(({ end }) => end)];
    return { own, others: starts.map((key, nth) => ({ key, end: own[nth]?.key ?? all.end })) };
  }

  /** What a server leaves behind when it is killed looks like one that runs; but only those that run move the clock. */
  async #isServed(): Promise<boolean> {
    const before = await this.clock();
    await delay(watchMs);
    return (await this.clock()) !== before;
  }

  /**
   * In one transaction, so that it comes before or after each commit of a server that has started here since somebody looked: after
   * one that puts what is carried, it fails; before one, that fails.
   */
  async begin(word: string): Promise<void> {
    const { meta, revision } = await this.#meta();
    if (meta.moved !== null) throw disturbed(this.location);
    const begun: Meta = { ...meta, moved: word };
    const { succeeded } = await this.cluster.change({
      compare: [
        { key: this.layout.meta, revision },
        // None of these is there.
        ...this.#parts().others.map((span) => ({ ...span, revisionBelow: 1 })),
      ],
      changes: new Map([[this.layout.meta, JSON.stringify(begun)]]),
      clears: [this.layout.record(""), this.layout.entries].map(spanOf),
      reads: [],
      otherwise: [],
    });
    if (!succeeded) throw disturbed(this.location);
  }

  async put(word: string, records: readonly Stored[]): Promise<void> {
    const { meta, revision } = await this.#meta();
    if (meta.moved !== word) throw disturbed(this.location);
    for (const changes of this.#batches(records))
      if (!(await this.#change(revision, changes))) throw disturbed(this.location);
  }

  /** As much in each as one transaction takes. A record and its entries may be apart: nobody looks before the end. */
  *#batches(records: readonly Stored[]): Generator<(readonly [string, string])[]> {
    let batch: (readonly [string, string])[] = [];
    let bytes = 0;
    for (const { key, record } of records) {
      const changes = [
        [this.layout.record(key), encodeRecord(record)] as const,
        ...indexEntries(key, record).map(({ index, sort }) => [this.layout.entry(index, sort), key] as const),
      ];
      for (const change of changes) {
        const size = Buffer.byteLength(change[0]) + Buffer.byteLength(change[1]);
        if (batch.length > 0 && (batch.length === this.#opsMax || bytes + size > bytesMax)) {
          yield batch;
          [batch, bytes] = [[], 0];
        }
        batch.push(change);
        bytes += size;
      }
    }
    if (batch.length > 0) yield batch;
  }

  async finish(word: string, { clock }: Arrived): Promise<void> {
    const { meta, revision } = await this.#meta();
    if (meta.moved !== word) throw disturbed(this.location);
    const finished: Meta = { ...meta, moved: null, origin: word, epoch: randomBytes(6).toString("hex") };
    const changes = [
      [this.layout.clock, String(clock)],
      [this.layout.meta, JSON.stringify(finished)],
    ] as const;
    if (!(await this.#change(revision, changes))) throw disturbed(this.location);
  }

  /** If the meta key is still the one that was looked at. */
  async #change(revision: number, changes: readonly (readonly [string, string])[]): Promise<boolean> {
    const { succeeded } = await this.cluster.change({
      compare: [{ key: this.layout.meta, revision }],
      changes: new Map(changes),
      reads: [],
      otherwise: [],
    });
    return succeeded;
  }

  async close(): Promise<void> {
    this.cluster.close();
  }
}

/** The first key after all that begin with a prefix that ends with a slash. */
const beyond = (prefix: string): string => `${prefix.slice(0, -1)}0`;
const spanOf = (prefix: string): Span => ({ key: prefix, end: beyond(prefix) });
