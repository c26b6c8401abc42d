/** What the calls on the work graph are given. */
import type { CallSignal } from "./locks.js";
import type { ClaimTimes, Priority, TypePolicy } from "./nodes-replies.js";

export interface NewNode {
  /** Lower-case letters, digits and `-`. */
  readonly id: string;
  readonly type: string;
  readonly title: string;
  readonly summary?: string | undefined;
  /** The first planned one of its type if left out. */
  readonly status?: string | undefined;
  readonly priority?: Priority | undefined;
  readonly project?: string | undefined;
}

/** What is left out stays; null removes it. */
export interface NodeChanges {
  readonly title?: string | undefined;
  readonly summary?: string | null | undefined;
  readonly priority?: Priority | null | undefined;
  readonly project?: string | null | undefined;
}

export interface ListNodesQuery extends CallSignal {
  readonly type?: string | undefined;
  readonly status?: string | undefined;
  readonly prefix?: string | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

export interface HistoryQuery extends CallSignal {
  /** Only entries after this one. */
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
}

/** Whose lease is meant. */
export interface NodeCallOptions extends CallSignal {
  /** The caller's own label for this run. */
  readonly session?: string | undefined;
  /** The fencing token of the lease that is meant: with another than the live one nothing is done. */
  readonly token?: number | undefined;
}

export interface ClaimNodeOptions extends NodeCallOptions {
  /** Tells two dispatches of one person apart: a live claim with another one is refused. */
  readonly dispatch?: string | undefined;
  /** Moves the caller's own claim from the run that it is bound to, to this one. */
  readonly rebind?: boolean | undefined;
  /** The same id gives the same claim again. Made up if left out. */
  readonly requestId?: string | undefined;
}

export interface StatusOptions extends NodeCallOptions {
  readonly dispatch?: string | undefined;
  /** Kept in the history. With one an admin may end another's work. */
  readonly reason?: string | undefined;
}

export interface QueueQuery extends CallSignal {
  /** `me`, or a principal: what it carries. */
  readonly assignee?: string | undefined;
  readonly type?: string | undefined;
  /** What is out of the queue, and why. */
  readonly parked?: boolean | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

/** A node of many: its id, or with it the fencing token of the lease that is meant. */
export type NodeRef = string | { readonly id: string; readonly token?: number | undefined };

export interface ManyOptions extends CallSignal {
  readonly session?: string | undefined;
}

export interface ClaimManyOptions extends ManyOptions {
  readonly dispatch?: string | undefined;
  readonly requestId?: string | undefined;
}

/** What is left out is as the server's configuration says; `types` is given as a whole. */
export type PolicyValues = Partial<ClaimTimes> & {
  readonly types?: Readonly<Record<string, TypePolicy>> | undefined;
};
