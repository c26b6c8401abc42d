/**
 * When a reply can reach its caller no more, or has. Node says so of the reply that a connection is at, but not of
 * those that stand behind it (a caller may send several requests at once); so the connection is asked as well.
 */
import type { Socket } from "node:net";
import type { FastifyReply } from "fastify";

/** Whom to tell when a connection closes: one listener, however many requests it carries. */
const waiting = new WeakMap<Socket, Set<() => void>>();

/** Calls back once: when the reply was written, or its connection has closed. */
export function onDeparture(reply: FastifyReply, tell: () => void): void {
  const { socket } = reply.request.raw;
  const others = waiting.get(socket) ?? watched(socket);
  const over = (): void => {
    if (!others.delete(over)) return;
    reply.raw.removeListener("close", over);
    tell();
  };
  others.add(over);
  if (reply.raw.closed || socket.destroyed) over();
  else reply.raw.once("close", over);
}

function watched(socket: Socket): Set<() => void> {
  const told = new Set<() => void>();
  waiting.set(socket, told);
  socket.once("close", () => {
    for (const over of [...told]) over();
  });
  return told;
}
