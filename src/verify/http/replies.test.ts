// What each reply of the lock API means to a verdict: above all, which failures may have had an effect.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Call, Reply } from "../history.js";
import { acquiring } from "../workloads/crew.js";
import type { Heard } from "./exchange.js";
import { replyFrom, requestFor } from "./replies.js";

const ids = { hide: (id: string) => `~${id}`, reveal: (standIn: string) => standIn.replace(/^~/, "") };
const plain = acquiring("n", 2000);
const asked = acquiring("n", 2000, { requestId: "r", waitMs: 3000, delayMs: 1000 });
const bound = acquiring("n", null, { session: "~ss" });
const renew: Call = { op: "renew", name: "n", lease: "~ls", ttlMs: null };
const release: Call = { op: "release", name: "n", lease: "~ls" };
const read: Call = { op: "read", name: "n" };
const open: Call = { op: "open", ttlMs: 5000 };
const keepalive: Call = { op: "keepalive", session: "~ss" };
const end: Call = { op: "end", session: "~ss" };
const force: Call = { op: "force", name: "n" };

const lease = { lease_id: "ls", fencing_token: 7, expires_in_ms: 1990 };
const granted: Reply = { kind: "granted", lease: "~ls", token: 7, leftMs: 1990 };

const holder = { holder: { principal: "p" }, expires_in_ms: 900, metadata: "build 7" };
const heldBy = { token: 3, holder: { principal: "p", label: "build 7", leftMs: 900 } };

/** Answered as done, and nobody knows what. */
function hollow(status: number): Reply {
  return { kind: "unknown", why: `${status} without what it promises`, isHollow: true };
}

const rows: readonly (readonly [Call, number, unknown, Reply])[] = [
  [plain, 200, { status: "acquired", ...lease }, granted],
  [plain, 200, { status: "held", fencing_token: 6 }, { kind: "held", token: 6 }],
  [
    plain,
    200,
    { status: "held", fencing_token: 6, conflicts_with: "path:a" },
    { kind: "held", token: null, overlapping: "path:a" },
  ],
  // Held by a name that the caller may not see.
  [plain, 200, { status: "held", fencing_token: 0 }, { kind: "held", token: null, overlapping: null }],
  [plain, 409, { code: "delayed" }, { kind: "delayed" }],
  [asked, 409, { code: "lease_lost" }, { kind: "lost" }],
  [asked, 422, { code: "invalid_input" }, { kind: "reused" }],
  [plain, 422, { code: "invalid_input" }, { kind: "refused", code: "invalid_input" }],
  [bound, 404, { code: "not_found" }, { kind: "gone" }],
  [bound, 410, { code: "session_expired" }, { kind: "gone" }],
  [plain, 404, { code: "not_found" }, { kind: "refused", code: "not_found" }],
  [renew, 200, lease, granted],
  [renew, 404, { code: "lease_not_current" }, { kind: "lost" }],
  [release, 400, { code: "lease_not_current" }, { kind: "lost" }],
  [release, 200, null, { kind: "done" }],
  [read, 200, { status: "free", fencing_token: 0 }, { kind: "state", held: false, token: 0 }],
  [read, 200, { status: "held", fencing_token: 3 }, { kind: "state", held: true, token: 3 }],
  [open, 201, { session_id: "ss", expires_in_ms: 5000 }, { kind: "opened", session: "~ss", leftMs: 5000 }],
  [
    read,
    200,
    { name: "n", status: "held", fencing_token: 3, ...holder },
    { ...heldBy, kind: "state", held: true },
  ],
  [plain, 200, { name: "n", status: "held", fencing_token: 3, ...holder }, { ...heldBy, kind: "held" }],
  [
    plain,
    200,
    { status: "held", fencing_token: 3, ...holder, metadata: null },
    { kind: "held", token: 3, holder: { ...heldBy.holder, label: null } },
  ],
  [keepalive, 200, { session_id: "ss", expires_in_ms: 5000 }, { kind: "done", leftMs: 5000 }],
  [keepalive, 410, { code: "session_expired" }, { kind: "gone" }],
  [end, 204, undefined, { kind: "done" }],
  [end, 404, { code: "not_found" }, { kind: "gone" }],
  [force, 403, { code: "forbidden" }, { kind: "refused", code: "forbidden" }],
  [plain, 429, { code: "rate_limited" }, { kind: "refused", code: "rate_limited" }],
  [plain, 503, { code: "unavailable" }, { kind: "refused", code: "unavailable" }],
  [plain, 503, { code: "unknown_outcome" }, { kind: "unknown", why: "unknown_outcome" }],
  // Some proxy's answer: nobody knows what the service did.
  [plain, 503, undefined, { kind: "unknown", why: "503" }],
  [plain, 502, "<html>", { kind: "unknown", why: "502" }],
  [plain, 500, { code: "internal" }, { kind: "unknown", why: "internal" }],
  // A success that lacks what it promises settles nothing.
  [plain, 200, { status: "acquired", lease_id: "ls" }, hollow(200)],
  [plain, 200, { status: "perhaps", ...lease }, hollow(200)],
  [plain, 204, undefined, hollow(204)],
  [renew, 200, undefined, hollow(200)],
  [read, 200, { fencing_token: 3 }, hollow(200)],
  [open, 201, { session_id: "ss" }, hollow(201)],
  [keepalive, 200, {}, hollow(200)],
  // Nor does one about another name.
  [plain, 200, { name: "m", status: "acquired", ...lease }, hollow(200)],
  [read, 200, { name: "m", status: "free", fencing_token: 0 }, hollow(200)],
];

for (const [call, status, body, expected] of rows)
  test(`${call.op}, ${status} ${JSON.stringify(body)}`, () => {
    const heard: Heard = { kind: "reply", status, body, retryAfterMs: 0 };
    assert.deepEqual(replyFrom(call, heard, ids), expected);
  });

test("what never left had no effect; what was lost may have had one", () => {
  assert.equal(replyFrom(plain, { kind: "unsent", why: "ECONNREFUSED" }, ids).kind, "refused");
  assert.equal(replyFrom(plain, { kind: "lost", why: "ECONNRESET" }, ids).kind, "unknown");
});

test("a call is sent with what it says and no more", () => {
  assert.deepEqual(requestFor(asked, ids, "label"), {
    method: "POST",
    path: "/locks/n/acquire",
    body: { metadata: "label", ttl_seconds: 2, wait_seconds: 3, request_id: "r", lock_delay_seconds: 1 },
  });
  assert.deepEqual(requestFor(bound, ids, "label").body, { metadata: "label", session_id: "ss" });
  assert.deepEqual(requestFor({ ...release, name: "a/b c" }, ids, ""), {
    method: "POST",
    path: "/locks/a%2Fb%20c/release",
    body: { lease_id: "ls" },
  });
});
