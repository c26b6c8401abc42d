import assert from "node:assert/strict";
import { test } from "node:test";
import { Crowd } from "./crowd.js";

test("a burst begins anew after a second in which nobody met a crowd", () => {
  const crowd = new Crowd();
  assert.equal(crowd.meet(5000), 0);
  assert.equal(crowd.meet(5099), 99);
  assert.equal(crowd.meet(6099), 1099, "not a whole second without one");
  assert.equal(crowd.meet(7100), 0);
});
