/** A batch while it gathers: what it will write, and who waits until that is durable. */
import type { Decide, Write } from "../../core/decision.js";
import type { FeedEvent } from "../../core/records.js";
import { encodeEvents } from "../../store/codec.js";
import { StoreError } from "../../store/store.js";
import { toLines } from "./lines.js";
import type { Batch } from "./messages.js";

/** A decision that was asked for. */
export interface Asked {
  readonly decide: Decide<unknown>;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** A reply that may be told once its batch is durable. */
export interface Waiting {
  readonly reply: unknown;
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Writes on their way to the disk, and who waits for them. */
export class OpenBatch {
  writes: Write[] = [];
  events: FeedEvent[] = [];
  waiting: Waiting[] = [];
  constructor(readonly seq: number) {}

  /** As it goes to the writer, its events numbered from `firstEvent` on. */
  encoded(firstEvent: number, engineAt: number, wallAt: number): Batch {
    const eventCount = this.events.length;
    const events = eventCount > 0 ? encodeEvents(this.events) : "";
    return { seq: this.seq, writes: toLines(this.writes), firstEvent, eventCount, events, engineAt, wallAt };
  }

  /** Resolves when it is durable, or is certain not to be. */
  passed(): Promise<unknown> {
    return new Promise((resolve) => this.waiting.push({ reply: null, resolve, reject: resolve }));
  }
}

/** The log's lines end at line breaks and the library's texts at NUL: a key with either would become another. */
export function checkKeys(writes: readonly Write[]): void {
  for (const { key } of writes)
    if (key.includes("\n") || key.includes("\0"))
      throw new StoreError("unsupported", `a key must not hold line breaks or NUL: ${JSON.stringify(key)}`);
}
