/** The words of scripts that take locks one command at a time: lock acquire, renew, release, status, gc. */
import type { Command } from "commander";
import { placeOptions } from "./options.js";
import { proofOptions, sessionOption } from "./session-options.js";

export function declare(program: Command): void {
  const lock = program
    .command("lock")
    .description("take, keep and give back locks, one command at a time")
    .addHelpText(
      "after",
      `
A lock belongs to the session that took it: the calling script, or what HOLDFAST_SESSION names.
It is kept by a server or, with --git or inside a git repository where no server is configured, by that repository.
Exit codes: 0 done; 2 wrong use; 3 not found, nothing held; 4 held by another, or lost; 5 storage or network; 1 else.

Examples:
  holdfast lock acquire issue:8057324b --ttl 30m && make fix; holdfast lock release issue:8057324b
  holdfast lock acquire path:src/auth.rs --git=origin
`,
    );
  const resource = (name: string): Command =>
    placeOptions(
      lock
        .command(name)
        .argument("[resource]", "its name, as issue:8057324b, path:src/auth.rs or repo:deploy")
        .option("--resource <resource>", "the same, as an option"),
    );
  sessionOption(resource("acquire"))
    .description("take a lock, or say who has it")
    .option("--ttl <duration>", "how long it lasts unless renewed, as 30s, 15m or 1h", "5m")
    .option("--wait <duration>", "stand in line this long if another has it, as 5m (default: not at all)")
    .option("--reason <text>", "what for; shown to everybody who finds it held")
    .option("--metadata <text>", "the same as --reason")
    .addHelpText("after", "\nExample:\n  holdfast lock acquire --resource issue:8057324b --ttl 30m\n")
    .action(async (name, flags) => (await import("../lock/lock-commands.js")).acquireCommand(name, flags));
  proofOptions(resource("renew"))
    .description("keep a lock of this session for longer")
    .option("--ttl <duration>", "how long from now, as 30s, 15m or 1h (default: as it was acquired)")
    .addHelpText("after", "\nExample:\n  holdfast lock renew --resource issue:8057324b --ttl 30m\n")
    .action(async (name, flags) => (await import("../lock/lock-commands.js")).renewCommand(name, flags));
  proofOptions(resource("release"))
    .description("give back a lock of this session")
    .option("--mine", "with --all: every lock that this session holds")
    .option("--all", "with --mine: every lock that this session holds")
    .addHelpText(
      "after",
      "\nExamples:\n  holdfast lock release --resource issue:8057324b\n  trap 'holdfast lock release --mine --all' EXIT\n",
    )
    .action(async (name, flags) => (await import("../lock/lock-commands.js")).releaseCommand(name, flags));
  sessionOption(resource("status"))
    .description("who holds what")
    .option("--prefix <prefix>", "only names that begin so")
    .option("--mine", "only what this session holds")
    .addHelpText(
      "after",
      "\nExamples:\n  holdfast lock status\n  holdfast lock status --prefix issue: --json\n",
    )
    .action(async (name, flags) => (await import("../lock/status-commands.js")).statusCommand(name, flags));
  sessionOption(placeOptions(lock.command("gc")))
    .description("clean up what is over, in a repository; a server does so by itself")
    .addHelpText("after", "\nExample:\n  holdfast lock gc\n")
    .action(async (flags) => (await import("../lock/status-commands.js")).gcCommand(flags));
}
