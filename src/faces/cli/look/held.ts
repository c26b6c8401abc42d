/** Held names as rows of a table, and as JSON in the words of the wire. */
import { whoIs } from "../../../client/errors.js";
import type { Holder, Lock } from "../../../client/replies.js";
import { durationText } from "../output.js";
import { type Column, tableLines } from "./table.js";

const columns: readonly Column[] = [
  { title: "NAME", widthMin: 12 },
  { title: "OWNER", widthMin: 8 },
  { title: "SINCE (UTC)" },
  { title: "EXPIRES IN" },
  { title: "WAITERS" },
  { title: "METADATA", widthMin: 8 },
];

/** `ageMs`: how long ago the server said this. */
export const heldTable = (locks: readonly Lock[], width: number | null, ageMs = 0): string[] =>
  tableLines(
    columns,
    locks.map((lock) => cellsOf(lock, ageMs)),
    width,
  );

function cellsOf({ name, holder, expiresInMs, waiters, metadata }: Lock, ageMs: number): string[] {
  return [
    name,
    holder === null ? "" : ownerText(holder),
    holder === null ? "" : holder.since.toISOString().slice(0, 19).replace("T", " "),
    expiresInMs === null ? "" : durationText(Math.max(0, expiresInMs - ageMs)),
    String(waiters),
    metadataText(metadata),
  ];
}

/** The bearer token's name, behind the label of a job's owner where there is one. */
export const ownerText = ({ principal, owner }: Holder): string => whoIs(principal, owner);

const metadataText = (metadata: unknown): string =>
  metadata === null || metadata === undefined
    ? ""
    : typeof metadata === "string"
      ? metadata
      : JSON.stringify(metadata);

/** `expiresInMs` → `expires_in_ms`, at every depth but within metadata. */
export function wireKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(wireKeys);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      key === "metadata" ? inner : wireKeys(inner),
    ]),
  );
}
