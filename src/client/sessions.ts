/** Sessions: one keepalive for any number of leases. */
import type { Duration } from "./durations.js";
import { type CallSignal, ttlOf } from "./locks.js";
import { segment } from "./path.js";
import type { Keepalive, Session, SessionCreated } from "./replies.js";
import type { Transport } from "./transport.js";

export class Sessions {
  constructor(readonly transport: Transport) {}

  /** A repeat after a lost reply leaves a session behind that nobody knows; it ends by itself. */
  async create(
    options: CallSignal & {
      readonly ttl?: Duration | undefined;
      readonly metadata?: string | undefined;
    } = {},
  ): Promise<SessionCreated> {
    const { metadata, signal } = options;
    const body = { ...ttlOf(options), ...(metadata === undefined ? {} : { metadata }) };
    return (await this.transport.call({ method: "POST", path: "/sessions", body, signal }))
      .body as SessionCreated;
  }

  async keepalive(sessionId: string, { signal }: CallSignal = {}): Promise<Keepalive> {
    const path = `${pathOf(sessionId)}/keepalive`;
    return (await this.transport.call({ method: "POST", path, body: {}, signal })).body as Keepalive;
  }

  async get(sessionId: string, { signal }: CallSignal = {}): Promise<Session> {
    return (await this.transport.call({ method: "GET", path: pathOf(sessionId), signal })).body as Session;
  }

  /** Ends it and all of its leases, now. */
  async end(sessionId: string, { signal }: CallSignal = {}): Promise<void> {
    await this.transport.call({ method: "DELETE", path: pathOf(sessionId), signal });
  }
}

const pathOf = (sessionId: string): string => `/sessions/${segment(sessionId)}`;
