/** Sessions as a service: start, keep alive, look, end. Ending one settles all its leases before it answers. */
import { everySpace, floorKey, type Key, sessionKey } from "../core/keys.js";
import type { Policy } from "../core/limits.js";
import type { SessionRecord } from "../core/records.js";
import type { Refusal } from "../core/refusal.js";
import {
  decideDrainSession,
  decideEndSession,
  decideInspectSession,
  decideKeepalive,
  decideStartSession,
  type SessionCall,
  type SessionReply,
  type SessionStart,
} from "../core/session.js";
import { StoreError } from "../store/store.js";
import type { Steps } from "./steps.js";

const noHeirs = (): readonly never[] => [];

export class SessionCalls {
  constructor(
    readonly steps: Steps,
    readonly policy: Policy,
  ) {}

  start(start: SessionStart): Promise<SessionReply> {
    return this.steps.run(
      [sessionKey(start.space, start.id), floorKey(start.space), floorKey(everySpace)],
      (view) => decideStartSession(view, start, this.policy),
      noHeirs,
    );
  }

  keepalive(call: SessionCall): Promise<SessionReply | Refusal> {
    return this.steps.run(
      [sessionKey(call.space, call.id)],
      (view) => decideKeepalive(view, call, this.policy),
      noHeirs,
    );
  }

  inspect(call: SessionCall): Promise<SessionReply | Refusal> {
    return this.steps.run(
      [sessionKey(call.space, call.id)],
      (view) => decideInspectSession(view, call, this.policy),
      noHeirs,
    );
  }

  async end(call: SessionCall): Promise<SessionReply | Refusal> {
    const key = sessionKey(call.space, call.id);
    const reply = await this.steps.run([key], (view) => decideEndSession(view, call, this.policy), noHeirs);
    if (!("refused" in reply)) await this.#drain(key);
    return reply;
  }

  /**
   * The session is over, and its leases with it, whatever becomes of this: what is not settled now, upkeep does. So a
   * failure is not the caller's: "certainly not done" would be a lie.
   */
  async #drain(key: Key<SessionRecord>): Promise<void> {
    try {
      for (let more = true; more; )
        more = (
          await this.steps.run(
            [key],
            (view, successors) => decideDrainSession(view, key, this.policy, successors),
            (drained) => drained.heirs,
          )
        ).more;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
  }
}
