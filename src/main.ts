#!/usr/bin/env node
/** The program `holdfast`. What it loads counts at every call in a shell loop: as little as can be, as late as can be. */
import { version } from "./faces/cli/version.js";

const args = process.argv.slice(2);

if (args[0] === "--version" || args[0] === "-V") {
  // Nothing can be lost with a reader that has left.
  process.stdout.on("error", () => {}).write(`${version}\n`);
} else {
  const { run } = await import("./faces/cli/program.js");
  process.exitCode = await run(args);
}
