import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { hookNames, hookText, origin } from "./hook-script.js";

const installation = { node: "/opt/it's node", main: "/opt/$(id)/main.js" };

for (const hook of hookNames) {
  const text = hookText({ hook, installation, madeDirectory: false });

  test(`${hook}: known as ours, as edited, or as another's`, () => {
    assert.deepEqual(origin(text), { is: "ours", madeDirectory: false });
    assert.equal(origin(hookText({ hook, installation, madeDirectory: true })).madeDirectory, true);
    assert.equal(origin(`${text}\n`).is, "changed");
    assert.equal(origin(text.replace("exit 1", "exit 0")).is, "changed");
    assert.equal(origin(text.replace(/sha256.*/, "")).is, "changed");
    assert.equal(origin(`#!/bin/sh\n${text}`).is, "foreign");
    assert.equal(origin("").is, "foreign");
  });

  test(`${hook}: sh reads it, and takes the places of programs as they are`, () => {
    assert.equal(spawnSync("sh", ["-n"], { input: text }).stderr.toString(), "");
    const lines = text.split("\n").filter((line) => /^(?:node|main)=/.test(line));
    const shown = spawnSync("sh", { input: `${lines.join("\n")}\nprintf '%s\\n' "$node" "$main"\n` });
    assert.equal(shown.stdout.toString(), `${installation.node}\n${installation.main}\n`);
  });
}
