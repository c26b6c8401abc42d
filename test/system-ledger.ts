// What clients were told, kept beside the server so that it can be held to it after a crash: every grant, renewal
// and release that was acknowledged, and every call whose reply was lost.
import assert from "node:assert/strict";
import type { Body, Client } from "./system-client.js";

/** Both clocks round, and the shown time may follow the wall clock by this much. */
const roundingMs = 100;

export interface Lease {
  readonly client: Client;
  readonly name: string;
  readonly leaseId: string;
  readonly token: number;
  readonly request: Request | null;
  /** The latest end that was promised. */
  expiresAt: number;
}

/** What must be sent again, exactly so, to learn what became of it. */
export interface Request {
  readonly client: Client;
  readonly name: string;
  readonly body: { readonly request_id: string; readonly ttl_seconds: number };
}

export class Ledger {
  /** Acknowledged, and nothing was sent that may have ended it. */
  readonly held = new Map<string, Lease>();
  /** The release was acknowledged. */
  readonly released: Lease[] = [];
  /** A release was sent and no reply came. */
  readonly maybeReleased: Lease[] = [];
  /** A claim with a request id was sent and no reply came. */
  readonly lost: Request[] = [];
  /** Every grant that was acknowledged. */
  readonly grants: Lease[] = [];
  readonly secrets = new Set<string>();
  readonly #tokens = new Map<string, number>();
  acknowledged = 0;

  /** The highest token seen so far; a grant that begins now must be above it. */
  tokenOf = (name: string): number => this.#tokens.get(name) ?? 0;

  granted(client: Client, name: string, body: Body, tokenBefore: number, request: Request | null): Lease {
    this.acknowledged++;
    assert.ok(
      body.fencing_token > tokenBefore,
      `${name}: token ${body.fencing_token} granted after ${tokenBefore}`,
    );
    this.#tokens.set(name, Math.max(this.tokenOf(name), body.fencing_token));
    this.secrets.add(body.lease_id);
    const lease: Lease = {
      client,
      name,
      leaseId: body.lease_id,
      token: body.fencing_token,
      request,
      expiresAt: Date.parse(body.expires_at),
    };
    this.held.set(lease.leaseId, lease);
    this.grants.push(lease);
    return lease;
  }

  async acquire(
    client: Client,
    name: string,
    ttl_seconds: number,
    request_id?: string,
  ): Promise<Lease | null> {
    const tokenBefore = this.tokenOf(name);
    const request = request_id === undefined ? null : { client, name, body: { ttl_seconds, request_id } };
    try {
      const { status, body } = await client.acquire(name, request?.body ?? { ttl_seconds });
      assert.equal(status, 200, JSON.stringify(body));
      if (body.status === "acquired") return this.granted(client, name, body, tokenBefore, request);
      this.acknowledged++;
      return null;
    } catch (error) {
      if (request !== null) this.lost.push(request);
      throw error;
    }
  }

  async renew(lease: Lease): Promise<void> {
    const { status, body } = await lease.client.renew(lease.name, lease.leaseId);
    assert.equal(status, 200, `${lease.name}: ${JSON.stringify(body)}`);
    assert.equal(body.fencing_token, lease.token, "a renewal keeps the token");
    this.acknowledged++;
    this.#promise(lease, body);
  }

  async release(lease: Lease): Promise<void> {
    this.held.delete(lease.leaseId);
    try {
      const { status, body } = await lease.client.release(lease.name, lease.leaseId);
      assert.equal(status, 200, JSON.stringify(body));
      this.acknowledged++;
      this.released.push(lease);
    } catch (error) {
      this.maybeReleased.push(lease);
      throw error;
    }
  }

  #promise(lease: Lease, body: Body): void {
    const expiresAt = Date.parse(body.expires_at);
    assert.ok(
      expiresAt >= lease.expiresAt - roundingMs,
      `${lease.name}: shortened from ${lease.expiresAt} to ${expiresAt}`,
    );
    lease.expiresAt = Math.max(lease.expiresAt, expiresAt);
  }

  /** Every acknowledged lease stands with its token, and no shorter. `locks` is what the server lists. */
  checkHeld(locks: ReadonlyMap<string, Body>): void {
    for (const lease of this.held.values()) {
      const lock = locks.get(lease.name);
      assert.ok(lock !== undefined, `${lease.name} is gone`);
      assert.equal(lock.fencing_token, lease.token, `${lease.name}: another lease`);
      this.#promise(lease, lock);
      const left = lease.expiresAt - Date.now();
      assert.ok(
        Math.abs(lock.expires_in_ms - left) < 1000,
        `${lease.name}: ${lock.expires_in_ms} for ${left}`,
      );
    }
  }

  /** Nothing that was released came back. */
  checkReleased(locks: ReadonlyMap<string, Body>): void {
    for (const { name, token } of this.released) {
      const lock = locks.get(name);
      assert.ok(lock === undefined || lock.fencing_token > token, `${name}: token ${token} was revived`);
    }
  }

  /** The same lease comes back for the same request id. */
  async checkRepeat(lease: Lease): Promise<void> {
    if (lease.request === null) return;
    const { status, body } = await lease.client.acquire(lease.name, lease.request.body);
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body.lease_id, body.fencing_token], [lease.leaseId, lease.token], lease.name);
  }

  /** Sends again what got no reply: each gets a definite answer, and the same one however often it is asked. */
  async settleLost(): Promise<number> {
    const found: Lease[] = [];
    for (const request of this.lost.splice(0)) {
      const { client, name } = request;
      const tokenBefore = this.tokenOf(name);
      const { status, body } = await client.acquire(name, request.body);
      assert.equal(status, 200, JSON.stringify(body));
      if (body.status === "acquired") found.push(this.granted(client, name, body, tokenBefore, request));
    }
    for (const lease of found) await this.checkRepeat(lease);
    for (const { client, name, leaseId } of this.maybeReleased.splice(0)) {
      const { status, body } = await client.release(name, leaseId);
      assert.ok(status === 200 || body.code === "lease_not_current", JSON.stringify(body));
    }
    return found.length;
  }
}
