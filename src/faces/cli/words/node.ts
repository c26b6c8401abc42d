/** The words of workers on a graph of work: node create, list, show, link, claim, next, status, history, policy and the others. */
import type { Command } from "commander";
import { choiceOption, serverOptions } from "./options.js";

export function declare(program: Command): void {
  const node = program
    .command("node")
    .description("a shared queue of work: claim what is next, keep it, say how it ended")
    .addHelpText(
      "after",
      `
A claim belongs to the token's name; with --session (or HOLDFAST_SESSION) not to runs of it with another label.
Exit codes: 0 done; 75 nothing to do; 2 wrong use; 3 no such node; 4 another's, not ready, or lost; 5 storage or network; 1 else.

Example:
  holdfast node next --type task --session agent-7 --wait 10m --json
`,
    );
  declareNodes(node);
  declareLooks(node);
  declareClaims(node);
}

const nodesFile = (): Promise<typeof import("../node/node-commands.js")> =>
  import("../node/node-commands.js");
const looksFile = (): Promise<typeof import("../node/look-commands.js")> =>
  import("../node/look-commands.js");
const claimsFile = (): Promise<typeof import("../node/claim-commands.js")> =>
  import("../node/claim-commands.js");

const one = (node: Command, name: string): Command =>
  serverOptions(node.command(name).argument("<id>", "the node, as task-api-limits"));

const sessionOption = (command: Command): Command =>
  command.option(
    "--session <label>",
    "this run's own label (HOLDFAST_SESSION; default: none, any run of the token's)",
  );

/** Which lease is meant. */
const leaseOptions = (command: Command): Command =>
  sessionOption(command).option("--fencing-token <number>", "only if this is the token of the live claim");

function declareNodes(node: Command): void {
  one(node, "create")
    .description("add a node to the graph")
    .requiredOption("--title <text>", "what it is, in a line")
    .option("--type <type>", "task, issue, question, or what the policy names", "task")
    .option("--summary <text>", "more about it")
    .option("--status <status>", "another than the first of its type")
    .addOption(
      choiceOption("--priority <priority>", "ranks first in the queue: p1, p2 or p3", ["p1", "p2", "p3"]),
    )
    .option("--project <name>", "what it belongs to")
    .addHelpText(
      "after",
      "\nExample:\n  holdfast node create task-api-limits --title 'Rate limits' --priority p1\n",
    )
    .action(async (id, flags) => (await nodesFile()).createCommand(id, flags));
  one(node, "update")
    .description("change what a node says of itself")
    .option("--title <text>", "what it is, in a line")
    .option("--summary <text>", "more about it; empty: nothing more")
    .addOption(choiceOption("--priority <priority>", "p1, p2, p3 or none", ["p1", "p2", "p3", "none"]))
    .option("--project <name>", "what it belongs to; empty: to none")
    .addHelpText("after", "\nExample:\n  holdfast node update task-api-limits --priority p1\n")
    .action(async (id, flags) => (await nodesFile()).updateCommand(id, flags));
  for (const [name, about] of [
    ["link", "add an edge to another node (assigned: to a token's name)"],
    ["unlink", "remove such an edge"],
  ] as const)
    one(node, name)
      .argument("<edge>", "blocks, resolves, relates-to or assigned")
      .argument("<to>", "where it leads")
      .description(about)
      .addHelpText("after", `\nExample:\n  holdfast node ${name} task-schema blocks task-api-limits\n`)
      .action(async (id, edge, to, flags) => (await nodesFile()).edgeCommand(name, id, edge, to, flags));
  one(node, "unpark")
    .description("put work that kept losing its carriers back into the queue")
    .requiredOption("--reason <text>", "why it will go better now; kept in its history")
    .addHelpText(
      "after",
      "\nExample:\n  holdfast node unpark task-api-limits --reason 'the disk is replaced'\n",
    )
    .action(async (id, flags) => (await nodesFile()).unparkCommand(id, flags));
}

function declareLooks(node: Command): void {
  serverOptions(node.command("list"))
    .description("nodes by id")
    .option("--type <type>", "only this type")
    .option("--status <status>", "only this status")
    .option("--prefix <prefix>", "only ids that begin so")
    .addHelpText("after", "\nExample:\n  holdfast node list --type task --status open\n")
    .action(async (flags) => (await looksFile()).listCommand(flags));
  one(node, "show")
    .description("one node: its edges, what blocks it, who is on it")
    .addHelpText("after", "\nExample:\n  holdfast node show task-api-limits\n")
    .action(async (id, flags) => (await looksFile()).showCommand(id, flags));
  serverOptions(node.command("queue"))
    .description("what is there to do, the best first, and why")
    .option("--type <type>", "only this type")
    .option("--assignee <who>", "me, or a token's name: what it carries, with its claims")
    .option("--parked", "what is out of the queue, and why")
    .option("--limit <number>", "so many at most", "50")
    .addHelpText("after", "\nExamples:\n  holdfast node queue\n  holdfast node queue --assignee me --json\n")
    .action(async (flags) => (await looksFile()).queueCommand(flags));
  serverOptions(node.command("policy"))
    .description("how long claims last, which types there are, what their statuses mean")
    .option(
      "--set <file>",
      "set it from this JSON file (admin); what is left out is as the server's configuration says",
    )
    .addHelpText("after", "\nExamples:\n  holdfast node policy\n  holdfast node policy --set policy.json\n")
    .action(async (flags) => (await import("../node/policy-command.js")).policyCommand(flags));
  one(node, "history")
    .description("who did what to a node, oldest first")
    .addHelpText("after", "\nExample:\n  holdfast node history task-api-limits\n")
    .action(async (id, flags) => (await looksFile()).historyCommand(id, flags));
}

function declareClaims(node: Command): void {
  sessionOption(serverOptions(node.command("next")))
    .description("claim the best free node, or wait for one")
    .option("--type <type>", "only this type")
    .option("--wait <duration>", "how long to wait for work, as 10m (default: not at all)")
    .addHelpText(
      "after",
      "\nExample:\n  holdfast node next --type task --session agent-7 --wait 10m --json\n",
    )
    .action(async (flags) => (await claimsFile()).nextCommand(flags));
  leaseOptions(one(node, "claim"))
    .description("claim a node, or say who has it; an own claim is renewed")
    .option("--dispatch <label>", "refuse a live claim that was made with another one")
    .option("--rebind", "move the own claim from another run to this one")
    .addHelpText("after", "\nExample:\n  holdfast node claim task-api-limits --session agent-7\n")
    .action(async (id, flags) => (await claimsFile()).claimCommand(id, flags));
  leaseOptions(one(node, "renew"))
    .description("keep the own claim: the heartbeat")
    .addHelpText("after", "\nExample:\n  holdfast node renew task-api-limits --session agent-7\n")
    .action(async (id, flags) => (await claimsFile()).renewCommand(id, flags));
  leaseOptions(one(node, "extend"))
    .description("stretch the own claim for a known gap, up to the policy's ceiling")
    .requiredOption("--by <duration>", "how much longer, as 30m or 2h")
    .addHelpText("after", "\nExample:\n  holdfast node extend task-api-limits --by 2h\n")
    .action(async (id, flags) => (await claimsFile()).extendCommand(id, flags));
  leaseOptions(one(node, "reserve"))
    .description("keep the own claim without heartbeats for the policy's grace")
    .addHelpText("after", "\nExample:\n  holdfast node reserve task-api-limits\n")
    .action(async (id, flags) => (await claimsFile()).reserveCommand(id, flags));
  leaseOptions(one(node, "release"))
    .description("give a node back to the queue")
    .addHelpText("after", "\nExample:\n  holdfast node release task-api-limits\n")
    .action(async (id, flags) => (await claimsFile()).releaseCommand(id, flags));
  leaseOptions(one(node, "status").argument("<status>", "as active or done"))
    .description("set the status: an active one claims, a terminal one ends the claim")
    .option("--reason <text>", "why; kept in its history (with one, an admin may end another's work)")
    .addHelpText("after", "\nExample:\n  holdfast node status task-api-limits done\n")
    .action(async (id, status, flags) => (await claimsFile()).statusCommand(id, status, flags));
}
