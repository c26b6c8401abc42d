/**
 * Names of records and of index entries. A key carries the type of its record. Sort strings are printable
 * ASCII, so that every engine orders them alike, byte by byte.
 */
import type { PolicyRecord } from "./nodes/policy.js";
import { assignedPrefix, assigneeOf, isReady, rankOf, readyPrefix, takenPrefix } from "./nodes/rank.js";
import type { HistoryRecord, NodeRecord } from "./nodes/records.js";
import type {
  AnyRecord,
  AuditRecord,
  FloorRecord,
  LineRecord,
  LockRecord,
  PeerRecord,
  RequestRecord,
  SessionRecord,
  TokenNameRecord,
  TokenRecord,
} from "./records.js";

declare const recordOf: unique symbol;
export type Key<R extends AnyRecord = AnyRecord> = string & { readonly [recordOf]?: R };

/**
 * held: by space and name · due: by instant · gc: by instant · session: by session · token, audit: by space.
 * Of the work graph: node: by space and id · ready: what can be taken, by rank, per type and in all · taken: what is
 * leased, by type · assigned: what is not over, by who carries it, then rank · parked: by space and id.
 */
export type IndexName =
  | "held"
  | "due"
  | "gc"
  | "session"
  | "token"
  | "audit"
  | "node"
  | "ready"
  | "taken"
  | "assigned"
  | "parked";

export interface IndexEntry {
  readonly index: IndexName;
  readonly sort: string;
}

export const lockKey = (space: string, name: string): Key<LockRecord> => `lock/${space}/${name}`;
export const lineKey = (space: string, name: string): Key<LineRecord> => `line/${space}/${name}`;
export const peerKey = (id: string): Key<PeerRecord> => `peer/${id}`;
export const sessionKey = (space: string, id: string): Key<SessionRecord> => `session/${space}/${id}`;
export const requestKey = (space: string, principal: string, id: string): Key<RequestRecord> =>
  `request/${space}/${principal}/${id}`;
/** Stands for spaces that have no floor of their own; no space can have this name. */
export const everySpace = "*";
export const floorKey = (space: string): Key<FloorRecord> => `floor/${space}`;
export const tokenKey = (id: string): Key<TokenRecord> => `token/${id}`;
export const tokenNameKey = (space: string, name: string): Key<TokenNameRecord> =>
  `token-name/${space}/${name}`;
export const auditKey = (space: string, id: string): Key<AuditRecord> => `audit/${space}/${id}`;

export const nodeKey = (space: string, id: string): Key<NodeRecord> => `node/${space}/${id}`;
export const historyKey = (space: string, id: string, seq: number): Key<HistoryRecord> =>
  `history/${space}/${id}/${seq}`;
export const policyKey = (space: string): Key<PolicyRecord> => `policy/${space}`;

/** Printable ASCII for any name, so that a prefix of a name is a prefix of its sort string. */
export function sortable(text: string): string {
  return /^[\x20-\x24\x26-\x7e]*$/.test(text)
    ? text
    : text.replace(/[^\x20-\x24\x26-\x7e]+/g, (run) => encodeURIComponent(run));
}

/** Fixed width, so that instants sort as text. */
export const sortableInstant = (at: number): string => String(at).padStart(16, "0");

/** The first sort string after everything that starts with `prefix`. */
export const afterPrefix = (prefix: string): string => `${prefix}\x7f`;

/** The index entries a record stands in: a function of the record alone. */
export function indexEntries(key: Key, record: AnyRecord): IndexEntry[] {
  const entries: IndexEntry[] = [];
  if (record.kind === "lock" && record.lease !== null) {
    entries.push({ index: "held", sort: `${record.space}/${sortable(record.name)}` });
    if (record.lease.sessionId !== null)
      entries.push(boundEntry(record.space, record.lease.sessionId, record.name));
  } else if (record.kind === "token")
    entries.push({ index: "token", sort: `${record.space}/${record.name}` });
  else if (record.kind === "audit")
    entries.push({ index: "audit", sort: `${record.space}/${sortableInstant(record.at)}/${record.id}` });
  else if (record.kind === "node") entries.push(...nodeEntries(record));
  if ("dueAt" in record && record.dueAt !== 0) entries.push(timed("due", record.dueAt, key));
  if ("gcAt" in record && record.gcAt !== 0) entries.push(timed("gc", record.gcAt, key));
  return entries;
}

function nodeEntries(node: NodeRecord): IndexEntry[] {
  const { space, type, id } = node;
  const entries: IndexEntry[] = [{ index: "node", sort: `${space}/${id}` }];
  const rank = rankOf(node);
  if (isReady(node))
    entries.push(
      { index: "ready", sort: readyPrefix(space, null) + rank },
      { index: "ready", sort: readyPrefix(space, type) + rank },
    );
  if (node.claim !== null) entries.push({ index: "taken", sort: takenPrefix(space, type) + id });
  const assignee = assigneeOf(node);
  if (assignee !== null && node.phase !== "terminal")
    entries.push({ index: "assigned", sort: assignedPrefix(space, assignee) + rank });
  if (node.parked !== null) entries.push({ index: "parked", sort: `${space}/${id}` });
  return entries;
}

function boundEntry(space: string, sessionId: string, name: string): IndexEntry {
  return { index: "session", sort: `${boundPrefix(space, sessionId)}${sortable(name)}` };
}

/** Prefix of the session index under which one session's leases stand. */
export const boundPrefix = (space: string, sessionId: string): string => `${space}/${sessionId}/`;

function timed(index: "due" | "gc", at: number, key: Key): IndexEntry {
  return { index, sort: `${sortableInstant(at)}/${sortable(key)}` };
}
