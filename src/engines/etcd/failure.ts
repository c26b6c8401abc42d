/**
 * What a call's failure means: whether it may have been done all the same, whether another member, or the same one a moment
 * later, may do it, and what a person is told. In doubt it may have been done.
 */
import { StoreError, type StoreErrorKind } from "../../store/store.js";
import { CallError, codes } from "./connection.js";

export interface Verdict {
  /** It may have been done, or may still be. */
  readonly mayBeDone: boolean;
  /** To be tried again: at once with a new proof of who we are, or at another member. */
  readonly again: "authenticate" | "elsewhere" | null;
}

/** etcd says these only before it proposes a change, or instead of applying one. */
const certain = new Set<number>([
  codes.invalidArgument,
  codes.permissionDenied,
  codes.resourceExhausted,
  codes.failedPrecondition,
  codes.outOfRange,
  codes.unauthenticated,
]);

export function judge({ code, message, isSent }: CallError): Verdict {
  if (!isSent) return { mayBeDone: false, again: "elsewhere" };
  if (code === codes.unauthenticated || /auth.* is old/.test(message))
    return { mayBeDone: false, again: "authenticate" };
  // Asked of every call, and answered before anything is done.
  if (/no leader/.test(message)) return { mayBeDone: false, again: "elsewhere" };
  if (/too many requests/.test(message)) return { mayBeDone: false, again: "elsewhere" };
  // Refused by the member that was asked, or, if it was already proposed, said by one that has applied it all the same.
  if (isOutOfSpace(message)) return { mayBeDone: true, again: null };
  if (certain.has(code)) return { mayBeDone: false, again: null };
  return { mayBeDone: true, again: "elsewhere" };
}

export const isOutOfSpace = (message: string): boolean => /space exceeded/.test(message);

/** As the store tells it; at the start also what in the URL may be wrong. */
export function storeError(error: unknown, kind: StoreErrorKind, isStart = false): StoreError {
  if (error instanceof StoreError) return error;
  return new StoreError(kind, `etcd: ${explained(error, isStart)}`);
}

function explained(error: unknown, isStart: boolean): string {
  const text = error instanceof Error ? error.message : String(error);
  if (isStart && error instanceof CallError && error.advice !== null) return `${text}: ${error.advice}`;
  for (const [pattern, advice] of advices) if (pattern.test(text)) return `${text}: ${advice}`;
  return text;
}

const advices: readonly (readonly [RegExp, string])[] = [
  [
    /space exceeded/,
    "its quota is used up; compact and defragment it, then etcdctl alarm disarm, and set --auto-compaction-retention (docs/etcd.md)",
  ],
  [/authentication failed|user name is empty/, "check user and password in the store's URL"],
  [/permission denied/, "the user needs readwrite on the prefix (docs/etcd.md)"],
  [/too many operations/, "its --max-txn-ops is lower than the store's max_txn_ops"],
  [/no leader/, "the cluster has no quorum"],
];
