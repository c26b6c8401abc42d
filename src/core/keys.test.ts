/** Keys and index entries: order as text must be the order that is meant. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { afterPrefix, requestKey, sessionKey, sortable, sortableInstant } from "./keys.js";
import { parseName } from "./names.js";

const anyName = fc
  .oneof(
    fc.string({ unit: "grapheme" }).map((text) => `path:${text}`),
    fc
      .string({ unit: fc.constantFrom("a", "B", "%", "/", "é", "2", "F", "~", " ", "日") })
      .map((text) => `path:${text}`),
  )
  .filter((raw) => "name" in parseName(raw));

test("instants sort as text in the order of time, up to the largest exact integer", () => {
  const instant = fc.nat({ max: Number.MAX_SAFE_INTEGER });
  fc.assert(
    fc.property(instant, instant, (one, other) => {
      assert.equal(sortableInstant(one) < sortableInstant(other), one < other);
    }),
  );
});

test("a sort string is printable ASCII and tells two names apart", () => {
  fc.assert(
    fc.property(anyName, anyName, (one, other) => {
      assert.match(sortable(one), /^[\x20-\x7e]*$/);
      assert.equal(sortable(one) === sortable(other), one === other);
    }),
  );
});

test("what lies below a path lies between its prefix and the end of it, and nothing else does", () => {
  fc.assert(
    fc.property(anyName, anyName, (parent, name) => {
      const prefix = sortable(`${parent}/`);
      const within = sortable(name) >= prefix && sortable(name) < afterPrefix(prefix);
      assert.equal(within, name.startsWith(`${parent}/`));
      const below = sortable(`${parent}/${name}`);
      assert.ok(below >= prefix && below < afterPrefix(prefix));
    }),
  );
});

test("keys of different things never meet", () => {
  const id = fc.string({ unit: fc.constantFrom("a", "b", "-"), minLength: 1 });
  fc.assert(
    fc.property(id, id, id, id, (space, principal, one, other) => {
      assert.equal(requestKey(space, principal, one) === requestKey(space, principal, other), one === other);
      assert.equal(requestKey(space, one, principal) === requestKey(space, other, principal), one === other);
      assert.notEqual(sessionKey(space, one), requestKey(space, principal, one));
    }),
  );
});
