/** Bearer tokens: a name belongs to one token of its space, and every change leaves its audit record. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { World } from "../../test/core-world.js";
import { auditKey, tokenKey, tokenNameKey } from "./keys.js";
import { decideChangeToken, decideCreateToken, type NewToken, tokenKeys } from "./token.js";

const ci: NewToken = {
  id: "t1",
  space: "default",
  name: "ci",
  hash: "h1",
  role: "worker",
  scopes: ["*"],
  reentrant: false,
  expiresInMs: 1000,
};

function create(world: World, token: NewToken, auditId: string) {
  return world.step(tokenKeys(token), (view) =>
    decideCreateToken(view, token, { by: "root", auditId, wallAt: 77 }, world.policy),
  );
}

function change(world: World, space: string, hash: string | null, auditId: string) {
  return world.step([tokenKey("t1")], (view) =>
    decideChangeToken(view, { id: "t1", space }, hash, { by: "root", auditId, wallAt: 77 }, world.policy),
  );
}

describe("bearer tokens", () => {
  test("a new one is kept with its audit record and told to other nodes", () => {
    const world = new World();
    world.now = 5;
    const { reply, events } = create(world, ci, "a1");
    const { expiresInMs: _, ...fields } = ci;
    assert.deepEqual(reply, { kind: "token", ...fields, createdAt: 5, createdBy: "root", expiresAt: 1005 });
    assert.deepEqual(events, [{ type: "token", space: "default", id: "t1" }]);
    const audit = world.record(auditKey("default", "a1"));
    assert.deepEqual([audit?.action, audit?.principal, audit?.subject], ["token_create", "root", "ci"]);
    assert.deepEqual([audit?.at, audit?.wallAt], [5, 77], "engine time, and the time that people read");
    assert.deepEqual(
      world.rows("token").map((row) => row.sort),
      ["default/ci"],
    );
  });

  test("a name is taken once per space, until its token is revoked", () => {
    const world = new World();
    create(world, ci, "a1");
    const second = create(world, { ...ci, id: "t2", hash: "h2" }, "a2");
    assert.deepEqual([second.reply, second.writes], [{ refused: "name_taken" }, []]);
    assert.ok(!("refused" in create(world, { ...ci, id: "t3", space: "two" }, "a3").reply));
    change(world, "default", null, "a4");
    assert.ok(!("refused" in create(world, { ...ci, id: "t2", hash: "h2" }, "a5").reply));
    assert.equal(world.record(tokenNameKey("default", "ci"))?.id, "t2");
  });

  test("a rotated one has another hash and the same principal", () => {
    const world = new World();
    create(world, ci, "a1");
    change(world, "default", "h2", "a2");
    const record = world.record(tokenKey("t1"));
    assert.deepEqual([record?.hash, record?.name], ["h2", "ci"]);
    assert.equal(world.record(auditKey("default", "a2"))?.action, "token_rotate");
  });

  test("a revoked one is gone, and the next change of it is refused", () => {
    const world = new World();
    create(world, ci, "a1");
    change(world, "default", null, "a2");
    assert.equal(world.record(tokenKey("t1")), null);
    assert.equal(world.record(auditKey("default", "a2"))?.action, "token_revoke");
    const again = change(world, "default", "h2", "a3");
    assert.deepEqual([again.reply, again.writes], [{ refused: "token_unknown" }, []]);
  });

  test("one space cannot change another's", () => {
    const world = new World();
    create(world, ci, "a1");
    const { reply, writes } = change(world, "two", null, "a2");
    assert.deepEqual([reply, writes], [{ refused: "token_unknown" }, []]);
  });
});
