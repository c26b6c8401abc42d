// Hostile names, owners and metadata through the command line: nothing that others wrote acts on a terminal, turns words
// around or breaks a line, in text, in JSON and in messages; and nothing is taken under a name that is refused.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ok } from "../http-api.js";
import { type Server, startServer, temporaryDir } from "../server.js";
import { type Ended, holdfast } from "../system-program.js";
import { hostileNames, unprintable } from "./hostile-names.js";

/** What an attacker would put where anything may stand: title, colour, cursor and clipboard sequences, bidi, breaks. */
const texts = [
  "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
  "\x9b31mC1 control",
  "first\nLock acquired\n  Resource: forged",
  "\r\x1b[Kholdfast: all is well",
  "abc\u202Edcba\u2066x\u2069",
  "zero\u200Bwidth\u00ADsoft",
  "\u2028line\u2029paragraph",
  "\x1b]52;c;ZXZpbA==\x07",
];
const held = texts.map((text, at) => ({ name: `hostile-${at}`, text }));

let server: Server;
let env: Record<string, string>;

before(async () => {
  server = await startServer();
  const state = temporaryDir("holdfast-state-");
  env = { HOME: state, HOLDFAST_URL: server.url, HOLDFAST_TOKEN: "secret-b", HOLDFAST_SESSION: "hostile" };
  for (const { name, text } of held)
    await ok(server, "claimJob", {
      token: "secret-a",
      name,
      body: { owner: text, metadata: text, ttl_seconds: 600 },
    });
});
after(() => server.stop());

const run = (...args: readonly string[]): Promise<Ended> => holdfast(args, { env });

function assertHarmless({ text }: Ended): void {
  for (const line of text.split("\n")) assert.doesNotMatch(line, unprintable);
  assert.doesNotMatch(text, /^ {2}Resource: forged$/m, "no line was forged");
  assert.doesNotMatch(text, /\n {4}at .*\(/, "no stack trace");
}

describe("what others wrote", () => {
  for (const args of [
    ["status"],
    ["status", "--json"],
    ["lock", "status"],
    ["lock", "status", "--json"],
    ["job", "list"],
    ["job", "list", "--json"],
  ])
    test(`holdfast ${args.join(" ")}`, async () => {
      const ended = await run(...args);
      assert.equal(ended.code, 0, ended.text);
      for (const { name } of held) assert.ok(ended.stdout.includes(name), `${name} is shown`);
      assertHarmless(ended);
    });

  for (const { name } of held) {
    test(`holdfast job owner, lock acquire and run on ${name}`, async () => {
      for (const args of [
        ["job", "owner", name],
        ["job", "owner", name, "--json"],
        ["lock", "acquire", name],
        ["lock", "acquire", name, "--json"],
        ["job", "claim", name],
        ["run", name, "--", "true"],
      ])
        assertHarmless(await run(...args));
    });
  }
});

describe("hostile names as arguments", () => {
  // The system itself ends an argument at NUL, and turns half a character into another one.
  const possible = hostileNames.filter(({ name }) => !name.includes("\0") && name.isWellFormed());
  for (const { what, name, stored } of possible)
    test(what, async () => {
      const taken = await run("lock", "acquire", `--resource=${name}`, "--ttl", "600s", "--json");
      assertHarmless(taken);
      const { ok, data } = JSON.parse(taken.stdout);
      if (stored === null) {
        assert.ok(taken.code === 1 || taken.code === 2, `refused: ${taken.text}`);
        assert.equal(ok, false);
        return;
      }
      // Some of them overlap, or are the same in another spelling.
      assert.ok(taken.code === 0 || taken.code === 4, taken.text);
      if (taken.code === 0) assert.equal(data.lock.resource, stored);
      assertHarmless(await run("lock", "release", `--resource=${name}`));
    });
});
