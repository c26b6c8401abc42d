/** Who decides about a lock: the references of this clone, or those of a remote. Both compare and swap. */

export const lockPrefix = "refs/holdfast/locks/";
/**
 * Changes with every grant of a name that overlaps others, so that two of them cannot pass each other by; and keeps the
 * floor of tokens. It sorts before the locks: git changes references in that order, so a lock never changes without it.
 */
export const guardRef = "refs/holdfast/guard";

export interface Swap {
  readonly ref: string;
  /** null: there must be none. */
  readonly old: string | null;
  /** null: it is removed. */
  readonly fresh: string | null;
}

/**
 * done: all of them. lost: none, as far as this try goes; somebody else may have been first. unknown: no answer came, or
 * one that does not say.
 */
export type SwapEnd = "done" | "lost" | "unknown";

/** References and what they point to, as they were at one look. */
export type Refs = ReadonlyMap<string, string>;

export interface Authority {
  /** For people: which repository or remote. */
  readonly place: string;
  /** Whether a look costs a connection, so that what is remembered is tried first. */
  readonly isRemote: boolean;
  /** Why the last swap was lost, in git's words; null: none was. */
  readonly obstacle: string | null;
  /** These references as they are now; none is left out but those that are not there. */
  read(refs: readonly string[]): Promise<Refs>;
  /** All of Holdfast's references as they are now. */
  readAll(): Promise<Refs>;
  /** Makes sure that these objects are here; what the authority has no more is left out. */
  bring(refs: Refs): Promise<void>;
  swap(swaps: readonly Swap[]): Promise<SwapEnd>;
  /** Rejects if references cannot be written. */
  probe(oid: string): Promise<void>;
  close(): Promise<void>;
}
