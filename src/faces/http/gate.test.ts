import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tokens } from "../../service/tokens.js";
import type { Load } from "../../wire/routes.js";
import { Busy } from "./answer.js";
import { Gate } from "./gate.js";
import { type GateLimits, gateLimitsDefault } from "./gate-limits.js";

const loads: readonly Load[] = ["look", "take", "keep", "operate"];

/** Whom it lets in with so many in work; nobody has to show a token for that. */
function letIn(inWork: number, limits: Partial<GateLimits>): Load[] {
  const gate = new Gate({} as Tokens, { ...gateLimitsDefault, ...limits });
  gate.inWork = inWork;
  const admitted = loads.filter((load) => {
    try {
      gate.admit(load);
      return true;
    } catch (error) {
      assert.ok(error instanceof Busy, String(error));
      return false;
    }
  });
  gate.close();
  return admitted;
}

test("a crowd that stays keeps reads and takes out, and nobody who looks after a lease or the server", () => {
  const { crowdMin } = gateLimitsDefault;
  assert.deepEqual(letIn(crowdMin - 1, { crowdMs: 0 }), loads);
  assert.deepEqual(letIn(crowdMin, { crowdMs: 0 }), ["keep", "operate"]);
});

test("a burst is let in up to the most that may be in work", () => {
  const { look, take } = gateLimitsDefault.inWorkMax;
  assert.deepEqual(letIn(look - 1, {}), loads);
  assert.deepEqual(letIn(take - 1, {}), ["take", "keep", "operate"]);
  assert.deepEqual(letIn(take, {}), ["keep", "operate"]);
});
