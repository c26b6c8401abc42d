import assert from "node:assert/strict";
import { test } from "node:test";
import { Crowd } from "./crowd.js";

test("a crowd lasts while calls meet it, and each burst after a pause begins anew", () => {
  const crowd = new Crowd();
  assert.equal(crowd.meet(5000), 0);
  assert.equal(crowd.meet(5099), 99);
  assert.equal(crowd.meet(5349), 349, "no pause yet");
  assert.equal(crowd.meet(5600), 0);
  assert.equal(crowd.meet(5900), 0);
});
