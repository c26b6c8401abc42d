/** Handlers of /sessions. */
import { createHash } from "node:crypto";
import { newId } from "../../service/bearer.js";
import type { CreateSessionRequest } from "../../wire/sessions.js";
import { ok } from "./answer.js";
import type { Call, Handler } from "./call.js";
import { asked } from "./locks.js";
import { lockRefusal } from "./refusals.js";

const ttlDefaultSeconds = 60;

export const createSession: Handler = async (call) => {
  const body = call.body as CreateSessionRequest;
  const id = newId("ss");
  const ttlMs = (body.ttl_seconds ?? ttlDefaultSeconds) * 1000;
  const started = await call.desk.leases.sessions.start({
    id,
    // What others see of the session: enough to tell two apart, nothing to act with.
    hash: createHash("sha256").update(id).digest("hex").slice(0, 12),
    space: call.space,
    principal: call.identity.principal,
    metadata: body.metadata ?? null,
    ttlMs,
  });
  return {
    status: 201,
    body: {
      ...call.desk.present.session(started),
      keepalive_interval_secs: Math.max(1, Math.floor(ttlMs / 3000)),
    },
  };
};

/** Far above the length of an id of ours: what is longer is none, and is not to be remembered as such at its full length. */
const idMax = 128;

const sessionCall = (call: Call) => ({
  space: call.space,
  principal: call.identity.principal,
  id: (call.request.params as { id: string }).id.slice(0, idMax + 1),
});

export const keepaliveSession: Handler = async (call) => {
  const reply = await call.desk.leases.sessions.keepalive(sessionCall(call));
  if ("refused" in reply) return lockRefusal(reply, asked(call, "the session"));
  return ok({ ...call.desk.present.session(reply), leases: reply.session.leases });
};

export const getSession: Handler = async (call) => {
  const reply = await call.desk.leases.sessions.inspect(sessionCall(call));
  if ("refused" in reply) return lockRefusal(reply, asked(call, "the session"));
  const { session } = reply;
  return ok({
    ...call.desk.present.session(reply),
    principal: session.principal,
    lock_count: session.ended === null ? session.leases : 0,
    active: session.ended === null,
    metadata: session.metadata,
  });
};

/** One that is over already is as it should be: a delete whose reply was lost can be repeated. */
export const deleteSession: Handler = async (call) => {
  const reply = await call.desk.leases.sessions.end(sessionCall(call));
  return "refused" in reply && reply.refused !== "session_expired"
    ? lockRefusal(reply, asked(call, "the session"))
    : { status: 204, body: undefined };
};
