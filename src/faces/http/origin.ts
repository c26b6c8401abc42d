/** Where a request may come from: pages of other origins only if the operator named them, and only by our own names. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { refuse } from "./answer.js";

const methods = "GET, POST, PUT, DELETE";
const headers = "authorization, content-type, idempotency-key, last-event-id, holdfast-space";

/** Sets the CORS headers if the origin is allowed; returns whether it is. */
export function applyCors(request: FastifyRequest, reply: FastifyReply, origins: readonly string[]): boolean {
  const { origin } = request.headers;
  if (origin === undefined || origins.length === 0) return false;
  reply.header("vary", "Origin");
  if (!origins.includes(origin) && !origins.includes("*")) return false;
  reply.header("access-control-allow-origin", origin);
  reply.header("access-control-allow-methods", methods);
  reply.header("access-control-allow-headers", headers);
  reply.header("access-control-expose-headers", "x-request-id, retry-after");
  reply.header("access-control-max-age", "600");
  return true;
}

/** The last header that was let in: nearly all requests come with the same one. */
let lastHost: string | null = null;

/** On loopback: a page that made its own name point here (DNS rebinding) is refused. */
export function checkHost(request: FastifyRequest, hosts: readonly string[] | null): void {
  if (request.headers.host === undefined && request.raw.httpVersion === "1.1")
    refuse("invalid_input", "An HTTP/1.1 request needs a Host header.", { status: 400 });
  if (hosts === null || request.headers.host === lastHost) return;
  const host = (request.headers.host ?? "").replace(/:\d+$/, "").toLowerCase();
  if (!hosts.includes(host))
    refuse(
      "forbidden",
      `This server listens on loopback and does not answer to the name ${JSON.stringify(host.slice(0, 80))}. Use 127.0.0.1 or localhost.`,
    );
  lastHost = request.headers.host ?? null;
}
