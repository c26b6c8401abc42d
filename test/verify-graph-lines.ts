// Histories of a work graph as text, one operation a line:
//
//   0-5   a/ann claim n          | claimed n 1          process a of ann asks from 0 to 5 ms and gets n with token 1
//   7-?   a/ann release n token=1 | unknown             and never hears of its release
//   9-10  l/ann list             | nodes n:open:ann:1/ann m:done      n is carried and held by ann, m is nobody's
//   11-12 l/ann history n        | entries created:ann claimed:ann:1 status:ann:1:active
//
// Calls may say token=, run=, request=, status= and reason=. A lease has 1000 ms left unless a number is said last.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../src/verify/check.js";
import type { History, Operation, Reply } from "../src/verify/history.js";
import {
  type GraphStatus,
  type NodeCall,
  type NodeEntry,
  type NodeLease,
  type NodeSeen,
  nodeVerbs,
} from "../src/verify/node-calls.js";

export function graphHistoryOf(lines: readonly string[], more: Partial<History> = {}): History {
  return { operations: lines.map(operationOf), seen: [], clockBoundMs: 0, ...more };
}

/** One that a correct service can have produced. */
export function valid(title: string, lines: readonly string[], more: Partial<History> = {}): void {
  test(`valid: ${title}`, () => {
    const { violations } = check(graphHistoryOf(lines, more));
    assert.deepEqual(
      violations.map(({ invariant, says }) => `${invariant} ${says}`),
      [],
    );
  });
}

/** One that breaks the invariant, and no other. */
export function broken(
  invariant: string,
  title: string,
  lines: readonly string[],
  more: Partial<History> = {},
): void {
  test(`${invariant}: ${title}`, () => {
    const { violations } = check(graphHistoryOf(lines, more));
    const named = [...new Set(violations.map((violation) => violation.invariant))];
    assert.deepEqual(named, [invariant], violations.map(({ says }) => says).join("\n"));
  });
}

function operationOf(line: string): Operation {
  const [asked = "", answered = ""] = line.split("|").map((part) => part.trim());
  const [when = "", who = "", verb = "", ...words] = asked.split(/\s+/);
  const [began = "", ended = ""] = when.split("-");
  const [process = "", principal = process] = who.split("/");
  return {
    process,
    principal,
    call: callOf(verb, words),
    began: Number(began),
    ended: ended === "?" ? Number.POSITIVE_INFINITY : Number(ended),
    reply: replyOf(answered.split(/\s+/), principal),
  };
}

function callOf(word: string, words: readonly string[]): NodeCall {
  const verb = nodeVerbs.find((one) => one === word);
  if (verb === undefined) throw new Error(`no such call: ${word}`);
  const said = (option: string): string | null =>
    words.find((one) => one.startsWith(`${option}=`))?.slice(option.length + 1) ?? null;
  const [token, status, reason] = [said("token"), said("status"), said("reason")];
  return {
    op: "node",
    verb,
    node: words.find((one) => !one.includes("=")) ?? null,
    type: "work",
    run: said("run"),
    token: token === null ? null : Number(token),
    requestId: said("request"),
    waitMs: 0,
    ...(status === null ? {} : { status: status as GraphStatus }),
    ...(reason === null ? {} : { reason }),
  };
}

function replyOf([kind = "", ...words]: readonly string[], principal: string): Reply {
  const [first = "", second = "", third = ""] = words;
  const lease = (token: string, left: string, by = principal): NodeLease => ({
    by,
    run: null,
    token: Number(token),
    leftMs: Number(left || 1000),
  });
  switch (kind) {
    case "claimed":
    case "again":
      return { kind: "claimed", node: first, lease: lease(second, third), isNew: kind === "claimed" };
    case "kept":
      return { kind, lease: lease(first, second) };
    case "updated":
      return { kind, lease: first === "" ? null : lease(first, second), holder: null };
    case "taken":
      return { kind, holder: lease(first, "", second) };
    case "nodes":
      return { kind, nodes: words.map(nodeOf), isWhole: true };
    case "entries":
      return { kind, entries: words.map(entryOf), isWhole: true };
    case "unknown":
      return { kind, why: "cut" };
    case "lost":
    case "done":
    case "empty":
      return { kind };
    default:
      throw new Error(`no such reply: ${kind}`);
  }
}

/** `id:status:carrier:token/holder`; what is left out is nobody. */
function nodeOf(text: string): NodeSeen {
  const [id = "", status = "open", carrier = "", held = ""] = text.split(":");
  const [token = "", by = ""] = held.split("/");
  return {
    id,
    status,
    carrier: carrier === "" ? null : carrier,
    lease: held === "" ? null : { by, run: null, token: Number(token), leftMs: 1000 },
    isStopped: false,
  };
}

/** `what:by:token:status`; `#seq` before it where it is not its place. */
function entryOf(text: string, nth: number): NodeEntry {
  const [, seq = String(nth + 1), rest = ""] = /^(?:#(\d+))?(.*)$/.exec(text) ?? [];
  const [what = "", by = "", token = "", to = "", reason = ""] = rest.split(":");
  return {
    seq: Number(seq),
    what,
    by,
    token: token === "" ? null : Number(token),
    to: to === "" ? null : to,
    reason: reason === "" ? null : reason,
  };
}
