import assert from "node:assert/strict";
import { test } from "node:test";
import { canonical } from "./canonical.js";

test("objects are the same in whatever order their keys came, lists only in their own", () => {
  const same = [
    '{"b":[{"y":1,"x":null}],"a":{"2":1,"10":"t"},"__proto__":1}',
    '{"__proto__":1,"a":{"10":"t","2":1},"b":[{"x":null,"y":1}]}',
  ].map((text) => canonical(JSON.parse(text)));
  assert.equal(same[0], same[1]);
  const different: unknown[] = [null, "null", [1, 2], [2, 1], { a: [1] }, { a: { 0: 1 } }, { a: "1" }, {}];
  assert.equal(new Set(different.map(canonical)).size, different.length);
});
