/**
 * Whether a text that says it is a record is one, in every part: what got past here would stop everybody who lists locks,
 * and not only who asks for that one.
 */

import { tokenMax } from "../../core/limits.js";

/** Latest instant, as of a date, and longest duration, in ms: sums of them stay exact. */
const instantMax = 8.64e15;
const durationMax = 1e13;

/** Longest text, in characters: far above what a lock may have, far below what a table of locks could not show. */
const textMax = 8192;
/** How deep metadata may go: whoever prints it goes down as deep. */
const depthMax = 32;

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string" && value.length <= textMax;
const isWord: Check = (value) => isText(value) && value !== "";
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
/** One that leaves none to come is nobody's. */
const isToken: Check = (value) => isCount(value) && value !== 0 && (value as number) < tokenMax;
const isInstant: Check = (value) => isCount(value) && (value as number) <= instantMax;
const isDuration: Check = (value) => Number.isSafeInteger(value) && Math.abs(value as number) <= durationMax;
const isObject: Check = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    words.includes(value as string);
const all =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value) =>
    isObject(value) &&
    Object.entries(checks).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const isLease = all({
  id: isWord,
  owner: isWord,
  label: orNull(isText),
  session: orNull(isText),
  metadata: orNull((value) => isText(value) || (isObject(value) && isShallow(value, depthMax))),
  ttl_ms: (value) => isDuration(value) && isCount(value),
  left_ms: isDuration,
  delay_ms: (value) => isDuration(value) && isCount(value),
  since: isInstant,
  renewed: isInstant,
  expires: isInstant,
  progress: orNull(isText),
});

const isEnded = all({
  leaseId: isText,
  principal: isText,
  owner: orNull(isText),
  token: isCount,
  since: isInstant,
  endedAt: isInstant,
  how: oneOf("released", "expired", "forced", "session"),
  by: orNull(isText),
  reason: orNull(isText),
  call: (value) => value === undefined || isText(value),
});

const isOutcome = all({
  outcome: oneOf("done", "failed", "abandoned"),
  note: orNull(isText),
  at: isInstant,
});

const isRequest = all({
  owner: isText,
  id: isText,
  fingerprint: isText,
  lease: isText,
  token: isToken,
  until: isInstant,
});

/** By what is looked at first. */
const parts: readonly (readonly [says: string, check: Check])[] = [
  ["it is incomplete", all({ write_id: isText, space: isText })],
  ["it names no resource", all({ resource: isWord })],
  ["it has no token", all({ token: isToken })],
  ["it has no times", all({ attempts: isCount, keep_until: isInstant, delay_until: isInstant })],
  ["it has no times", all({ delay_left_ms: isDuration })],
  ["it says of no lease", all({ lease: (value) => value !== undefined })],
  ["its lease is incomplete", all({ lease: orNull(isLease) })],
  ["its last holder is incomplete", all({ previous: orNull(isEnded) })],
  ["its outcome is incomplete", all({ outcome: orNull(isOutcome) })],
  ["it has no requests", all({ requests: (value) => Array.isArray(value) && value.every(isRequest) })],
  ["its last holder's token is not below its own", isRising],
];

/** What is wrong with it; null: nothing. */
export const faultIn = (value: object): string | null =>
  parts.find(([, check]) => !check(value))?.[0] ?? null;

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "string" || isText(value);
  return depth > 0 && Object.values(value).every((one) => isShallow(one, depth - 1));
}

function isRising(value: unknown): boolean {
  const { token, lease, previous } = value as Record<string, unknown> & {
    previous: { token: number } | null;
  };
  return lease === null || previous === null || previous.token < (token as number);
}
