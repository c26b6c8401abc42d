/** Nodes, claims and their history for people, as lines and tables; and for programs, in the words of the wire. */
import type {
  HistoryEntry,
  NodeEdge,
  NodeLease,
  Parked,
  QueueItem,
  WorkNode,
} from "../../../client/nodes-replies.js";
import { canDraw } from "../look/screen.js";
import { type Column, tableLines } from "../look/table.js";
import { durationText, instantText, printJson } from "../output.js";
import { wireFields } from "../wording.js";

/** What a server answered. That it went well stands beside it already. */
export function printReply(reply: object): void {
  const { ok: _, ...rest } = reply as { readonly ok?: true };
  printJson(wireFields(rest));
}

const table = (columns: readonly Column[], rows: readonly (readonly string[])[]): string[] =>
  tableLines(columns, rows, canDraw() ? (process.stdout.columns ?? null) : null);

const nodeColumns: readonly Column[] = [
  { title: "NODE", widthMin: 12 },
  { title: "TYPE" },
  { title: "STATUS" },
  { title: "PRIORITY" },
  { title: "HOLDER", widthMin: 8 },
  { title: "EXPIRES IN" },
  { title: "HELD UP BY", widthMin: 8 },
  { title: "TITLE", widthMin: 8 },
];

/** Why nobody can take it now, beside a claim. */
const heldUpBy = ({ blockedBy, blockersHidden = 0, parked }: WorkNode): string =>
  [
    ...(parked === undefined ? [] : ["parked"]),
    ...blockedBy,
    ...(blockersHidden === 0 ? [] : [`${blockersHidden} hidden`]),
  ].join(", ");

export const nodeTable = (nodes: readonly WorkNode[]): string[] =>
  table(
    nodeColumns,
    nodes.map((node) => {
      const { id, type, status, priority, lease, title } = node;
      return [
        id,
        type,
        status,
        priority ?? "",
        lease === undefined ? "" : holderText(lease),
        lease === undefined ? "" : durationText(lease.expiresInMs),
        heldUpBy(node),
        title,
      ];
    }),
  );

const queueColumns: readonly Column[] = [
  { title: "NODE", widthMin: 12 },
  { title: "TYPE" },
  { title: "STATUS" },
  { title: "HOLDER", widthMin: 8 },
  { title: "EXPIRES IN" },
  { title: "WHY", widthMin: 8 },
  { title: "TITLE", widthMin: 8 },
];

export const queueTable = (items: readonly QueueItem[]): string[] =>
  table(
    queueColumns,
    items.map(({ id, type, status, lease, why, parked, title }) => [
      id,
      type,
      status,
      lease === undefined ? "" : holderText(lease),
      lease === undefined ? "" : durationText(lease.expiresInMs),
      parked === undefined ? why.join(", ") : parkedText(parked),
      title,
    ]),
  );

/** With who lost it. */
const parkedText = ({ reason, carriers }: Parked): string =>
  carriers.length === 0 ? reason : `${reason}: ${carriersText(carriers)}`;

const carriersText = (carriers: Parked["carriers"]): string =>
  carriers.map(({ by, token }) => `${by} (token ${token})`).join(", ");

const historyColumns: readonly Column[] = [
  { title: "TIME (UTC)" },
  { title: "WHAT" },
  { title: "BY", widthMin: 8 },
  { title: "TOKEN" },
  { title: "DETAILS", widthMin: 8 },
];

export const historyTable = (history: readonly HistoryEntry[]): string[] =>
  table(
    historyColumns,
    history.map((entry) => [
      entry.at.toISOString().slice(0, 19).replace("T", " "),
      entry.what,
      entry.by,
      entry.token === null ? "" : String(entry.token),
      detailsOf(entry),
    ]),
  );

function detailsOf({ status, edge, from, session, reason }: HistoryEntry): string {
  return [
    ...(status === undefined ? [] : [`${status.from} → ${status.to}`]),
    ...(edge === undefined ? [] : [`${edge.type} ${edge.to ?? ""}`.trimEnd()]),
    ...(from === undefined ? [] : [`from ${from.by}${from.token === null ? "" : `, token ${from.token}`}`]),
    ...(session === undefined ? [] : [`session ${session}`]),
    ...(reason === undefined ? [] : [reason]),
  ].join("; ");
}

const holderText = ({ by, session, reserved }: NodeLease): string =>
  `${by}${session === null ? "" : ` (${session})`}${reserved === true ? " reserved" : ""}`;

/** `node`: where the reader did not name it. */
export function leaseLines(lease: NodeLease, node?: WorkNode): string[] {
  return [
    `  Node: ${lease.nodeId}`,
    ...(node === undefined ? [] : [`  Type: ${node.type}`, `  Title: ${node.title}`]),
    ...(lease.session === null ? [] : [`  Session: ${lease.session}`]),
    `  Token: ${lease.token}`,
    `  Expires: ${instantText(lease.expiresAt)}`,
  ];
}

/** All that is known of a node but its id, a line each. */
export function nodeLines(node: WorkNode): string[] {
  const { lease, parked, blockedBy, blockersHidden = 0 } = node;
  const more = blockersHidden === 0 ? [] : [`${blockersHidden} that this token may not see`];
  const optional: readonly (readonly [string, string | undefined])[] = [
    ["Priority", node.priority],
    ["Project", node.project],
    ["Summary", node.summary],
    ["Claimed by", lease === undefined ? undefined : claimText(lease)],
    ["Blocked by", [...blockedBy, ...more].join(", ") || undefined],
    ["Parked", parked === undefined ? undefined : `${parkedText(parked)}, at ${instantText(parked.at)}`],
    ["Lost", node.reclaims === 0 ? undefined : `${timesText(node.reclaims)} since its last clean release`],
  ];
  return [
    `Title: ${node.title}`,
    `Type: ${node.type}`,
    `Status: ${node.status}`,
    ...optional.flatMap(([name, text]) => (text === undefined ? [] : [`${name}: ${text}`])),
    ...node.edges.map(edgeText),
    `Revision: ${node.revision}, ${instantText(node.updatedAt)}`,
  ];
}

const timesText = (count: number): string => (count === 1 ? "once" : `${count} times`);

function claimText({ reserved, ...lease }: NodeLease): string {
  const until = `${reserved === true ? ", reserved" : ""} until ${instantText(lease.expiresAt)}`;
  return `${holderText(lease)} since ${instantText(lease.claimedAt)}${until}, token ${lease.token}`;
}

const edgeText = ({ type, to, at }: NodeEdge): string =>
  type === "assigned" ? `Assigned to: ${to} since ${instantText(at)}` : `Edge: ${type} ${to}`;

/** How much others are on, after a sentence; nothing if it is nothing. */
export function hiddenText({
  hidden = 0,
  hiddenAtLeast,
}: {
  readonly hidden?: number;
  readonly hiddenAtLeast?: true;
}): string {
  if (hidden === 0) return "";
  const least = hiddenAtLeast === true ? "at least " : "";
  return ` Others are on ${least}${hidden}.`;
}
