/** Which nodes can be taken, and in which order: priority, then how much waits for them, then age. */
import type { NodeRecord, Priority } from "./records.js";

const priorityRank: Readonly<Record<Priority, number>> = { p1: 1, p2: 2, p3: 3 };
/** Without a priority: after all that have one. */
const noPriorityRank = 4;
/** More than this many blocked nodes rank alike. */
const blockingMax = 999;

/** Sorts as text; the best comes first. Ends with the id, so that no two are equal. */
export function rankOf(node: NodeRecord): string {
  const priority = node.priority === null ? noPriorityRank : priorityRank[node.priority];
  const blocking = String(blockingMax - Math.min(node.blocking, blockingMax)).padStart(3, "0");
  return `${priority}/${blocking}/${String(node.createdAt).padStart(16, "0")}/${node.id}`;
}

export const isBlocked = (node: NodeRecord): boolean => node.blockedBy.some((blocker) => blocker.live);

/** Something to do, and nobody and nothing in the way. */
export const isReady = (node: NodeRecord): boolean =>
  node.phase !== "terminal" && node.claim === null && node.parked === null && !isBlocked(node);

export const assigneeOf = (node: NodeRecord): string | null =>
  node.edges.find((edge) => edge.type === "assigned")?.to ?? null;

/** Its assignee took it: an edge that somebody else wrote says who should, not who did. */
export const isCarried = (node: NodeRecord): boolean =>
  node.edges.some(({ type, to, by }) => type === "assigned" && to === by);

/** Prefix of the ready index: one type, or null for all of them. */
export const readyPrefix = (space: string, type: string | null): string => `${space}/${type ?? ""}/`;
export const takenPrefix = (space: string, type: string | null): string =>
  type === null ? `${space}/` : `${space}/${type}/`;
export const assignedPrefix = (space: string, principal: string): string => `${space}/${principal}/`;
