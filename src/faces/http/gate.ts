/**
 * What stands before every handler: who calls, whether the role allows the route, how often, and whether the
 * server has room. Under overload the cheap refusals come first, and those that keep live work alive come last.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Role } from "../../core/records.js";
import { isMistyped } from "../../service/bearer.js";
import { hasRole, type Identity } from "../../service/identity.js";
import type { Tokens } from "../../service/tokens.js";
import type { Load } from "../../wire/routes.js";
import { Busy, problem, refuse } from "./answer.js";
import { Crowd } from "./crowd.js";
import type { GateLimits } from "./gate-limits.js";

const spaceHeader = "holdfast-space";
const bearerPattern = /^Bearer ([\x21-\x7e]{1,512})$/i;

/** Refills continuously; a second's worth may come at once. */
class Bucket {
  #tokens: number;
  #at: number;
  constructor(readonly rate: number) {
    this.#tokens = rate;
    this.#at = performance.now();
  }

  /** Milliseconds to wait, 0 if it may go. */
  take(): number {
    const now = performance.now();
    this.#tokens = Math.min(this.rate, this.#tokens + ((now - this.#at) * this.rate) / 1000);
    this.#at = now;
    if (this.#tokens >= 1) {
      this.#tokens--;
      return 0;
    }
    return Math.ceil(((1 - this.#tokens) * 1000) / this.rate);
  }
}

export class Gate {
  readonly #buckets = new Map<string, Bucket>();
  readonly #seen = new WeakMap<object, { readonly header: string; readonly identity: Identity }>();
  readonly #timer: NodeJS.Timeout;
  /** When the first request of this turn of the event loop arrived; 0 between turns. */
  #turnAt = 0;
  readonly #endTurn = (): void => {
    this.#turnAt = 0;
  };
  readonly #crowd = new Crowd();
  #lagMs = 0;
  inWork = 0;
  refused = 0;
  /** From now on only those who look after the server get in. */
  isStopping = false;

  constructor(
    readonly tokens: Tokens,
    readonly limits: GateLimits,
  ) {
    const periodMs = 20;
    let last = performance.now();
    let before = 0;
    this.#timer = setInterval(() => {
      const now = performance.now();
      const lag = Math.max(0, now - last - periodMs);
      // Two in a row: one pause (a start, a collection) is no overload. It falls slowly: one short gap does not end one.
      const sustained = Math.min(lag, before);
      this.#lagMs = sustained > this.#lagMs ? sustained : this.#lagMs * 0.8;
      before = lag;
      last = now;
    }, periodMs).unref();
  }

  get lagMs(): number {
    return this.#lagMs;
  }

  /** Refuses when there is no room for this kind of request. */
  admit(load: Load): void {
    if (this.isStopping && load !== "operate")
      refuse("unavailable", "The server is stopping: certainly not done. Try again shortly.", {
        retryAfterMs: 1000,
      });
    const { inWorkMax, lagMaxMs, turnMaxMs } = this.limits;
    const now = performance.now();
    if (this.#turnAt === 0) {
      this.#turnAt = now;
      setImmediate(this.#endTurn);
    }
    const isRoom =
      this.inWork < inWorkMax[load] && this.#lagMs < lagMaxMs[load] && this.#isUncrowded(load, now);
    if (isRoom && now - this.#turnAt < turnMaxMs[load]) return;
    this.refused++;
    throw new Busy(
      problem(
        "unavailable",
        "The server is busy and keeps its strength for leases that are held. Try again shortly.",
        { retryAfterMs: 200 + Math.floor(Math.random() * 800) },
      ),
    );
  }

  #isUncrowded(load: Load, now: number): boolean {
    if (load === "keep" || load === "operate" || this.inWork < this.limits.crowdMin) return true;
    return this.#crowd.meet(now) < this.limits.crowdMs;
  }

  /** The caller, or a refusal that says what is wrong with its token. */
  identify(socket: object, headers: IncomingHttpHeaders): Identity {
    const header = headers.authorization;
    const before = this.#seen.get(socket);
    // The same words on the same connection as a moment ago: no need to hash them again.
    if (before !== undefined && before.header === header && this.tokens.isCurrent(before.identity))
      return before.identity;
    if (header === undefined)
      return refuse(
        "authentication_required",
        "Send the header Authorization: Bearer <token>. An admin makes tokens with: holdfast token create --name NAME",
      );
    const token = bearerPattern.exec(header)?.[1];
    if (token === undefined)
      return refuse("authentication_failed", "The Authorization header must be: Bearer <token>");
    const identity = this.tokens.identify(token);
    if (identity !== null) {
      this.#seen.set(socket, { header, identity });
      return identity;
    }
    return refuse(
      "authentication_failed",
      isMistyped(token)
        ? "This token was mistyped or cut off: copy it again."
        : "This token is unknown, revoked or expired. Ask an admin for a new one.",
    );
  }

  /** The token may have come to its end since it was looked at. */
  requireCurrent(identity: Identity): void {
    if (!this.tokens.isCurrent(identity))
      refuse("authentication_failed", "This token was revoked or expired while the request arrived.");
  }

  requireRole(identity: Identity, least: Role): void {
    if (!hasRole(identity, least))
      refuse("forbidden", `This needs the role ${least}; ${identity.principal} is ${identity.role}.`);
  }

  /** The space that the call acts in. */
  spaceOf(identity: Identity, headers: IncomingHttpHeaders): string {
    const named = headers[spaceHeader];
    if (named === undefined || named === identity.space) return identity.space;
    if (typeof named !== "string" || !/^[A-Za-z0-9._-]{1,64}$/.test(named))
      return refuse("invalid_input", "Holdfast-Space must be 1 to 64 of A-Z a-z 0-9 . _ -");
    if (!hasRole(identity, "operator"))
      return refuse(
        "forbidden",
        `This token acts in the space ${identity.space} only; the operator's token may name another.`,
      );
    return named;
  }

  limitRate(identity: Identity): void {
    const rate = this.limits.ratePerSecond;
    if (rate === null) return;
    let bucket = this.#buckets.get(identity.tokenId);
    if (bucket === undefined) {
      bucket = new Bucket(rate);
      this.#buckets.set(identity.tokenId, bucket);
      identity.revoked.addEventListener("abort", () => this.#buckets.delete(identity.tokenId), {
        once: true,
      });
    }
    const waitMs = bucket.take();
    if (waitMs > 0)
      refuse(
        "rate_limited",
        `This token may send ${rate} requests a second. Slow down, or use bulk heartbeats and sessions.`,
        {
          retryAfterMs: waitMs,
        },
      );
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
