/** The words of whoever looks and configures: status, watch, doctor, config, completion. */
import { Argument, type Command } from "commander";
import { placeOptions } from "./options.js";

export function declare(program: Command): void {
  placeOptions(program.command("status").argument("[prefix]", "only names that begin with this"))
    .description("who holds what: a live table on a terminal, else one look")
    .option("--mine", "only what this token's principal holds")
    .option("--once", "one look, also on a terminal")
    .addHelpText(
      "after",
      "\nExamples:\n  holdfast status\n  holdfast status deploy- --json | jq .data.total\n",
    )
    .action(async (prefix, flags) => {
      process.exitCode = await (await import("../look/status-command.js")).statusCommand(prefix, flags);
    });
  placeOptions(program.command("watch").argument("[prefix]", "only names that begin with this"))
    .description("follow what happens: a live table on a terminal, else a line per event")
    .option("--lines", "a line per event, also on a terminal")
    .addHelpText(
      "after",
      `
A line is: time, event (snapshot, acquired, renewed, released, expired), name, fencing token, owner. A broken connection
is told on standard error, with --json as the events disconnected and connected.

Examples:
  holdfast watch deploy-
  holdfast watch | grep ' expired '
`,
    )
    .action(async (prefix, flags) => {
      process.exitCode = await (await import("../look/watch-command.js")).watchCommand(prefix, flags);
    });
  placeOptions(program.command("doctor"))
    .description("check settings, server, token, clock and a real lease, and say what to do")
    .addHelpText("after", "\nExamples:\n  holdfast doctor\n  holdfast doctor --json | jq -e .ok\n")
    .action(async (flags) => {
      process.exitCode = await (await import("../look/doctor-command.js")).doctorCommand(flags);
    });
  const config = program
    .command("config")
    .description("look at the settings")
    .addHelpText("after", "\nExample:\n  holdfast config show\n");
  placeOptions(config.command("show"))
    .description("each setting and where it came from; secrets are masked")
    .addHelpText("after", "\nExample:\n  holdfast config show --json\n")
    .action(async (flags) => {
      process.exitCode = await (await import("../look/config-command.js")).showConfig(flags);
    });
  program
    .command("completion")
    .description("print a script that lets a shell complete commands and options")
    .addArgument(new Argument("<shell>", "which shell").choices(["bash", "zsh", "fish"]))
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > "\${fpath[1]}/_holdfast"
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
`,
    )
    .action(async (shell, flags) => {
      process.exitCode = await (await import("../look/completion-command.js")).completionCommand(
        shell,
        flags,
      );
    });
}
