/** The words of workers on jobs: job claim, heartbeat, release, owner, list. */
import type { Command } from "commander";
import { choiceOption, serverOptions } from "./options.js";
import { proofOptions, sessionOption } from "./session-options.js";

export function declare(program: Command): void {
  const job = program
    .command("job")
    .description("claim jobs, one live owner each, one command at a time")
    .addHelpText(
      "after",
      `
A claim belongs to the session that made it: the calling script, or what HOLDFAST_SESSION names.
Exit codes: 0 done; 2 wrong use; 3 not found, nothing held; 4 owned by another, or lost; 5 storage or network; 1 else.

Example:
  holdfast job claim issue-1842 --owner agent-7
`,
    );
  const one = (name: string): Command =>
    serverOptions(job.command(name).argument("<id>", "the job, as issue-1842"));
  sessionOption(
    serverOptions(job.command("claim").argument("<id...>", "the job; of several the first free one")),
  )
    .description("claim a job, or say who owns it")
    .option("--owner <label>", "shown as its owner (default: the token's name)")
    .option("--metadata <text>", "text or a JSON object, shown to everybody who finds it claimed")
    .option("--ttl <duration>", "how long the claim lasts without a heartbeat, as 30s or 15m (default: 2m)")
    .option("--wait <duration>", "stand in line this long if another owns it, as 5m (default: not at all)")
    .addHelpText(
      "after",
      "\nExamples:\n  holdfast job claim issue-1842 --owner agent-7\n  holdfast job claim issue-1 issue-2 issue-3 --json\n",
    )
    .action(async (ids, flags) => (await import("../lock/job-commands.js")).claimCommand(ids, flags));
  proofOptions(one("heartbeat"))
    .description("keep a claim of this session")
    .option("--ttl <duration>", "how long from now, as 30s or 15m (default: as it was claimed)")
    .option("--progress <text>", "how far it is, shown to everybody who asks")
    .addHelpText("after", "\nExample:\n  holdfast job heartbeat issue-1842 --progress 'tests run'\n")
    .action(async (id, flags) => (await import("../lock/job-commands.js")).heartbeatCommand(id, flags));
  proofOptions(one("release"))
    .description("end a claim of this session")
    .addOption(choiceOption("--outcome <outcome>", "how it went", ["done", "failed", "abandoned"]))
    .option("--note <text>", "a word on the outcome")
    .addHelpText("after", "\nExample:\n  holdfast job release issue-1842 --outcome done\n")
    .action(async (id, flags) => (await import("../lock/job-commands.js")).releaseJobCommand(id, flags));
  sessionOption(one("owner"))
    .description("who owns a job")
    .addHelpText("after", "\nExample:\n  holdfast job owner issue-1842\n")
    .action(async (id, flags) => (await import("../lock/job-commands.js")).ownerCommand(id, flags));
  sessionOption(serverOptions(job.command("list")))
    .description("jobs that are claimed")
    .option("--prefix <prefix>", "only ids that begin so")
    .option("--owner <label>", "only this owner's")
    .option("--mine", "only what this session has claimed")
    .addHelpText("after", "\nExample:\n  holdfast job list --prefix issue- --json\n")
    .action(async (flags) => (await import("../lock/job-commands.js")).listJobsCommand(flags));
}
