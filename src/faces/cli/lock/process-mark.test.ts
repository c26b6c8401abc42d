import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fateOf, markOf, markText } from "./process-mark.js";

test("a process is known while it lives, and gone afterwards", async () => {
  const child = spawn("sh", ["-c", "echo begun; read _ ; exit 0"], { stdio: ["pipe", "pipe", "ignore"] });
  await once(child.stdout, "data");
  const mark = markOf(child.pid ?? 0);
  assert.equal(fateOf(mark), "alive");
  child.stdin.end("\n");
  await once(child, "exit");
  assert.equal(fateOf(mark), "gone");
});

test("another process with the same number is another", () => {
  const own = markOf(process.pid);
  assert.equal(fateOf(own), "alive");
  assert.equal(fateOf({ ...own, start: "1" }), "gone");
  assert.notEqual(markText(own), markText({ ...own, start: "1" }));
});

test("one of an earlier start of this machine is gone; of another machine or container nothing is known", () => {
  const own = markOf(process.pid);
  assert.equal(fateOf({ ...own, boot: "an-earlier-one" }), own.boot === "" ? "unknown" : "gone");
  assert.equal(fateOf({ ...own, host: "elsewhere" }), "unknown");
  assert.equal(fateOf({ ...own, namespace: "pid:[1]" }), "unknown");
});
