// For how long a service wants to be left alone, however it says it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { retryAfter } from "./exchange.js";

const sent = "Wed, 18 Nov 2026 10:00:00 GMT";
const rows: readonly (readonly [headers: Record<string, string>, body: unknown, ms: number])[] = [
  [{}, null, 0],
  [{ "retry-after": "3" }, null, 3000],
  [{ "retry-after": "120" }, null, 120_000],
  // The service's own field is finer.
  [{ "retry-after": "3" }, { retry_after_ms: 2100 }, 2100],
  [{ "retry-after": "Wed, 18 Nov 2026 10:00:20 GMT", date: sent }, null, 20_000],
  [{ "retry-after": "Wed, 18 Nov 2026 09:00:00 GMT", date: sent }, null, 0],
  [{ "retry-after": "soon", date: sent }, null, 0],
  [{ "retry-after": "99999999999" }, null, 86_400_000],
];

for (const [headers, body, ms] of rows)
  test(`${JSON.stringify(headers)} ${JSON.stringify(body)}: ${ms} ms`, () => {
    assert.equal(retryAfter({ headers }, body), ms);
  });

test("a date without the sender's own is one on this machine's clock", () => {
  const ms = retryAfter({ headers: { "retry-after": new Date(Date.now() + 30_000).toUTCString() } }, null);
  assert.ok(ms > 25_000 && ms <= 30_000, `${ms}`);
});
