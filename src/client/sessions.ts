/** Sessions: one keepalive for any number of leases. */
import type { Duration } from "./durations.js";
import { type CallSignal, ttlOf } from "./locks.js";
import { refuseUnknown } from "./options.js";
import { segment } from "./path.js";
import type { Keepalive, Session, SessionCreated } from "./replies.js";
import type { Transport } from "./transport.js";

export interface SessionOptions extends CallSignal {
  /** 60 s if left out. */
  readonly ttl?: Duration | undefined;
  readonly metadata?: string | undefined;
}

export class Sessions {
  constructor(readonly transport: Transport) {}

  /** A repeat after a lost reply leaves a session behind that nobody knows; it ends by itself. */
  async create(options: SessionOptions = {}): Promise<SessionCreated> {
    refuseUnknown("createSession", options);
    const { metadata, signal } = options;
    return this.transport.ask<SessionCreated>({
      method: "POST",
      path: "/sessions",
      body: { ...ttlOf(options), ...(metadata === undefined ? {} : { metadata }) },
      signal,
      expects: ["sessionId", "expiresInMs"],
    });
  }

  async keepalive(sessionId: string, options: CallSignal = {}): Promise<Keepalive> {
    refuseUnknown("keepalive", options);
    return this.transport.ask<Keepalive>({
      method: "POST",
      path: `${pathOf(sessionId)}/keepalive`,
      body: {},
      signal: options.signal,
      expects: ["sessionId", "expiresInMs"],
    });
  }

  async get(sessionId: string, options: CallSignal = {}): Promise<Session> {
    refuseUnknown("getSession", options);
    return this.transport.ask<Session>({
      method: "GET",
      path: pathOf(sessionId),
      signal: options.signal,
      expects: ["sessionId", "active"],
    });
  }

  /** Ends it and all of its leases, now. */
  async end(sessionId: string, options: CallSignal = {}): Promise<void> {
    refuseUnknown("endSession", options);
    const { signal } = options;
    await this.transport.call({ method: "DELETE", path: pathOf(sessionId), signal, expects: [] });
  }
}

const pathOf = (sessionId: string): string => `/sessions/${segment(sessionId)}`;
