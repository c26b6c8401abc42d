import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { type Authority, KeptLeases, type Wish } from "./kept-leases.js";
import { markOf } from "./process-mark.js";
import { callingSession } from "./session.js";

const authority: Authority = { server: "http://127.0.0.1:4280", space: "default", principal: "ci" };
const wish = (requestId = "rq_1"): Wish => ({
  kind: "lock",
  resources: ["deploy"],
  requestId,
  ttlSeconds: 60,
  metadata: null,
  owner: null,
});
const grant = (leaseId: string) => ({ resource: "deploy", leaseId, token: 1, expiresAt: 1 });

describe("kept leases", () => {
  let state = "";
  beforeEach(() => {
    state = mkdtempSync(join(tmpdir(), "holdfast-kept-"));
  });
  afterEach(() => rmSync(state, { recursive: true }));
  const of = (session: string, more: Partial<Authority> = {}): KeptLeases =>
    new KeptLeases(
      { ...authority, ...more },
      callingSession({ session }, {}, process.pid),
      markOf(process.pid),
      state,
    );
  const files = (): string[] =>
    readdirSync(state, { recursive: true, encoding: "utf8" }).filter((name) => /\.\w+$/.test(name));

  test("an attempt is there before the call, and becomes the lease", () => {
    const kept = of("a");
    const attempt = kept.begin(wish());
    assert.deepEqual(kept.attempts(), [attempt]);
    assert.equal(statSync(attempt.file).mode & 0o777, 0o600);
    assert.equal(kept.lease("deploy"), null);
    const lease = kept.promote(attempt, grant("ls_1"));
    assert.deepEqual(kept.attempts(), []);
    assert.deepEqual(kept.lease("deploy"), lease);
    assert.equal(statSync(lease.file).mode & 0o777, 0o600);
    assert.deepEqual([lease.leaseId, lease.requestId, lease.ttlSeconds], ["ls_1", "rq_1", 60]);
  });

  test("a losing attempt removes only its own", () => {
    const kept = of("a");
    const [loser, winner] = [kept.begin(wish("rq_1")), kept.begin(wish("rq_2"))];
    kept.promote(winner, grant("ls_2"));
    kept.discard(loser);
    assert.equal(kept.lease("deploy")?.leaseId, "ls_2");
    assert.equal(files().length, 1);
  });

  test("each server, space, principal and session has its own", () => {
    const kept = of("a");
    kept.promote(kept.begin(wish()), grant("ls_1"));
    const strangers = [
      of("b"),
      of("a", { server: "http://b" }),
      of("a", { space: "x" }),
      of("a", { principal: "x" }),
    ];
    for (const other of strangers) assert.equal(other.lease("deploy"), null);
    assert.deepEqual(
      strangers.map((other) => other.leasesOfOthers().length),
      [1, 0, 0, 0],
    );
    assert.deepEqual(kept.leasesOfOthers(), []);
    assert.equal(strangers[1]?.everything().leases.length, 1);
  });

  test("forgetting a lease leaves one that has taken its place", () => {
    const kept = of("a");
    const first = kept.promote(kept.begin(wish("rq_1")), grant("ls_1"));
    const second = kept.promote(kept.begin(wish("rq_2")), grant("ls_2"));
    kept.forget(first);
    assert.equal(kept.lease("deploy")?.leaseId, "ls_2");
    kept.forget(second);
    assert.equal(kept.lease("deploy"), null);
    assert.deepEqual(files(), [], "and nothing is left");
  });

  test("an attempt that was left behind is inherited once", () => {
    const kept = of("a");
    const left = kept.begin(wish());
    const first = kept.inherit(left);
    assert.equal(first?.requestId, "rq_1");
    assert.equal(kept.inherit(left), null);
    assert.deepEqual(kept.attempts(), [first]);
  });

  test("what is cut short or of a later version is passed over", () => {
    const kept = of("a");
    const { file } = kept.promote(kept.begin(wish()), grant("ls_1"));
    for (const text of ["", '{"version":1,"lea', '{"version":2,"leaseId":"x","resource":"deploy"}', "null"]) {
      writeFileSync(file, text);
      assert.equal(kept.lease("deploy"), null, text);
      assert.deepEqual(kept.leases(), []);
    }
    kept.promote(kept.begin(wish()), grant("ls_3"));
    assert.equal(kept.lease("deploy")?.leaseId, "ls_3");
  });

  test("says what to do where nothing can be kept", () => {
    writeFileSync(join(state, "leases"), "");
    assert.throws(() => of("a").begin(wish()), /cannot keep the lease id in .*XDG_STATE_HOME/);
  });
});
