#!/usr/bin/env node
/** The program `holdfast`. What it loads counts at every call in a shell loop: as little as can be, as late as can be. */
import { version } from "./faces/cli/version.js";

const args = process.argv.slice(2);

if (args[0] === "--version" || args[0] === "-V") {
  // Nothing can be lost with a reader that has left.
  process.stdout.on("error", () => {}).write(`${version}\n`);
} else {
  // Not awaited here: the bundle of it is no ES module.
  void import("./faces/cli/program.js")
    .then(({ run }) => run(args))
    .then((code) => {
      process.exitCode = code;
    });
}
