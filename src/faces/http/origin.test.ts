/** By which names a server on loopback may be called. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FastifyRequest } from "fastify";
import { Refused } from "./answer.js";
import { checkHost } from "./origin.js";

const asked = (host: string | undefined, httpVersion = "1.1"): FastifyRequest =>
  ({ headers: { host }, raw: { httpVersion } }) as FastifyRequest;
const isLetIn = (request: FastifyRequest): boolean => {
  try {
    checkHost(request, ["127.0.0.1"]);
    return true;
  } catch (error) {
    assert.ok(error instanceof Refused);
    return false;
  }
};

test("who names no host is refused, also before anybody was let in", () => {
  assert.equal(isLetIn(asked(undefined, "1.0")), false);
  assert.equal(isLetIn(asked("127.0.0.1")), true);
  for (const request of [asked(undefined, "1.0"), asked(undefined), asked(""), asked("evil.example")])
    assert.equal(isLetIn(request), false);
  assert.equal(isLetIn(asked("127.0.0.1:80")), true);
});
