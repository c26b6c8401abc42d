import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { callerPid, isNobody } from "./caller.js";

const callerFile = new URL("./caller.js", import.meta.url).href;
/** A program that says who called it. */
const asking = [
  process.execPath,
  "--input-type=module",
  "--eval",
  `import { callerPid } from ${JSON.stringify(callerFile)}; console.log(callerPid());`,
];

/** What a program says that is started by these words. `argv0`: under which name the first of them runs. */
async function callerOf(words: readonly string[], argv0?: string): Promise<{ caller: number; pid: number }> {
  const [file = "", ...args] = words;
  const child = spawn(file, args, {
    stdio: ["ignore", "pipe", "inherit"],
    ...(argv0 === undefined ? {} : { argv0 }),
  });
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  await once(child, "close");
  return { caller: Number(out), pid: child.pid ?? 0 };
}

const quoted = asking.map((word) => `'${word}'`).join(" ");

for (const words of [
  ["timeout", "60"],
  ["xargs"],
  ["env", "A=1"],
  ["nohup"],
  ["nice", "-n", "1"],
  ["setsid", "--wait"],
  ["timeout", "60", "env", "A=1", "xargs", "timeout", "60"],
])
  test(`${words.join(" ")} is not the caller: whoever called it is`, async () => {
    assert.equal((await callerOf([...words, ...asking])).caller, process.pid);
  });

for (const name of ["sudo", "/usr/bin/doas", "time"])
  test(`nor is ${name}, by the name it runs under`, async () => {
    assert.equal((await callerOf(["timeout", "60", ...asking], name)).caller, process.pid);
  });

test("a shell is a caller, also within a wrapper and under a wrapper's name as its argument", async () => {
  const direct = await callerOf(["sh", "-c", `${quoted}; true`, "timeout"]);
  assert.equal(direct.caller, direct.pid);
  const within = await callerOf(["env", "sh", "-c", `timeout 60 ${quoted}; true`]);
  assert.equal(within.caller, within.pid, "env has become the shell");
});

test("nobody is who starts processes for others", () => {
  assert.equal(isNobody(0), true);
  assert.equal(isNobody(process.pid), false);
  assert.equal(callerPid({}, process.pid), process.pid);
});
