/**
 * Lines that the servers of a cluster share (rule 9). A waiter stands in its own server's queue; what is shared is only whose
 * turn it is, one turn for each waiter, in the order in which they came. A server that sees a name free takes it for the first
 * of its waiters if the first turn is its own, and leaves it alone otherwise: nobody is granted anything by a server that does
 * not know whether they still listen. The turns of a server that is gone are passed over, and so is that of a waiter who is away and
 * has a request id to come back with: it keeps its place, and nobody else of its server has the use of it.
 */
import type { Decision, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import { lineKey, peerKey } from "./keys.js";
import type { Claim } from "./lease.js";
import { type Policy, peerTtlMs, turnsMax } from "./limits.js";
import type { PeerRecord } from "./records.js";

/** Where somebody stands in the queue of a server. */
export interface Place {
  /** Its turn in the line: this server's id, a dot, and a number that it gives only once. */
  readonly turn: string;
  /** here: somebody listens · away: a request id keeps the place · served: a step that ends the wait is on its way. */
  readonly who: "here" | "away" | "served";
}

/** One of several servers that decide about the same names. */
export interface Peer {
  readonly id: string;
  /** Who stands in line for a name at this server, the first first. Asked while deciding: the answer must be current. */
  readonly places: (space: string, name: string) => readonly Place[];
  readonly turnOf: (claim: Claim) => string | undefined;
}

/** Whether another step of this server is about to serve the first who listens here: nobody else is to have the name meanwhile. */
export const isServing = (peer: Peer | undefined, space: string, name: string): boolean =>
  peer?.places(space, name).find(({ who }) => who !== "away")?.who === "served";

/** Ends a turn whose waiter is away: it keeps the place, and those after it go first. */
const awayMark = "-";
const isAway = (turn: string): boolean => turn.endsWith(awayMark);
const bare = (turn: string): string => (isAway(turn) ? turn.slice(0, -awayMark.length) : turn);
const marked = ({ turn, who }: Place): string => (who === "away" ? turn + awayMark : turn);

/** The server that has this turn. */
export const peerOf = (turn: string): string => turn.slice(0, Math.max(0, turn.lastIndexOf(".")));

/** The server whose turn it is, or undefined: nobody's who is there. */
export function nextIn(turns: readonly string[]): string | undefined {
  const first = turns.find((turn) => !isAway(turn));
  return first === undefined ? undefined : peerOf(first);
}

/** How many of them wait at other servers, and listen. */
export const waitingElsewhere = (turns: readonly string[], id: string): number =>
  turns.filter((turn) => !isAway(turn) && peerOf(turn) !== id).length;

/** The turns that stand in line, the first first. Those of servers that are gone are dropped here, in this step. */
export function turnsIn(draft: Draft, space: string, name: string, peer: Peer): readonly string[] {
  const line = draft.get(lineKey(space, name));
  if (line === null) return [];
  const others = new Set(line.turns.map(peerOf).filter((id) => id !== peer.id));
  draft.require([...others].map(peerKey));
  for (const id of others) if (isHere(draft, draft.get(peerKey(id)))) others.delete(id);
  if (others.size === 0) return line.turns;
  return putTurns(
    draft,
    space,
    name,
    line.turns.filter((turn) => !others.has(peerOf(turn))),
  );
}

const isHere = (draft: Draft, peer: PeerRecord | null): boolean =>
  peer !== null && draft.earliest <= peer.expiresAt;

function putTurns(draft: Draft, space: string, name: string, turns: readonly string[]): readonly string[] {
  draft.put(lineKey(space, name), turns.length === 0 ? null : { kind: "line", space, name, turns });
  return turns;
}

/**
 * Sets right the turns of this server: those of waiters who left, or are served in this step, are given up, those of who is away are
 * marked, and who has none yet stands at the end. False: the line is full.
 */
export function countTurns(
  draft: Draft,
  space: string,
  name: string,
  peer: Peer,
  served: readonly { readonly claim: Claim }[] = [],
): boolean {
  const turns = turnsIn(draft, space, name, peer);
  const places = new Map(peer.places(space, name).map((place) => [place.turn, place]));
  for (const { claim } of served) places.delete(peer.turnOf(claim) ?? "");
  const kept = turns.flatMap((turn) => {
    if (peerOf(turn) !== peer.id) return [turn];
    const place = places.get(bare(turn));
    places.delete(bare(turn));
    return place === undefined ? [] : [marked(place)];
  });
  // The step that serves somebody has used up the turn as well.
  const missing = [...places.values()].filter(({ who }) => who !== "served").map(marked);
  const room = Math.max(0, turnsMax - kept.length);
  const after = [...kept, ...missing.slice(0, room)];
  const isSame = after.length === turns.length && after.every((turn, nth) => turn === turns[nth]);
  if (!isSame) putTurns(draft, space, name, after);
  return missing.length <= room;
}

/** The name is free and it is another server's turn: it must hear of it, unless it does by the event that freed the name. */
export function tellNext(draft: Draft, space: string, name: string): void {
  const isTold = draft.events.some(
    (event) =>
      event.space === space &&
      "name" in event &&
      event.name === name &&
      ["released", "expired", "line"].includes(event.type),
  );
  if (!isTold) draft.emit({ type: "line", space, name });
}

/** Where in line this turn stands among those who listen, from 1; 0: nowhere. */
export function placeOf(turns: readonly string[], turn: string): number {
  const at = turns.findIndex((other) => bare(other) === turn);
  return at < 0 ? 0 : turns.slice(0, at).filter((other) => !isAway(other)).length + 1;
}

/** A waiter has left: its turn is given up. Returns where it stood, from 1; 0: nowhere. */
export function dropTurn(draft: Draft, space: string, name: string, peer: Peer, turn: string): number {
  const turns = turnsIn(draft, space, name, peer);
  const left = turns.filter((other) => bare(other) !== turn);
  if (left.length < turns.length) putTurns(draft, space, name, left);
  return placeOf(turns, turn);
}

/** Says that the server runs. True: others may have taken it for gone, and dropped its turns. */
export function decideBeat(view: View, id: string, policy: Policy): Decision<boolean> {
  return deciding(view, policy, (draft) => {
    const before = draft.get(peerKey(id));
    const expiresAt = draft.now + peerTtlMs;
    draft.put(peerKey(id), { kind: "peer", id, expiresAt, dueAt: before?.dueAt ?? expiresAt });
    return !isHere(draft, before);
  });
}

/** The server ends in order: nobody has to wait until it counts as gone. */
export function decideLeave(view: View, id: string, policy: Policy): Decision<void> {
  return deciding(view, policy, (draft) => {
    if (draft.get(peerKey(id)) !== null) removePeer(draft, id);
  });
}

/** Looks at a server that is due: one that said nothing for too long is gone. */
export function settlePeer(draft: Draft, peer: PeerRecord): void {
  if (isHere(draft, peer)) draft.put(peerKey(peer.id), { ...peer, dueAt: peer.expiresAt });
  else removePeer(draft, peer.id);
}

function removePeer(draft: Draft, id: string): void {
  draft.put(peerKey(id), null);
  draft.emit({ type: "line", space: null, name: null });
}
