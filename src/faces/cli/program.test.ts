import assert from "node:assert/strict";
import { test } from "node:test";
import type { Command } from "commander";
import { build } from "./program.js";

const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)];

function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({
    writeOut: (more) => {
      text += more;
    },
  });
  command.outputHelp();
  return text;
}

test("the help of every command has an example, which is one of that command", async () => {
  for (const command of all(await build(""))) {
    const [, example = ""] = helpOf(command).split(/\nExamples?:\n/);
    assert.match(
      example,
      new RegExp(`holdfast .*${command.parent === null ? "" : command.name()}`),
      command.name(),
    );
  }
});

test("help tells a command's own options before those that all have", async () => {
  const lock = all(await build("lock")).find((command) => command.name() === "acquire");
  assert.ok(lock !== undefined);
  const told = [...helpOf(lock).matchAll(/^ +(?:-h, )?(--[a-z-]+)/gm)].map(([, long]) => long);
  assert.deepEqual(told.slice(0, 2), ["--resource", "--session"]);
  assert.deepEqual(told.slice(-6), ["--server", "--token", "--token-file", "--data", "--json", "--help"]);
});

test("every command with a result takes --json", async () => {
  const without = all(await build(""))
    .filter((command) => command.commands.length === 0)
    .filter((command) => !command.options.some(({ long }) => long === "--json"))
    .map((command) => command.name());
  assert.deepEqual(without, ["serve"]);
});

test("a word that is nearly right is told, at every level, with where to read on", async () => {
  const rows: [typed: string, says: RegExp][] = [
    ["serv", /unknown command 'serv' \(Did you mean serve\?\)\. See: holdfast --help$/],
    ["lock aquire x", /'aquire' \(Did you mean acquire\?\)\. See: holdfast lock --help$/],
    ["token creat", /'creat' \(Did you mean create\?\)\. See: holdfast token --help$/],
    [
      "token create --name x --rol y",
      /'--rol' \(Did you mean --role\?\)\. See: holdfast token create --help$/,
    ],
    ["acquire x", /'acquire' \(Did you mean holdfast lock acquire\?\)/],
    ["status --zzz", /unknown option '--zzz'\. See: holdfast status --help$/],
    ["constructor", /unknown command 'constructor'\. See/],
  ];
  for (const [typed, says] of rows) {
    const [word = "", ...rest] = typed.split(" ");
    const program = await build(word);
    await assert.rejects(program.parseAsync([word, ...rest], { from: "user" }), (error: Error) => {
      assert.match(error.message, says);
      return true;
    });
  }
});

test("only the group that is called for is declared", async () => {
  const program = await build("status");
  assert.ok(!program.commands.some((command) => command.name() === "serve"));
});
