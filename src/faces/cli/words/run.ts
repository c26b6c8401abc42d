/** The words of whoever works under a lease: run, hold. */
import type { Command } from "commander";
import { choiceOption, placeOptions } from "./options.js";

export function declare(program: Command): void {
  placeOptions(
    program
      .command("run")
      .usage("[options] NAME -- COMMAND...")
      .argument("<name>", "what is to be held while the command runs")
      .argument("[command...]", "the command and its arguments, after --"),
  )
    .description("run a command under a lease: one at a time, everywhere")
    .option("--ttl <duration>", "how long the lease outlives a crash, from 1s, as 30s, 15m or 1h", "60s")
    .option("--wait <duration>", "stand in line this long if another has it, as 10m (default: not at all)")
    .option("--metadata <text>", "shown to everybody who finds it held")
    .addOption(
      choiceOption("--on-loss <what>", "what to do with the command when the lease is lost", [
        "kill",
        "warn",
      ]).default("kill"),
    )
    .addHelpText(
      "after",
      `
The command gets HOLDFAST_LEASE_ID, HOLDFAST_FENCING_TOKEN and HOLDFAST_NAME. It is ended before another can be granted
the lease. Exit codes: the command's own; 75 not granted in time; 76 lost; 126, 127 cannot be run; 128+n signal n. Standard
output is the command's; with --json a failure of run itself is its last line.

Examples:
  holdfast run deploy-main --wait 10m -- ./deploy.sh
  holdfast run nightly-report --ttl 5m -- make report
`,
    )
    .action(async (name, command, flags) => {
      process.exitCode = await (await import("../run/run-command.js")).runCommand(name, command, flags);
    });
  placeOptions(program.command("hold").argument("<name>", "what is to be held"))
    .description("keep a lease until interrupted; one JSON object per line says what happens")
    .option("--ttl <duration>", "how long the lease outlives a crash, from 1s, as 30s, 15m or 1h", "60s")
    .option("--wait <duration>", "stand in line this long if another has it, as 10m (default: not at all)")
    .option("--metadata <text>", "shown to everybody who finds it held")
    .option("--while-pid <pid>", "release when this process ends")
    .addHelpText(
      "after",
      `
Events: waiting, acquired, renewed, released, lost. Exit codes: 0 released; 4 held by another, or lost; 3 the process of
--while-pid is not there; 128+n signal n during the wait. With --json a failure is one more line, as from every command.

Examples:
  holdfast hold gpu-0 --while-pid $$ > gpu-0.log &
  holdfast hold gpu-0 --wait 10m | while read -r event; do echo "$event"; done
`,
    )
    .action(async (name, flags) => {
      process.exitCode = await (await import("../hold-command.js")).holdCommand(name, flags);
    });
}
