/** What the main thread and the two threads beside it say to each other. */

/** A batch on its way to the disk. */
export interface Batch {
  readonly seq: number;
  readonly writes: string;
  readonly firstEvent: number;
  readonly eventCount: number;
  readonly events: string;
  readonly engineAt: number;
  readonly wallAt: number;
}

export interface WriterOptions {
  readonly path: string;
  readonly feedEventsMax: number;
  readonly feedAgeMaxMs: number;
  readonly backlogBytesMax: number;
}

export type ToWriter =
  | { readonly type: "open" }
  | { readonly type: "commit"; readonly batch: Batch }
  | { readonly type: "tick"; readonly engineAt: number; readonly wallAt: number }
  /** Copy into the database file the few frames that came since the keeper did the bulk. */
  | { readonly type: "finish-checkpoint" }
  | { readonly type: "close" };

/** What a fresh look at the file found. */
export interface Opened {
  readonly epoch: string;
  readonly lastSeq: number;
  readonly lastEvent: number;
  readonly engineAt: number;
  readonly wallAt: number;
  /** Committed batches that are not in the tree yet, oldest first. */
  readonly backlog: readonly { readonly seq: number; readonly writes: string }[];
}

export type FromWriter =
  | { readonly type: "opened"; readonly opened: Opened }
  | {
      readonly type: "open-failed";
      readonly kind: "unavailable" | "corrupt" | "unsupported";
      readonly message: string;
    }
  | { readonly type: "committed"; readonly seq: number }
  /** `certain`: what was on its way is certainly not written. The writer has closed the file and waits for `open`. */
  | { readonly type: "failed"; readonly certain: boolean; readonly message: string }
  /** Everything up to `seq` is in the tree now. */
  | { readonly type: "applied"; readonly seq: number; readonly backlogBytes: number }
  /** Events up to this number are no longer kept. */
  | { readonly type: "trimmed"; readonly event: number };

export type ToKeeper =
  | { readonly type: "checkpoint" }
  | { readonly type: "backup"; readonly id: number; readonly target: string; readonly wallAt: number }
  | { readonly type: "close" };

export type FromKeeper =
  | { readonly type: "checkpointed" }
  | { readonly type: "backed-up"; readonly id: number; readonly error: string | null };
