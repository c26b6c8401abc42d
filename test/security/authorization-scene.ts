// What the authorization tests fight over: things that a victim holds in the space `default`, the same names held by
// somebody else in the space `other`, and every kind of caller that may come for them.
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { type Body, fresh, ok, send, type TokenBody } from "../http-api.js";
import { adminToken as operator, type Server } from "../server.js";

export const elsewhere = "other";

export type Role = "open" | "observer" | "worker" | "admin" | "operator";

export interface Caller {
  /** Undefined: sends none. */
  readonly token?: string;
  /** Undefined: the token is good for nothing. */
  readonly role?: Role;
  /** May touch only names that the victim has none of. */
  readonly otherScope?: true;
  /** Acts in the space `other`. */
  readonly isElsewhere?: true;
  /** Belongs to another space and names the victim's. */
  readonly reaches?: true;
  readonly headers?: Record<string, string>;
}

/** What the victim has; all ids are its secrets, used here as if they had been stolen. */
export interface Scene {
  /** Acquired as a lock, with a request id. */
  readonly lock: Body;
  /** Acquired as a lock, bound to the session. */
  readonly bound: Body;
  /** Claimed as a job, with a request id. */
  readonly job: Body;
  /** A node that the victim is on, claimed with a request id; an edge leads from it to the linked one. */
  readonly node: string;
  readonly linked: string;
  readonly nodeRevision: number;
  readonly nodeRequest: string;
  readonly sessionId: string;
  readonly lockRequest: string;
  readonly jobRequest: string;
  /** Stands in the metadata and labels of all the victim's leases, and nowhere else. */
  readonly marker: string;
  /** A bearer token of the space, by its id. */
  readonly tokenId: string;
  /** Ids that prove a lease or a session. */
  readonly proofs: readonly string[];
  readonly bearers: readonly string[];
}

export class Stage {
  victim = "";
  callers: Readonly<Record<string, Caller>> = {};
  #native = "";
  /** Somebody else of the other space: on nodes, one person's callers are all the same. */
  #neighbour = "";

  constructor(readonly server: Server) {}

  async make(body: object): Promise<TokenBody> {
    const full = { name: fresh("caller"), ...body };
    return ok<TokenBody>(this.server, "createToken", { token: operator, body: full });
  }

  async prepare(): Promise<void> {
    const { server } = this;
    const token = async (body: object): Promise<string> => (await this.make(body)).token;
    const scopes = ["outside-*", "path:vault"];
    const admin = { role: "admin" };
    this.victim = await token({ name: "victim" });
    this.#native = await token({ role: "admin", space: elsewhere });
    this.#neighbour = await token({ space: elsewhere });
    const [revoked, rotated] = [await this.make(admin), await this.make(admin)];
    const expired = await this.make({ ...admin, expires_in_seconds: 1 });
    await ok(server, "revokeToken", { token: operator, name: revoked.id });
    await ok(server, "rotateToken", { token: operator, name: rotated.id });
    const swapped = this.victim.endsWith("0") ? "1" : "0";
    this.callers = {
      "without a token": {},
      "with an unknown token": { token: "nobody-knows-this" },
      "with a mistyped token": { token: `${this.victim.slice(0, -1)}${swapped}` },
      "with half a token": { token: this.victim.slice(0, 20) },
      "with a token's hash": { token: "0".repeat(64) },
      "with another scheme": { headers: { authorization: `Basic ${btoa(`victim:${this.victim}`)}` } },
      "with two tokens in one": { headers: { authorization: `Bearer ${this.victim}, Bearer ${operator}` } },
      "with a revoked token": { token: revoked.token },
      "with a rotated token": { token: rotated.token },
      "with an expired token": { token: expired.token },
      "an observer": { token: await token({ role: "observer" }), role: "observer" },
      "a worker": { token: await token({}), role: "worker" },
      "a reentrant worker": { token: await token({ reentrant: true }), role: "worker" },
      "an admin": { token: await token(admin), role: "admin" },
      "the operator": { token: operator, role: "operator" },
      "an observer of other names": {
        token: await token({ role: "observer", scopes }),
        role: "observer",
        otherScope: true,
      },
      "a worker of other names": { token: await token({ scopes }), role: "worker", otherScope: true },
      "an admin of other names": {
        token: await token({ ...admin, scopes }),
        role: "admin",
        otherScope: true,
      },
      "an admin of another space": { token: this.#native, role: "admin", isElsewhere: true },
      "an admin of another space that names this one": {
        token: this.#native,
        role: "admin",
        reaches: true,
        headers: { "holdfast-space": "default" },
      },
      "the operator in another space": {
        token: operator,
        role: "operator",
        isElsewhere: true,
        headers: { "holdfast-space": elsewhere },
      },
    };
    while (Date.now() <= Date.parse(expired.expires_at ?? "")) await delay(20);
  }

  /** New things of the victim, and the same names in the other space. */
  async scene(): Promise<Scene> {
    const { server, victim: token } = this;
    const stem = fresh("path:vault/caf\u00e9");
    const marker = fresh("treasure");
    const [lockRequest, jobRequest] = [fresh("lock-request"), fresh("job-request")];
    const long = { ttl_seconds: 3600, metadata: marker };
    const { session_id } = await ok(server, "createSession", { token, body: { ttl_seconds: 3600 } });
    const [lock, bound, job, { id, token: secret }] = await Promise.all([
      ok(server, "acquireLock", { token, name: `${stem}/lock`, body: { ...long, request_id: lockRequest } }),
      ok(server, "acquireLock", { token, name: `${stem}/bound`, body: { session_id, metadata: marker } }),
      ok(server, "claimJob", {
        token,
        name: `${stem}/job`,
        body: { ...long, owner: marker, request_id: jobRequest },
      }),
      this.make({}),
      ...["lock", "bound", "job"].map((last) =>
        ok(server, "acquireLock", {
          token: this.#native,
          name: `${stem}/${last}`,
          body: { ttl_seconds: 3600 },
        }),
      ),
    ]);
    const graph = await this.#graph(marker);
    return {
      ...graph,
      lock,
      bound,
      job,
      sessionId: session_id,
      lockRequest,
      jobRequest,
      marker,
      tokenId: id,
      proofs: [lock.lease_id, bound.lease_id, job.lease_id, session_id],
      bearers: [secret, this.victim],
    };
  }

  /** A node of the victim's with an edge to another, and the same of somebody else in the other space. */
  async #graph(marker: string): Promise<Pick<Scene, "node" | "linked" | "nodeRevision" | "nodeRequest">> {
    const { server } = this;
    const [node, nodeRequest] = [fresh("vault"), fresh("node-request")];
    const linked = `${node}-linked`;
    const make = async (token: string, title: string): Promise<number> => {
      for (const id of [node, linked])
        await ok(server, "createNode", { token, body: { id, type: "task", title } });
      await ok(server, "addEdge", { token, name: node, body: { type: "relates-to", to: linked } });
      await ok(server, "claimNode", { token, name: node, body: { request_id: nodeRequest } });
      return (await ok<{ revision: number }>(server, "getNode", { token, name: node })).revision;
    };
    const [nodeRevision] = await Promise.all([make(this.victim, marker), make(this.#neighbour, "another")]);
    return { node, linked, nodeRevision, nodeRequest };
  }

  /** All that a call upon the scene could have changed, but for what time changes. */
  async world({ lock, marker, sessionId, node }: Scene): Promise<string> {
    const look = async (path: string, token = operator): Promise<string> => {
      const { status, text } = await send(this.server, "GET", path, { token });
      assert.equal(status, 200, `${path}: ${text}`);
      return text.replaceAll(/"expires_in_ms":\d+/g, "").replaceAll(/\},\{/g, "},\n{");
    };
    const below = encodeURIComponent(lock.name.replace(/lock$/, ""));
    const seen = await Promise.all([
      look(`/locks?prefix=${below}`),
      look(`/jobs?prefix=${below}`),
      look(`/locks?prefix=outside-${marker}`),
      look("/tokens"),
      look("/audit?limit=1000"),
      look(`/sessions/${sessionId}`, this.victim),
      look(`/v1/nodes?prefix=${node}`),
      look(`/v1/nodes/${node}/history`),
      look("/v1/policy"),
    ]);
    return seen.join("\n");
  }
}
