/** The words of a repository's lock policy: guard install, uninstall, check. */
import type { Command } from "commander";
import { choiceOption, placeOptions } from "./options.js";

export function declare(program: Command): void {
  const guard = program
    .command("guard")
    .description("hold commits and pushes to a git repository's lock policy")
    .addHelpText(
      "after",
      `
The policy is lock_policy = "off", "warn" or "require" in .holdfast.toml, or git config holdfast.lockPolicy in a clone.

Example:
  holdfast guard install && git config holdfast.lockPolicy warn
`,
    );
  guard
    .command("install")
    .description(
      "add pre-commit and pre-push hooks to this repository; hooks that are there are kept and run first",
    )
    .option("--force-shared", "also into a directory of hooks that other repositories use")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  holdfast guard install\n")
    .action(async (flags) => (await import("../guard/install-command.js")).installCommand(flags));
  guard
    .command("uninstall")
    .description("take the hooks away again, and put back what was there before")
    .option("--force-shared", "also from a directory of hooks that other repositories use")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  holdfast guard uninstall\n")
    .action(async (flags) => (await import("../guard/install-command.js")).uninstallCommand(flags));
  placeOptions(
    guard.command("check").argument("[paths...]", "files or directories, as they are seen from here"),
  )
    .description("say which paths another holds, or need a lock; without paths, those of the next commit")
    .option("--staged", "the paths of the commit that is being made")
    .option("--range <A..B>", "the paths of the commits of B that are not in A")
    .option(
      "--pre-push <remote...>",
      "REMOTE URL: the paths of a push, from the lines of git's pre-push hook",
    )
    .option("--pre-receive", "the paths of a push that arrives, from the lines of git's pre-receive hook")
    .option(
      "--as <principal>",
      "whose locks count as held by you (default: the token's own, or this worktree's)",
    )
    .addOption(
      choiceOption("--policy <policy>", "instead of the repository's policy", ["off", "warn", "require"]),
    )
    .addHelpText(
      "after",
      `
Exit codes: 0 nothing is refused; 4 refused; 5 the locks cannot be read; 2 wrong use, or a wrong policy; 1 else.

Examples:
  holdfast guard check src/auth.rs
  holdfast guard check --range origin/main..HEAD --policy require
`,
    )
    .action(async (paths, flags) => (await import("../guard/check-command.js")).checkCommand(paths, flags));
}
