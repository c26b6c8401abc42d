import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Delayed, Held } from "../../client/replies.js";
import { inCommands, inTheWay, reasonClause, refusedDetails, whyLost, wireFields } from "./wording.js";

const at = (text: string): Date => new Date(`2024-01-15T${text}Z`);
const held: Held = {
  status: "held",
  name: "deploy",
  holder: { principal: "ci", owner: "agent-7", session: null, since: at("11:00:00") },
  holderId: "ci",
  fencingToken: 7,
  expiresAt: at("11:30:00"),
  expiresInMs: 60_000,
  retryAfterMs: 1000,
  metadata: "release 1.4",
  waiters: 2,
};
const delayed: Delayed = { status: "delayed", availableAt: at("11:30:00"), retryAfterMs: 50, details: "" };

describe("who stands in the way", () => {
  test("who, what for, since and until when", () => {
    assert.equal(
      inTheWay("deploy", held, 0),
      'deploy is held by agent-7 (ci) since 2024-01-15 11:00:00 UTC until 2024-01-15 11:30:00 UTC unless renewed ("release 1.4")',
    );
    assert.match(
      inTheWay("deploy", { ...held, position: 2 }, 65_000),
      / \("release 1\.4"\); waited 1m, place 2 in line$/,
    );
  });

  test("nobody, but it cannot be taken yet: until when, or whose turn it is", () => {
    assert.equal(
      inTheWay("deploy", delayed, 0),
      "deploy cannot be taken yet: nobody may take it before 2024-01-15 11:30:00 UTC",
    );
    const { availableAt: _, ...queued } = delayed;
    assert.equal(
      inTheWay("deploy", queued as Delayed, 0),
      "deploy cannot be taken yet: earlier waiters go first",
    );
    assert.equal(refusedDetails("deploy", queued as Delayed)["expires_unix_ms"], null);
  });

  test("whoever has a place is counted in line", () => {
    assert.equal(refusedDetails("deploy", { ...held, waiters: 0, position: 1 })["waiters"], 1);
    assert.equal(refusedDetails("deploy", held)["waiters"], 2);
  });

  test("a reason is a clause: short, and none where there is none", () => {
    assert.equal(reasonClause(null), "");
    assert.equal(reasonClause({ branch: "fix" }), ' ("{"branch":"fix"}")');
    assert.equal(reasonClause("x".repeat(500)).length, 80 + ' ("")'.length);
  });
});

test("why a lease is lost is not said twice", () => {
  for (const [message, why] of [
    [
      "This lease on deploy is over: stop the work it guards. It ended at 2024-01-15T11:30:00Z: expired. Nobody holds it now.",
      "it ended at 2024-01-15 11:30:00 UTC: expired. Nobody holds it now.",
    ],
    ["This lease is not the current one of deploy. It is held by ci.", "it is held by ci."],
    ["Nobody holds deploy now.", "nobody holds deploy now."],
    ["This lease on deploy is over: stop the work it guards.", "it is over"],
    ["its keeper process was ended", "its keeper process was ended"],
  ] as const)
    assert.equal(whyLost("deploy", message), why);
});

test("a server's fields have the wire's names, and metadata is left alone", () => {
  const fields = { retryAfterMs: 5, previous: { endedAt: "x" }, metadata: { camelCase: 1 } };
  assert.deepEqual(wireFields(fields), {
    retry_after_ms: 5,
    previous: { ended_at: "x" },
    metadata: { camelCase: 1 },
  });
});

test("routes of the work graph are told as commands", () => {
  for (const [route, command] of [
    ["no node x. POST /v1/nodes creates one.", "no node x. holdfast node create creates one."],
    ["POST /v1/nodes/task-1/unpark with a reason", "holdfast node unpark task-1 with a reason"],
    ["Read it with GET /v1/nodes/task-1, or", "Read it with holdfast node show task-1, or"],
    ["POST /v1/queue/next gives you other work", "holdfast node next gives you other work"],
    ["claim it with rebind: true to move it", "claim it with --rebind to move it"],
    ["POST /locks/deploy/acquire", "POST /locks/deploy/acquire"],
  ] as const)
    assert.equal(inCommands(route), command);
});
