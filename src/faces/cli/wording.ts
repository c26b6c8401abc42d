/**
 * Words that several commands share, so that the same thing is said in the same way: who stands in the way and what
 * for, how a lease was lost, and instants, which people always see as `2024-01-15 11:30:00 UTC`. For programs the same in
 * fields, with the names of the wire.
 */
import { whoIs } from "../../client/errors.js";
import type { Delayed, Held } from "../../client/replies.js";
import { CliError } from "./failure.js";
import { durationText, instantText } from "./output.js";

/** Longer ones are cut: it is a clause, not a page. In characters. */
const reasonMax = 80;

/** What the holder said about itself (`--reason`, `--metadata`), or null. */
export function reasonOf(metadata: unknown): string | null {
  if (metadata === null || metadata === undefined || metadata === "") return null;
  const characters = [...(typeof metadata === "string" ? metadata : JSON.stringify(metadata))];
  return characters.length <= reasonMax
    ? characters.join("")
    : `${characters.slice(0, reasonMax - 1).join("")}…`;
}

/** ` ("fixing the login")`, or nothing. */
export function reasonClause(metadata: unknown): string {
  const reason = reasonOf(metadata);
  return reason === null ? "" : ` ("${reason}")`;
}

/** Who has it and until when, in one sentence without its full stop. `waitedMs`: 0 if nobody waited. */
export function inTheWay(name: string, reply: Held | Delayed, waitedMs: number): string {
  const waited = waitedMs < 1000 ? "" : `; waited ${durationText(waitedMs)}`;
  if (reply.status === "delayed") return `${name} cannot be taken yet${availableClause(reply)}${waited}`;
  const { holder, expiresAt, metadata, position } = reply;
  const who = whoIs(holder.principal, holder.owner);
  const time = `since ${instantText(holder.since)} until ${instantText(expiresAt)} unless renewed`;
  const place = waited === "" || position === undefined ? "" : `, place ${position} in line`;
  return `${name} is held by ${who} ${time}${reasonClause(metadata)}${waited}${place}`;
}

/** A server that has earlier waiters to serve first names no time. */
function availableClause({ availableAt }: { readonly availableAt?: Date }): string {
  return availableAt === undefined
    ? ": earlier waiters go first"
    : `: nobody may take it before ${instantText(availableAt)}`;
}

/** How many wait. The server does not count whoever has waited long enough; one that has a place is in line. */
export const inLine = ({ waiters, position = 0 }: Held): number => Math.max(waiters, position);

/** For programs: the same fields, whichever command was refused. */
export function refusedDetails(name: string, reply: Held | Delayed): Record<string, unknown> {
  const held = reply.status === "held" ? reply : null;
  const other = (reply as { conflictsWith?: string }).conflictsWith;
  const endsAt: Date | undefined = held?.expiresAt ?? (reply as Partial<Delayed>).availableAt;
  return {
    resource: name,
    owner: held?.holder.principal ?? null,
    since_unix_ms: held?.holder.since.getTime() ?? null,
    expires_unix_ms: endsAt?.getTime() ?? null,
    metadata: held?.metadata ?? null,
    waiters: held === null ? 0 : inLine(held),
    ...(held?.position === undefined ? {} : { position: held.position }),
    ...(other === undefined ? {} : { conflicts_with: other }),
    ...(held === null ? {} : { token: held.fencingToken }),
    retry_after_ms: reply.retryAfterMs,
  };
}

/** The refusal of a command that works under a lease, with what to do next. `wantedMs`: how long it was to wait. */
export function notGranted(
  name: string,
  reply: Held | Delayed,
  { wantedMs, waitedMs }: { readonly wantedMs: number; readonly waitedMs: number },
  exitCode: number,
): CliError {
  const next = wantedMs === 0 ? "Stand in line with --wait 10m" : "Wait longer with --wait";
  return new CliError(`${inTheWay(name, reply, wantedMs === 0 ? 0 : waitedMs)}. ${next}`, exitCode, {
    code: reply.status,
    details: refusedDetails(name, reply),
  });
}

/** Why a lease is lost, to follow words that say so: without those of the server's that say it once more. */
export function whyLost(name: string, message: string): string {
  const doubled = [
    `This lease on ${name} is over: stop the work it guards.`,
    `This lease is not the current one of ${name}.`,
  ];
  const rest = doubled.reduce((text, words) => text.replace(words, ""), message).trim();
  return oneInstantForm(
    rest === "" ? "it is over" : rest.replace(/^(?:It|Nobody)\b/, (word) => word.toLowerCase()),
  );
}

/** A server writes instants as its API does. */
export const oneInstantForm = (text: string): string =>
  text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (instant) => instantText(new Date(instant)));

/** A server names the routes of the work graph that help; whoever typed a command is told the command. */
export const inCommands = (text: string): string =>
  text
    .replace(/\bPOST \/v1\/nodes\/([a-z0-9-]+)\/([a-z]+)/g, "holdfast node $2 $1")
    .replace(/\bGET \/v1\/nodes\/([a-z0-9-]+)/g, "holdfast node show $1")
    .replace(/\bPUT \/v1\/nodes\/([a-z0-9-]+)/g, "holdfast node update $1")
    .replace(/\bGET \/v1\/policy\b/g, "holdfast node policy")
    .replace(/\bPOST \/v1\/queue\/next\b/g, "holdfast node next")
    .replace(/\bPOST \/v1\/nodes\b/g, "holdfast node create")
    .replace(/\brebind: true\b/g, "--rebind");

/** What a server answered, as the client holds it, by the wire's names again: `expiresAt` is `expires_at`. */
export function wireFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(wireFields);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  const fields = Object.entries(value).map(([key, inner]) => [
    key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    // What people put there is left as it is.
    key === "metadata" ? inner : wireFields(inner),
  ]);
  return Object.fromEntries(fields);
}
