// What a run makes of a service that is silent, overrun, or no longer takes a bearer token.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Contact } from "./contact.js";
import type { Heard } from "./exchange.js";

const reply = (status: number): Heard => ({ kind: "reply", status, body: {}, retryAfterMs: 0 });
const unsent: Heard = { kind: "unsent", why: "ECONNREFUSED" };

test("silence counts from the first call without an answer, and ends with any answer", () => {
  const contact = new Contact();
  contact.note(unsent, "p", 100);
  contact.note({ kind: "lost", why: "ECONNRESET" }, "p", 90);
  contact.note({ kind: "lost", why: "cut" }, "p", 120);
  assert.deepEqual(contact.silence, { from: 100, calls: 2 });
  contact.note(reply(503), "p", 130);
  assert.equal(contact.silence, null);
  assert.equal(contact.unsent, 1);
});

test("a token that is refused is told once; calls that were too many are counted", () => {
  let told = 0;
  const contact = new Contact(() => told++);
  for (const status of [200, 429, 401, 401, 429]) contact.note(reply(status), "p", 1);
  assert.deepEqual([told, [...contact.dismissed.keys()], contact.rateLimited], [1, ["p"], 2]);
});
