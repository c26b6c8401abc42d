/**
 * The embedded engine. Decisions run on the main thread, one after the other, over memory and file; their writes
 * gather in a batch while the one before is on its way to the disk. A reply leaves when its batch is durable. If
 * a commit fails, everything that was built on it is refused, and memory is made anew from the file before the
 * next decision.
 */
import { statSync } from "node:fs";
import type { Decide, Range, Write } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { FeedEvent } from "../../core/records.js";
import { cursorOf, follow } from "../../store/feed.js";
import { Ordered } from "../../store/ordered.js";
import {
  type Change,
  type Cursor,
  type ListRow,
  noBounds,
  type Store,
  StoreError,
  type StoreFacts,
} from "../../store/store.js";
import { EngineClock } from "./engine-clock.js";
import { FeedTail } from "./feed-tail.js";
import type { FileLock } from "./file-lock.js";
import { KeeperThread } from "./keeper-thread.js";
import { fromLines, parseLine } from "./lines.js";
import type { FromWriter, Opened, ToWriter, WriterOptions } from "./messages.js";
import type { SqliteOptions } from "./open.js";
import { type Asked, checkKeys, OpenBatch, type Waiting } from "./open-batch.js";
import { Reader } from "./reader.js";
import { readFailure } from "./schema.js";
import { Thread } from "./thread.js";
import { LayeredView, ReadCache } from "./view.js";

/** How often the log's size is looked at and the clock pair stored. */
const tickMs = 1000;
/** First and longest pause between attempts to open the file again after a failure. */
const reopenFirstMs = 100;
const reopenMaxMs = 5000;

export class SqliteStore implements Store {
  readonly facts: StoreFacts;
  readonly #options: SqliteOptions;
  readonly #lock: FileLock;
  readonly #clock: EngineClock;
  readonly #writer: Thread<ToWriter, FromWriter>;
  readonly #keeper: KeeperThread;
  readonly #recent = new Ordered();
  readonly #cache: ReadCache;
  readonly #feed = new FeedTail(() => this.#readable());
  #reader: Reader | null = null;
  #state: "opening" | "open" | "failed" | "closed" = "opening";
  #trouble = "the data file is being opened";
  #gathering = new OpenBatch(1);
  #flying: OpenBatch | null = null;
  #asked: Asked[] = [];
  #durableSeq = 0;
  #appliedSeq = 0;
  #nextEvent = 1;
  #backlogBytes = 0;
  #reopenMs = reopenFirstMs;
  #lastCommitAt = 0;
  #ticker: NodeJS.Timeout | undefined;
  #reopenTimer: NodeJS.Timeout | undefined;
  #opened: { resolve: () => void; reject: (error: StoreError) => void } | null = null;
  #closing: Promise<void> | null = null;

  constructor(options: SqliteOptions, lock: FileLock) {
    this.#options = options;
    this.#lock = lock;
    this.#clock = new EngineClock(options.clocks);
    this.#cache = new ReadCache(options.cacheRecordsMax);
    this.facts = { engine: "sqlite", location: options.path, order: "node", ...noBounds };
    const { path, feedEventsMax, feedAgeMaxMs, backlogBytesMax } = options;
    const workerData: WriterOptions = { path, feedEventsMax, feedAgeMaxMs, backlogBytesMax };
    this.#writer = new Thread(
      new URL("./writer.js", import.meta.url),
      workerData,
      (message: FromWriter) => this.#onWriter(message),
      (why) => this.#writerStopped(why),
    );
    this.#keeper = new KeeperThread(path, () => {
      if (this.#state !== "open") return;
      this.#reader?.letGo();
      this.#writer.say({ type: "finish-checkpoint" });
    });
  }

  /** Resolves when the file is ready, rejects if it cannot be used. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#opened = { resolve, reject };
      this.#writer.say({ type: "open" });
    });
  }

  /** Decided with all others of this turn of the event loop, one right after the other, and committed with them. */
  transact<Reply>(_keys: readonly Key[], decide: Decide<Reply>, signal?: AbortSignal): Promise<Reply> {
    if (this.#closing !== null) return Promise.reject(this.#refusal());
    return new Promise((resolve, reject) => {
      this.#asked.push({ decide, signal, resolve, reject } as Asked);
      if (this.#asked.length === 1) setImmediate(() => this.#decideAll());
    });
  }

  #decideAll(): void {
    const asked = this.#asked;
    this.#asked = [];
    for (const one of asked) this.#decide(one);
    this.#flush();
  }

  #decide({ decide, signal, resolve, reject }: Asked): void {
    try {
      if (signal?.aborted) throw new StoreError("unavailable", "cancelled before it began");
      const view = new LayeredView(this.#clock.now(), this.#recent, this.#cache, this.#readable());
      const decision = decide(view);
      if ("need" in decision)
        throw new StoreError("unsupported", "a decision asked for what this engine had already shown");
      const { reply, writes, events } = decision;
      checkKeys(writes);
      if (writes.length > 0 || events.length > 0) this.#join(writes, events, { reply, resolve, reject });
      else if (view.newestSeq <= this.#durableSeq) resolve(reply);
      else this.#batchOf(view.newestSeq).waiting.push({ reply, resolve, reject });
    } catch (error) {
      reject(error as Error); // nothing was joined to a batch
    }
  }

  #join(writes: readonly Write[], events: readonly FeedEvent[], waiting: Waiting): void {
    const batch = this.#gathering;
    this.#recent.apply(writes, batch.seq);
    for (const write of writes) {
      batch.writes.push(write);
      this.#cache.delete(write.key);
    }
    for (const event of events) batch.events.push(event);
    batch.waiting.push(waiting);
  }

  /** The batch that must be durable before what was read from it may be told. */
  #batchOf(seq: number): OpenBatch {
    return this.#flying?.seq === seq ? this.#flying : this.#gathering;
  }

  #flush(): void {
    const batch = this.#gathering;
    if (
      this.#state !== "open" ||
      this.#flying !== null ||
      (batch.writes.length === 0 && batch.events.length === 0)
    )
      return;
    this.#flying = batch;
    this.#gathering = new OpenBatch(batch.seq + 1);
    const firstEvent = this.#nextEvent;
    this.#nextEvent += batch.events.length;
    this.#lastCommitAt = this.#clock.now();
    this.#writer.say({
      type: "commit",
      batch: batch.encoded(firstEvent, this.#lastCommitAt, this.#clock.wall()),
    });
  }

  #onWriter(message: FromWriter): void {
    switch (message.type) {
      case "committed":
        this.#committed(message.seq);
        break;
      case "failed":
        this.#fail(message.certain, message.message);
        break;
      case "applied":
        this.#applied(message.seq, message.backlogBytes);
        break;
      case "opened":
        this.#ready(message.opened);
        break;
      case "open-failed":
        this.#openFailed(new StoreError(message.kind, message.message));
        break;
      case "trimmed":
        this.#feed.trim(message.event);
        break;
    }
  }

  #committed(seq: number): void {
    const batch = this.#flying;
    if (batch === null || batch.seq !== seq) return;
    this.#flying = null;
    this.#durableSeq = seq;
    this.#reader?.batchPassed();
    // The next commit goes out before the replies of this one are written: disk and replies overlap.
    this.#flush();
    this.#keeper.committed(seq);
    this.#feed.append(batch.events);
    for (const { resolve, reply } of batch.waiting) resolve(reply);
    if (batch.events.length > 0) this.#feed.ring();
  }

  #applied(seq: number, backlogBytes: number): void {
    this.#appliedSeq = seq;
    this.#backlogBytes = backlogBytes;
    this.#reader?.refresh();
    this.#recent.forgetEntries(seq);
    this.#forgetRecords();
  }

  #forgetRecords(): void {
    const isMore = this.#recent.forgetRecords(this.#appliedSeq, this.#options.cacheRecordsMax);
    if (isMore) setImmediate(() => this.#forgetRecords());
  }

  /** A commit failed, or the file is in trouble: nothing that is in memory can be trusted any more. */
  #fail(certain: boolean, message: string): void {
    if (this.#state === "closed" || this.#state === "failed") return;
    if (this.#opened !== null) {
      this.#openFailed(new StoreError("unavailable", message));
      return;
    }
    const flying = this.#flying;
    const gathering = this.#gathering;
    this.#state = "failed";
    this.#trouble = `the data file cannot be written (${message})`;
    this.#options.onTrouble(this.#trouble);
    this.#flying = null;
    this.#gathering = new OpenBatch(gathering.seq);
    this.#recent.clear();
    this.#cache.clear();
    this.#reader?.close();
    this.#reader = null;
    // A batch that is on its way while other work of the writer fails finds the file closed: it is not written either.
    const kind = certain ? "unavailable" : "unknown";
    for (const waiting of flying?.waiting ?? []) waiting.reject(new StoreError(kind, this.#trouble));
    for (const waiting of gathering.waiting) waiting.reject(new StoreError("unavailable", this.#trouble));
    this.#reopenSoon();
  }

  /** A bug. Nobody is left who could open the file again: all is refused until the store is closed. */
  #writerStopped(why: string): void {
    const message = `the writer thread stopped (${why}): restart this server`;
    const wasFailed = this.#state === "failed";
    this.#fail(false, message);
    clearTimeout(this.#reopenTimer);
    if (!wasFailed) return;
    this.#trouble = message;
    this.#options.onTrouble(message);
  }

  #reopenSoon(): void {
    const wait = this.#reopenMs;
    this.#reopenMs = Math.min(this.#reopenMs * 2, reopenMaxMs);
    this.#reopenTimer = setTimeout(() => {
      if (this.#state === "failed") this.#writer.say({ type: "open" });
    }, wait);
  }

  #openFailed(error: StoreError): void {
    if (this.#opened !== null) {
      this.#opened.reject(error);
      this.#opened = null;
      return;
    }
    this.#trouble = error.message;
    this.#reopenSoon();
  }

  /** Memory equals the file again. */
  #ready(opened: Opened): void {
    if (this.#state === "closed") return;
    const first = this.#state === "opening";
    this.#recent.clear();
    this.#cache.clear();
    try {
      this.#reader = new Reader(this.#options.path);
      for (const { seq, writes } of opened.backlog) this.#ingest(seq, writes);
    } catch (error) {
      this.#reader?.close();
      this.#reader = null;
      this.#openFailed(readFailure(this.#options.path, error));
      return;
    }
    if (first) this.#clock.start(opened.engineAt, opened.wallAt);
    this.#durableSeq = opened.lastSeq;
    this.#gathering = new OpenBatch(opened.lastSeq + 1);
    this.#nextEvent = opened.lastEvent + 1;
    this.#state = "open";
    this.#reopenMs = reopenFirstMs;
    if (first) this.#ticker = setInterval(() => this.#tick(), tickMs).unref();
    else this.#options.onTrouble(null);
    this.#feed.reset(opened.epoch, opened.lastEvent);
    this.#opened?.resolve();
    this.#opened = null;
  }

  #ingest(seq: number, writes: string): void {
    for (const [key, value] of fromLines(writes)) this.#recent.ingest(parseLine(key, value), seq);
  }

  /** Keeps the stored clock near the running one while anything depends on it, and the log short. */
  #tick(): void {
    if (this.#state !== "open" || this.#reader === null) return;
    const now = this.#clock.now();
    const view = new LayeredView(now, this.#recent, this.#cache, this.#reader);
    if (now - this.#lastCommitAt >= tickMs && view.mayHaveDue())
      this.#writer.say({ type: "tick", engineAt: now, wallAt: this.#clock.wall() });
    // Where nothing is committed nobody else ends the snapshot, and the log could not be copied away.
    this.#reader.refresh();
    this.#keeper.checkpointIfLong();
  }

  async list(range: Range): Promise<readonly ListRow[]> {
    return this.transact([], (view) => {
      const rows: ListRow[] = [];
      for (const { sort, key } of view.range(range) ?? []) {
        const record = view.get(key);
        if (record) rows.push({ sort, record });
      }
      return { reply: rows, writes: [], events: [] };
    });
  }

  changes(after: Cursor | undefined, signal: AbortSignal): AsyncIterable<Change> {
    return follow(this.#feed, after, signal);
  }

  async head(): Promise<Cursor> {
    if (this.#closing !== null) throw this.#refusal();
    return cursorOf(this.#feed.epoch, this.#feed.last());
  }

  now(): number {
    return this.#clock.now();
  }

  async ping(): Promise<void> {
    await this.transact([], (view) => {
      view.range({ index: "due", from: "", to: "0", limit: 1 });
      return { reply: undefined, writes: [], events: [] };
    });
  }

  async gauges(): Promise<Readonly<Record<string, number>>> {
    const size = statSync(this.#options.path, { throwIfNoEntry: false })?.size ?? 0;
    return {
      file_bytes: size,
      wal_bytes: this.#keeper.logBytes(),
      backlog_bytes: this.#backlogBytes,
      memory_records: this.#recent.records.size + this.#cache.size,
      memory_entries: this.#recent.entryCount,
      commits_total: this.#durableSeq,
      events_total: this.#feed.last(),
      applied_seq: this.#appliedSeq,
    };
  }

  backup(path: string): Promise<void> {
    if (this.#state !== "open" || this.#closing !== null) return Promise.reject(this.#refusal());
    return this.#keeper.backup(path, this.#clock.wall());
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Finishes what is on its way and takes nothing new. */
  async #close(): Promise<void> {
    this.#decideAll();
    while (this.#flying !== null && this.#state === "open") await this.#flying.passed();
    this.#state = "closed";
    clearInterval(this.#ticker);
    clearTimeout(this.#reopenTimer);
    for (const waiting of this.#gathering.waiting) waiting.reject(this.#refusal());
    this.#feed.close();
    this.#reader?.close();
    this.#reader = null;
    await Promise.all([this.#writer.close(), this.#keeper.close()]);
    this.#lock.release();
  }

  /** The connection that reads, or why there is none. */
  #readable(): Reader {
    if (this.#reader === null) throw this.#refusal();
    return this.#reader;
  }

  #refusal(): StoreError {
    return this.#closing !== null || this.#state === "closed"
      ? new StoreError("closed", "the store was closed")
      : new StoreError("unavailable", this.#trouble);
  }
}
