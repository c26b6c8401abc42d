/** `holdfast node create|update|link|unlink|unpark`: the graph itself. */
import type { EdgeType, Priority } from "../../../client/nodes-replies.js";
import { connect } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import { printLines } from "../output.js";
import type { ServerFlags } from "../settings.js";
import { nodeLines, printReply } from "./node-text.js";

export interface NodeFlags extends ServerFlags {
  readonly json?: boolean;
}

export interface CreateFlags extends NodeFlags {
  readonly title: string;
  readonly type: string;
  readonly summary?: string;
  readonly status?: string;
  readonly priority?: string;
  readonly project?: string;
}

export async function createCommand(id: string, flags: CreateFlags): Promise<void> {
  const { title, type, summary, status, project } = flags;
  const { client } = await connect(flags, "server");
  // Whether it is one is for the server to say.
  const priority = flags.priority as Priority | undefined;
  const node = await client.nodes.create({ id, type, title, summary, status, priority, project });
  if (flags.json === true) return printReply({ node });
  printLines("Node created", `  Node: ${node.id}`, `  Type: ${node.type}`, `  Status: ${node.status}`);
}

export interface UpdateFlags extends NodeFlags {
  readonly title?: string;
  readonly summary?: string;
  readonly priority?: string;
  readonly project?: string;
}

/** Changes what is said, and nothing that somebody else changed between the look and the write. */
export async function updateCommand(id: string, flags: UpdateFlags): Promise<void> {
  const { title, summary, priority, project } = flags;
  if ([title, summary, priority, project].every((value) => value === undefined))
    throw new CliError("say what changes: --title, --summary, --priority or --project", exitCodes.usage);
  const { client } = await connect(flags);
  const { revision } = await client.nodes.get(id);
  const node = await client.nodes.update(id, revision, {
    title,
    summary: summary === "" ? null : summary,
    priority: priority === "none" ? null : (priority as Priority | undefined),
    project: project === "" ? null : project,
  });
  if (flags.json === true) return printReply({ node });
  printLines("Node changed", `  Node: ${id}`, ...nodeLines(node).map((line) => `  ${line}`));
}

const edgeTypes = ["blocks", "resolves", "relates-to", "assigned"] as const satisfies readonly EdgeType[];

export async function edgeCommand(
  verb: "link" | "unlink",
  id: string,
  edge: string,
  to: string,
  flags: NodeFlags,
): Promise<void> {
  const type = edgeTypes.find((one) => one === edge);
  if (type === undefined)
    throw new CliError(`${edge} is no edge: use ${edgeTypes.join(", ")}`, exitCodes.usage);
  const { client } = await connect(flags, "server");
  const reply = await (verb === "link"
    ? client.nodes.addEdge(id, type, to)
    : client.nodes.removeEdge(id, type, to));
  if (flags.json === true) return printReply(reply);
  const words = {
    added: "Edge added",
    kept: "Edge was there",
    removed: "Edge removed",
    skipped: "No such edge",
  };
  printLines(words[reply.edge], `  ${id} ${type} ${to}`);
}

export interface UnparkFlags extends NodeFlags {
  readonly reason: string;
}

export async function unparkCommand(id: string, flags: UnparkFlags): Promise<void> {
  const { client } = await connect(flags, "server");
  const reply = await client.nodes.unpark(id, flags.reason);
  if (flags.json === true) return printReply(reply);
  printLines("Back in the queue", `  Node: ${id}`, ...nodeLines(reply.node).map((line) => `  ${line}`));
}
