import assert from "node:assert/strict";
import { test } from "node:test";
import { checkNode } from "./checks-here.js";
import { checkClock } from "./checks-server.js";
import { masked } from "./config-command.js";

test("Node counts from 20.19 on", () => {
  const statuses = ["18.20.0", "20.18.9", "20.19.0", "20.20.2", "22.1.0"].map(
    (version) => checkNode(version).status,
  );
  assert.deepEqual(statuses, ["failed", "failed", "ok", "ok", "ok"]);
});

test("a clock that is off is no failure: leases do not depend on it", () => {
  assert.equal(checkClock(900).status, "ok");
  assert.equal(checkClock(null).status, "skipped");
  const behind = checkClock(90_000);
  assert.equal(behind.status, "warning");
  assert.match(behind.message, /1m behind the server's. Leases are safe/);
  assert.match(checkClock(-7_200_000).message, /2h ahead of the server's/);
});

test("of a token the first characters of its id are shown, of any other nothing", () => {
  assert.equal(masked("hf_Ab12Cd34Ef56_sEcReT"), "hf_Ab12Cd…");
  for (const other of ["secret-a", "hf_short_x", "hf_", "", "hf_nosecondpart"])
    assert.equal(masked(other), "(hidden)");
});
