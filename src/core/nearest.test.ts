import assert from "node:assert/strict";
import { test } from "node:test";
import { nearest } from "./nearest.js";

const acquire = [
  "ttl_seconds",
  "metadata",
  "wait_seconds",
  "session_id",
  "request_id",
  "lease_id",
  "lock_delay_seconds",
  "ephemeral",
];
const renew = ["lease_id", "ttl_seconds"];

const rows: [word: string, known: readonly string[], meant: string | undefined][] = [
  // shortened
  ["ttl", acquire, "ttl_seconds"],
  ["wait", acquire, "wait_seconds"],
  ["lease", renew, "lease_id"],
  ["meta", acquire, "metadata"],
  ["lock_delay", acquire, "lock_delay_seconds"],
  // another case or separator
  ["ttlSeconds", acquire, "ttl_seconds"],
  ["TTL_SECONDS", acquire, "ttl_seconds"],
  ["lease-id", renew, "lease_id"],
  ["leaseId", renew, "lease_id"],
  // misspelt
  ["metdata", acquire, "metadata"],
  ["metadtaa", acquire, "metadata"],
  ["ttl_second", acquire, "ttl_seconds"],
  ["laese_id", renew, "lease_id"],
  ["ephemral", acquire, "ephemeral"],
  // another unit
  ["ttl_ms", acquire, "ttl_seconds"],
  ["ttlMs", renew, "ttl_seconds"],
  ["wait_timeout", acquire, "wait_seconds"],
  // part of one
  ["id", renew, "lease_id"],
  // two are equally near, or none is
  ["id", acquire, undefined],
  ["seconds", acquire, undefined],
  ["force", acquire, undefined],
  ["acl", acquire, undefined],
  ["x", acquire, undefined],
  ["", acquire, undefined],
  ["__proto__", acquire, undefined],
  ["длина", acquire, undefined],
  ["ttl", [], undefined],
];

for (const [word, known, meant] of rows) {
  test(`\`${word}\` among ${known.length} means ${meant ?? "nothing"}`, () => {
    assert.equal(nearest(word, known), meant);
  });
}

test("a word of a megabyte costs nothing", () => {
  assert.equal(nearest("t".repeat(1_000_000), acquire), undefined);
});
