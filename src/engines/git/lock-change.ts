/** What a decision changes, as far as a repository can keep it: one lock, with what stands beside it. */
import type { Write } from "../../core/decision.js";
import type { Key } from "../../core/keys.js";
import type { FloorRecord, LockRecord, RequestRecord } from "../../core/records.js";
import { SeveralNamesError, StoreError } from "../../store/store.js";
import { lockOf } from "./key-refs.js";

export interface LockChange {
  readonly key: Key;
  readonly record: LockRecord | null;
}

/** The one lock that a decision changes, with what stands beside it. */
export function changesIn(writes: readonly Write[]): {
  readonly lock: LockChange | null;
  readonly requests: readonly RequestRecord[];
  readonly floors: readonly FloorRecord[];
} {
  const locks = new Map<Key, LockChange>();
  const requests: RequestRecord[] = [];
  const floors: FloorRecord[] = [];
  for (const { key, record } of writes) {
    if (lockOf(key) !== null) locks.set(key, { key, record: record as LockRecord | null });
    else if (record?.kind === "request") requests.push(record);
    else if (record?.kind === "floor") floors.push(record);
    else if (record !== null)
      throw new StoreError("unsupported", `a repository keeps no ${record.kind} records`);
  }
  if (locks.size > 1) throw new SeveralNamesError([...locks.keys()].flatMap((key) => lockOf(key) ?? []));
  const [lock = null] = locks.values();
  return { lock, requests, floors };
}

/** Whether it grants nothing and removes nothing: what it changes is left free, as leases are that it finds over. */
export function leavesFree(writes: readonly Write[]): boolean {
  const locks = writes.filter(({ key }) => lockOf(key) !== null);
  return locks.length > 0 && locks.every(({ record }) => record?.kind === "lock" && record.lease === null);
}
