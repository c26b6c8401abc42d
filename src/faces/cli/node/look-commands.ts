/** `holdfast node list|show|queue|history`: what there is to do, who is on it, and who was. */
import type { HistoryEntry, QueueItem, WorkNode } from "../../../client/nodes-replies.js";
import { connect } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import { printLines } from "../output.js";
import type { NodeFlags } from "./node-commands.js";
import { hiddenText, historyTable, nodeLines, nodeTable, printReply, queueTable } from "./node-text.js";

export interface ListFlags extends NodeFlags {
  readonly type?: string;
  readonly status?: string;
  readonly prefix?: string;
}

/** How many are asked for at once. */
const pageSize = 500;

export async function listCommand(flags: ListFlags): Promise<void> {
  const { type, status, prefix } = flags;
  const { client } = await connect(flags, "server");
  const nodes: WorkNode[] = [];
  for await (const node of client.nodes.each({ type, status, prefix, limit: pageSize })) nodes.push(node);
  if (flags.json === true) return printReply({ nodes, total: nodes.length });
  printLines(...(nodes.length === 0 ? ["No nodes."] : nodeTable(nodes)));
}

export async function showCommand(id: string, flags: NodeFlags): Promise<void> {
  const { client } = await connect(flags, "server");
  const node = await client.nodes.get(id);
  if (flags.json === true) return printReply({ node });
  printLines(node.id, ...nodeLines(node).map((line) => `  ${line}`));
}

export interface QueueFlags extends NodeFlags {
  readonly type?: string;
  readonly assignee?: string;
  readonly parked?: boolean;
  readonly limit: string;
}

export async function queueCommand(flags: QueueFlags): Promise<void> {
  const { type, assignee, parked } = flags;
  if (!/^[1-9]\d{0,5}$/.test(flags.limit))
    throw new CliError(`--limit ${flags.limit}: give a number from 1 to 999999`, exitCodes.usage);
  const most = Number(flags.limit);
  const { client } = await connect(flags, "server");
  const items: QueueItem[] = [];
  let cursor: string | undefined;
  let hidden: { readonly hidden?: number; readonly hiddenAtLeast?: true };
  do {
    const limit = Math.min(pageSize, most - items.length);
    const page = await client.nodes.queue({ type, assignee, parked, limit, cursor });
    items.push(...page.items);
    hidden = page;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined && items.length < most);
  const isCut = cursor !== undefined;
  if (flags.json === true) {
    const { hidden: count, hiddenAtLeast } = hidden;
    return printReply({ items, total: items.length, more: isCut, hidden: count, hiddenAtLeast });
  }
  printLines(
    ...(items.length === 0 ? [emptyText(flags)] : queueTable(items)),
    ...(isCut ? [`There are more: --limit ${most * 2}`] : []),
    ...(hidden.hidden ? [hiddenText(hidden).trimStart()] : []),
  );
}

function emptyText({ assignee, parked }: QueueFlags): string {
  if (parked === true) return "Nothing is parked.";
  return assignee === undefined
    ? "Nothing to do. What is blocked, parked or claimed: holdfast node list"
    : `Nothing is assigned to ${assignee}.`;
}

export async function historyCommand(id: string, flags: NodeFlags): Promise<void> {
  const { client } = await connect(flags, "server");
  const history: HistoryEntry[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page = await client.nodes.history(id, { after, limit: pageSize });
    history.push(...page.history);
    after = page.nextAfter;
  }
  if (flags.json === true) return printReply({ nodeId: id, history, total: history.length });
  printLines(...historyTable(history));
}
