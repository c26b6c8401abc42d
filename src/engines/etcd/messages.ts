/** The messages of etcd's API that are used here, by the field numbers of its rpc.proto. */
import { Reader, Writer } from "./protobuf.js";

/** Where the calls are found. */
export const methods = {
  txn: "/etcdserverpb.KV/Txn",
  watch: "/etcdserverpb.Watch/Watch",
  status: "/etcdserverpb.Maintenance/Status",
  authenticate: "/etcdserverpb.Auth/Authenticate",
} as const;

export interface RangeOp {
  readonly key: string;
  /** All keys from `key` up to but not including this one; without it `key` alone. */
  readonly end?: string;
  readonly limit?: number;
  /** As of that revision; without it the newest. */
  readonly revision?: number;
}

/** A comparison that a transaction depends on; with `end`, of every key in the range. */
export type Comparison =
  | { readonly key: string; readonly revision: number }
  | { readonly key: string; readonly value: string }
  | { readonly key: string; readonly end?: string; readonly revisionBelow: number };

/** Keys with what they are set to; null deletes. */
export type Changes = ReadonlyMap<string, string | null>;

/** All keys from `key` up to but not including `end`. */
export interface Span {
  readonly key: string;
  readonly end: string;
}

export interface Txn {
  readonly compare: readonly Comparison[];
  readonly changes: Changes;
  /** Everything in them is deleted as well: none holds a key that is put. Beside few changes. */
  readonly clears?: readonly Span[];
  /** Read in the same moment if the comparisons hold, after the changes. */
  readonly reads: readonly RangeOp[];
  /** Read if they do not hold. */
  readonly otherwise: readonly RangeOp[];
}

export interface KeyValue {
  readonly key: string;
  readonly value: string;
  readonly revision: number;
}

export interface TxnResult {
  readonly revision: number;
  readonly succeeded: boolean;
  /** By the order of the reads, changes left out. */
  readonly found: readonly (readonly KeyValue[])[];
}

const result = { equal: 0, less: 2 } as const;
const target = { mod: 2, value: 3 } as const;

/** `opsMax`: etcd's --max-txn-ops. */
export function encodeTxn({ compare, changes, clears = [], reads, otherwise }: Txn, opsMax: number): Buffer {
  const writer = new Writer();
  for (const comparison of compare) writer.message(1, () => writeComparison(writer, comparison));
  const most = groupSize(changes.size, compare.length, opsMax);
  if (changes.size <= opsMax) for (const change of changes) writeChange(writer, change);
  else
    for (const group of groups(changes, most))
      writer.message(2, () =>
        writer.message(4, () => {
          for (const change of group) writeChange(writer, change);
        }),
      );
  for (const { key, end } of clears)
    writer.message(2, () => writer.message(3, () => writer.text(1, key).text(2, end)));
  for (const op of reads) writer.message(2, () => writer.message(1, () => writeRange(writer, op)));
  for (const op of otherwise) writer.message(3, () => writer.message(1, () => writeRange(writer, op)));
  return writer.framed();
}

function writeChange(writer: Writer, [key, value]: readonly [string, string | null]): void {
  writer.message(2, () =>
    value === null
      ? writer.message(3, () => writer.text(1, key))
      : writer.message(2, () => writer.text(1, key).text(2, value)),
  );
}

/**
 * How many changes go into each transaction within the transaction. etcd counts what stands side by side: the longest of the lists of
 * one level is taken off what each list of the next level may have, so few levels of short lists hold far more than one long list.
 */
export function groupSize(changes: number, comparisons: number, opsMax: number): number {
  for (let count = 1; count < opsMax; count++) {
    const size = opsMax - Math.max(count, comparisons);
    if (size > 0 && count * size >= changes) return size;
  }
  return opsMax;
}

/** The most changes and comparisons of one transaction, such that both can be had at once. */
export const capacityOf = (opsMax: number): { changes: number; comparisons: number } => ({
  comparisons: opsMax - groupLeast,
  changes: (opsMax - groupLeast) * groupLeast,
});

/** With etcd's default of 128, room for 120 comparisons and 960 changes: a record has up to seven entries. */
const groupLeast = 8;

function* groups(changes: Changes, size: number): Generator<(readonly [string, string | null])[]> {
  let group: (readonly [string, string | null])[] = [];
  for (const change of changes) {
    group.push(change);
    if (group.length < size) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}

function writeComparison(writer: Writer, comparison: Comparison): void {
  const isBelow = "revisionBelow" in comparison;
  const isValue = "value" in comparison;
  writer.int(1, isBelow ? result.less : result.equal);
  writer.int(2, isValue ? target.value : target.mod);
  writer.text(3, comparison.key);
  if (isValue) writer.text(7, comparison.value);
  else writer.int(6, isBelow ? comparison.revisionBelow : comparison.revision);
  if (isBelow && comparison.end !== undefined) writer.text(64, comparison.end);
}

function writeRange(writer: Writer, { key, end, limit, revision }: RangeOp): void {
  writer.text(1, key);
  if (end !== undefined) writer.text(2, end);
  if (limit !== undefined) writer.int(3, limit);
  if (revision !== undefined) writer.int(4, revision);
}

export function decodeTxn(bytes: Buffer): TxnResult {
  let revision = 0;
  let succeeded = false;
  const found: (readonly KeyValue[])[] = [];
  const reader = new Reader(bytes);
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) revision = decodeHeader(reader.message()).revision;
    else if (field === 2) succeeded = reader.int() === 1;
    else if (field === 3) {
      const op = reader.message();
      for (let kind = op.next(); kind !== 0; kind = op.next())
        if (kind === 1) found.push(decodeRange(op.message()));
        else op.ignore();
    } else reader.ignore();
  return { revision, succeeded, found };
}

export interface Header {
  readonly cluster: string;
  readonly member: string;
  readonly revision: number;
}

function decodeHeader(reader: Reader, withIds = false): Header {
  let [cluster, member, revision] = ["", "", 0];
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1 && withIds) cluster = reader.id();
    else if (field === 2 && withIds) member = reader.id();
    else if (field === 3) revision = reader.int();
    else reader.ignore();
  return { cluster, member, revision };
}

function decodeRange(reader: Reader): KeyValue[] {
  const found: KeyValue[] = [];
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 2) found.push(decodeKeyValue(reader.message()));
    else reader.ignore();
  return found;
}

function decodeKeyValue(reader: Reader): KeyValue {
  let [key, value, revision] = ["", "", 0];
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) key = reader.text();
    else if (field === 3) revision = reader.int();
    else if (field === 5) value = reader.text();
    else reader.ignore();
  return { key, value, revision };
}

/** Puts of one key from a revision on. */
export function encodeWatch(key: string, fromRevision: number): Buffer {
  const writer = new Writer();
  writer.message(1, () => {
    writer.text(1, key).int(3, fromRevision);
    writer.int(5, noDeletes);
    writer.flag(8); // what is too long for one message comes in several
  });
  return writer.framed();
}

const noDeletes = 1;

export interface WatchTold {
  readonly revision: number;
  readonly events: readonly KeyValue[];
  readonly isCreated: boolean;
  /** Why the watch has ended; null: it goes on. */
  readonly cancelled: string | null;
  /** What was asked for is older than this, and no longer kept; 0: it is kept. */
  readonly compacted: number;
}

export function decodeWatch(bytes: Buffer): WatchTold {
  const reader = new Reader(bytes);
  let [revision, isCreated, isCancelled, compacted, reason] = [0, false, false, 0, ""];
  const events: KeyValue[] = [];
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) revision = decodeHeader(reader.message()).revision;
    else if (field === 3) isCreated = reader.int() === 1;
    else if (field === 4) isCancelled = reader.int() === 1;
    else if (field === 5) compacted = reader.int();
    else if (field === 6) reason = reader.text();
    else if (field === 11) {
      const event = reader.message();
      for (let part = event.next(); part !== 0; part = event.next())
        if (part === 2) events.push(decodeKeyValue(event.message()));
        else event.ignore();
    } else reader.ignore();
  return { revision, events, isCreated, cancelled: isCancelled ? reason : null, compacted };
}

export interface Status extends Header {
  readonly version: string;
  readonly leader: string;
  /** The last entry of the cluster's log that this member knows to be committed, and the last that it has carried out. */
  readonly raftIndex: number;
  readonly appliedIndex: number;
  readonly dbBytes: number;
  readonly dbInUseBytes: number;
  /** 0: the server does not tell. */
  readonly quotaBytes: number;
  readonly errors: readonly string[];
}

export const encodeNothing = (): Buffer => new Writer().framed();

export function decodeStatus(bytes: Buffer): Status {
  const reader = new Reader(bytes);
  let header: Header = { cluster: "", member: "", revision: 0 };
  let [version, leader] = ["", "0"];
  let [raftIndex, appliedIndex, dbBytes, dbInUseBytes, quotaBytes] = [0, 0, 0, 0, 0];
  const errors: string[] = [];
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 1) header = decodeHeader(reader.message(), true);
    else if (field === 2) version = reader.text();
    else if (field === 3) dbBytes = reader.int();
    else if (field === 4) leader = reader.id();
    else if (field === 5) raftIndex = reader.int();
    else if (field === 7) appliedIndex = reader.int();
    else if (field === 8) errors.push(reader.text());
    else if (field === 9) dbInUseBytes = reader.int();
    else if (field === 12) quotaBytes = reader.int();
    else reader.ignore();
  return { ...header, version, leader, raftIndex, appliedIndex, dbBytes, dbInUseBytes, quotaBytes, errors };
}

export const encodeAuthenticate = (name: string, password: string): Buffer =>
  new Writer().text(1, name).text(2, password).framed();

/** The token to send along with every call. */
export function decodeAuthenticate(bytes: Buffer): string {
  const reader = new Reader(bytes);
  let token = "";
  for (let field = reader.next(); field !== 0; field = reader.next())
    if (field === 2) token = reader.text();
    else reader.ignore();
  return token;
}
