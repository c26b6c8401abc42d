/** Options of commands that act on a session's own leases. */
import type { Command } from "commander";

export const sessionOption = (command: Command): Command =>
  command.option(
    "--session <name>",
    "commands with the same name are one owner (HOLDFAST_SESSION; default: the calling process)",
  );

/** How a lease is shown to be the caller's own. */
export const proofOptions = (command: Command): Command =>
  sessionOption(command)
    .option("--nonce <nonce>", "the lease's nonce, as --json printed it (HOLDFAST_LEASE_ID)")
    .option("--adopt", "also one that a process took here which has ended since");
