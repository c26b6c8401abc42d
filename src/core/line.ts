/**
 * Lines that the servers of a cluster share (rule 9). A waiter stands in its own server's queue; what is shared is only whose
 * turn it is, one turn for each waiter, in the order in which they came. A server that sees a name free takes it for the first
 * of its waiters if the first turn is its own, and leaves it alone otherwise: nobody is granted anything by a server that does
 * not know whether they still listen. The turns of a server that is gone are passed over.
 */
import type { Decision, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import { lineKey, peerKey } from "./keys.js";
import { type Policy, peerTtlMs, turnsMax } from "./limits.js";
import type { PeerRecord } from "./records.js";

/** One of several servers that decide about the same names. */
export interface Peer {
  readonly id: string;
  /** How many stand in line for a name at this server. Asked while deciding: the answer must be current. */
  readonly places: (space: string, name: string) => number;
  /** How many of them are there; of the others only the places are kept. */
  readonly present: (space: string, name: string) => number;
}

/** Whose turns stand in line, the first first. Those of servers that are gone are dropped here, in this step. */
export function turnsIn(draft: Draft, space: string, name: string, peer: Peer): readonly string[] {
  const line = draft.get(lineKey(space, name));
  if (line === null) return [];
  const others = new Set(line.turns.filter((id) => id !== peer.id));
  draft.require([...others].map(peerKey));
  for (const id of others) if (isHere(draft, draft.get(peerKey(id)))) others.delete(id);
  if (others.size === 0) return line.turns;
  return putTurns(
    draft,
    space,
    name,
    line.turns.filter((id) => !others.has(id)),
  );
}

const isHere = (draft: Draft, peer: PeerRecord | null): boolean =>
  peer !== null && draft.earliest <= peer.expiresAt;

export function putTurns(
  draft: Draft,
  space: string,
  name: string,
  turns: readonly string[],
): readonly string[] {
  draft.put(lineKey(space, name), turns.length === 0 ? null : { kind: "line", space, name, turns });
  return turns;
}

/**
 * Gives the server as many turns as it has waiters, less those who are served in this step: the first of its own are used up,
 * and who has none yet stands at the end. False: the line is full.
 */
export function countTurns(draft: Draft, space: string, name: string, peer: Peer, served: number): boolean {
  const turns = turnsIn(draft, space, name, peer);
  const wanted = Math.max(0, peer.places(space, name) - served);
  const own = turns.filter((id) => id === peer.id).length;
  if (own === wanted) return true;
  let surplus = own - wanted;
  const kept = surplus > 0 ? turns.filter((id) => id !== peer.id || surplus-- <= 0) : turns;
  const room = Math.max(0, turnsMax - kept.length);
  const missing = Math.max(0, wanted - own);
  putTurns(draft, space, name, [...kept, ...Array<string>(Math.min(missing, room)).fill(peer.id)]);
  return missing <= room;
}

/** It is this server's turn and nobody of its own is there to take it: those after it go first. */
export function passTurns(draft: Draft, space: string, name: string, peer: Peer): void {
  const turns = turnsIn(draft, space, name, peer);
  const next = turns.findIndex((id) => id !== peer.id);
  putTurns(draft, space, name, next < 0 ? [] : turns.slice(next));
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

/** Where in line the `nth` (from 0) turn of this server stands, or -1. */
export function placeOf(turns: readonly string[], peerId: string, nth: number): number {
  let seen = 0;
  return turns.findIndex((id) => id === peerId && seen++ === nth);
}

/** A waiter has left: its turn, the `nth` (from 0) of this server's, is given up. Returns where it stood, or -1. */
export function dropTurn(draft: Draft, space: string, name: string, peer: Peer, nth: number): number {
  const turns = turnsIn(draft, space, name, peer);
  const at = placeOf(turns, peer.id, nth);
  if (at >= 0) putTurns(draft, space, name, turns.toSpliced(at, 1));
  return at;
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
