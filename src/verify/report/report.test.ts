// The reports: complete as JSON; as a page safe to open whatever is in it, with what is wrong on top, and bounded.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Violation } from "../check.js";
import { VerifyError } from "../error.js";
import type { Operation } from "../history.js";
import type { Run, Workload } from "../lab.js";
import { type Dismissed, judged, outcomeOf, type Result, type WorkloadResult } from "../result.js";
import { acquiring } from "../workloads/crew.js";
import { resultToHtml } from "./html.js";
import { resultFromJson, resultSummary, resultToJson } from "./json.js";
import { closingText } from "./text.js";

const hostile = `"><script>alert('x')</script>&`;

const grant = (name: string, nth: number): Operation => ({
  process: "a",
  principal: "p",
  call: acquiring(name, 1000),
  began: 100 * nth,
  ended: 5 + 100 * nth,
  reply: { kind: "granted", lease: `l${nth}`, token: nth + 1, leftMs: 50 },
});
const lost: Operation = {
  ...grant("n", 3),
  ended: Number.POSITIVE_INFINITY,
  reply: { kind: "unknown", why: hostile },
};

const workload: Workload = {
  name: "some",
  says: hostile,
  run: async () => ({}),
  minimums: { grants: 57 },
  never: { fencedLost: "I6" },
};

function resultOf(
  operations: readonly Operation[],
  violations: readonly Violation[] = [],
  tally = { grants: 60 },
): Result {
  const run: Run = { workload: "some", history: { operations, seen: [], clockBoundMs: 20 }, tally };
  const names = new Set(operations.flatMap(({ call }) => ("name" in call ? [call.name] : []))).size;
  const verdict = { names, operations: operations.length, violations, unknown: [] };
  const workloads = [judged(workload, run, verdict, 60_000)];
  return {
    url: `http://${hostile}`,
    principals: ["p"],
    prefix: "verify-1/",
    seed: 7,
    startedAt: "2026-01-01T00:00:00Z",
    durationMs: 60_000,
    interrupted: false,
    endedEarly: false,
    outcome: outcomeOf(workloads, []),
    unreachable: null,
    dismissed: [],
    rateLimited: 0,
    unsent: 0,
    workloads,
    leftBehind: [],
  };
}

const doubleGrant: Violation = {
  invariant: "I1",
  name: hostile,
  says: `two holders ${hostile}`,
  operations: [0, 1],
};

const revoked: Dismissed = { principal: "p", token: "the second token", fromMs: 5130 };

describe("a result", () => {
  const only = (result: Result): WorkloadResult | undefined => result.workloads[0];

  test("is judged by its worst part", () => {
    assert.equal(resultOf([]).outcome, "ok");
    assert.equal(resultOf([], [], { grants: 56 }).outcome, "too little");
    assert.equal(resultOf([], [doubleGrant], { grants: 0 }).outcome, "violated");
    assert.equal(outcomeOf([], ["verify-1/n"]), "unknown");
    assert.equal(outcomeOf([], null), "unknown");
    assert.equal(outcomeOf([], [], { unreachable: { fromMs: 1, calls: 1 }, dismissed: [] }), "too little");
    assert.equal(outcomeOf([], [], { unreachable: null, dismissed: [revoked] }), "too little");
  });

  test("names what was reached too seldom, by how long it ran", () => {
    assert.deepEqual(only(resultOf([], [], { grants: 3 }))?.tooLittle, [
      { situation: "grants", reached: 3, needed: 57 },
    ]);
    const run: Run = { workload: "some", history: { operations: [], seen: [], clockBoundMs: 20 }, tally: {} };
    const verdict = { names: 0, operations: 0, violations: [], unknown: [] };
    assert.equal(judged(workload, run, verdict, 13_000).tooLittle[0]?.needed, 10);
    assert.deepEqual(judged(workload, run, verdict, 3000).tooLittle, []);
    const atLeastOnce = judged(workload, run, verdict, 3000, ["grants"]);
    assert.deepEqual(atLeastOnce.tooLittle, [{ situation: "grants", reached: 0, needed: 1 }]);
    assert.deepEqual(atLeastOnce.needed, { grants: 1 });
  });

  test("accuses what a workload must never count", () => {
    const tally = { grants: 60, fencedLost: 2 };
    const result = resultOf([], [], tally);
    assert.equal(result.outcome, "violated");
    assert.equal(only(result)?.verdict.violations[0]?.invariant, "I6");
  });

  test("knows how long calls took", () => {
    const [latency] = only(resultOf([grant("n", 0), grant("n", 1), lost]))?.latency ?? [];
    assert.deepEqual(latency, { op: "acquire", count: 2, p50Ms: 5, p90Ms: 5, p99Ms: 5, maxMs: 5 });
  });
});

describe("JSON", () => {
  test("holds everything, also operations that never ended", () => {
    const result = resultOf([grant("n", 0), lost], [doubleGrant]);
    assert.deepEqual(resultFromJson(resultToJson(result)), result);
    assert.equal("history" in Object(JSON.parse(JSON.stringify(resultSummary(result))).workloads[0]), false);
  });

  test("another file is refused", () => {
    assert.throws(() => resultFromJson('{"format":"x"}'), /no holdfast-verify\/1 report/);
  });

  test("what is no report, or a part of one, is refused as such", () => {
    const format = "holdfast-verify/1";
    const whole = JSON.parse(resultToJson(resultOf([grant("n", 0)])));
    const [{ history, ...judgedOnly }] = whole.workloads;
    const { seen: _seen, ...cut } = history;
    const rows: readonly (readonly [string, RegExp])[] = [
      ["", /it is not JSON/],
      ["null", /no holdfast-verify\/1 report/],
      ["7", /no holdfast-verify\/1 report/],
      [JSON.stringify({ format }), /not whole/],
      [JSON.stringify({ ...whole, workloads: [null] }), /not whole/],
      [JSON.stringify({ ...whole, workloads: [judgedOnly] }), /not whole/],
      [JSON.stringify({ ...whole, workloads: [{ ...judgedOnly, history: cut }] }), /not whole/],
    ];
    for (const [text, says] of rows)
      assert.throws(
        () => resultFromJson(text),
        (error) => error instanceof VerifyError && error.code === "usage" && says.test(error.message),
        text,
      );
  });

  test("a report of an earlier version can still be read", () => {
    const {
      unreachable: _u,
      dismissed: _d,
      rateLimited: _r,
      unsent: _s,
      ...earlier
    } = JSON.parse(resultToJson(resultOf([grant("n", 0)])));
    delete earlier.workloads[0].needed;
    const read = resultFromJson(JSON.stringify(earlier));
    assert.deepEqual([read.unreachable, read.dismissed, read.workloads[0]?.needed], [null, [], {}]);
    assert.match(resultToHtml(read), /No violation found/);
  });
});

describe("the page", () => {
  test("escapes whatever it shows and loads nothing", () => {
    const text = resultToHtml(
      resultOf([grant(hostile, 0), grant(hostile, 1), { ...lost, process: hostile }], [doubleGrant]),
    );
    assert.ok(!text.includes("<script"));
    assert.ok(!/(?:src|href)=|url\(|@import/.test(text));
    assert.ok(text.includes("two holders &quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;"));
  });

  test("has the verdict first, then violations with their operations, then the rest", () => {
    const text = resultToHtml(
      resultOf([grant("n", 0), grant("n", 1), lost], [{ ...doubleGrant, name: "n" }]),
    );
    const order = ["1 violation<", "<h2>Violations", "token 2, 50 ms left", "<h2>Workloads", "<svg"].map(
      (part) => text.indexOf(part),
    );
    assert.ok(
      order.every((at, nth) => at > (order[nth - 1] ?? 0)),
      order.join(),
    );
  });

  test("shows what was reached of what was needed, and explains each count", () => {
    const text = resultToHtml(resultOf([], [], { grants: 60 }));
    assert.match(text, /<li class="" title="leases granted">grants <b>60<\/b> of 57 needed<\/li>/);
    assert.match(text, /<dt>grants<\/dt><dd>leases granted<\/dd>/);
    assert.match(
      resultToHtml(resultOf([], [], { grants: 6 })),
      /<li class="warn"[^>]*>grants <b>6<\/b> of 57/,
    );
  });

  test("draws a bar per hold and a cross per lost reply", () => {
    const text = resultToHtml(
      resultOf([grant("n", 0), grant("n", 1), { ...lost, call: acquiring("n", 1000) }]),
    );
    assert.equal(text.match(/<rect /g)?.length, 2);
    assert.equal(text.match(/<path class="lost"/g)?.length, 1);
  });

  test("stays small on a long history, and says what it leaves out", () => {
    const many = Array.from({ length: 60_000 }, (_, nth) => grant(`n${nth % 50}`, nth));
    const text = resultToHtml(resultOf(many));
    assert.ok(text.length < 3_000_000, `${text.length}`);
    assert.match(text, /Left out: 38 more names; everything after 60\.000 s/);
  });
});

test("the closing lines begin with what is wrong", () => {
  const text = closingText(resultOf([grant("n", 0)], [{ ...doubleGrant, name: "n", says: "two holders" }]));
  assert.match(
    text,
    /^I1 some, n: two holders\n\nworkload +names +operations +lost replies +violations +undecided\nsome +1 +1 +0 +1 +0\n/,
  );
  assert.match(text, /Violated: 1 operation in 60 s, seed 7$/);
});

describe("the closing lines say what cut a run short, and that alone", () => {
  const short = resultOf([], [], { grants: 0 });

  test("a server that is gone", () => {
    const text = closingText({ ...short, unreachable: { fromMs: 5130, calls: 213 }, leftBehind: null });
    assert.match(
      text,
      /^unreachable: the server could not be reached from 5\.1 s on \(213 calls\)\n\nworkload/,
    );
  });

  test("a token that was taken no longer", () => {
    const text = closingText({ ...short, dismissed: [revoked] });
    assert.match(
      text,
      /^refused \(401\) the second token \(p\) from 5\.1 s on: it was revoked or has expired/,
    );
    assert.doesNotMatch(text, /too little some/);
  });

  test("a rate limit, with what to do if it left too little", () => {
    assert.match(
      closingText({ ...short, rateLimited: 12 }),
      /\n12 calls refused by the rate limit \(429\)\. Raise/,
    );
    const enough = closingText({ ...resultOf([]), rateLimited: 1 });
    assert.match(enough, /\n1 call refused by the rate limit \(429\)\nNo violation found/);
  });
});
