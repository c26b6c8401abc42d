// How the tests of the work graph speak to a server: by route id and with every reply checked against its row, as
// http-api does, with the fields that they read typed. The policy here has types for what takes too long otherwise.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RouteId } from "../src/wire/routes.js";
import { type Call, call, eventually, fresh, ok, type Target, type TokenBody } from "./http-api.js";
import { adminToken, type Server, type ServerOptions, startServer, temporaryDir } from "./server.js";

export const one = "secret-a"; // runner-1
export const two = "secret-b"; // runner-2
export const viewer = "secret-v";

export interface Lease {
  node_id: string;
  by: string;
  expires: number;
  expires_at: string;
  expires_in_ms: number;
  session: string | null;
  claimed_at: string;
  token: number;
  reserved?: true;
}

export interface Edge {
  type: string;
  to: string;
  at: string;
  by: string;
}

export interface Node {
  id: string;
  type: string;
  title: string;
  summary?: string;
  status: string;
  priority?: string;
  project?: string;
  created_at: string;
  updated_at: string;
  revision: number;
  edges: Edge[];
  blocked_by: string[];
  blockers_hidden?: number;
  reclaims: number;
  lease?: Lease;
  parked?: { at: string; reason: string; carriers: { by: string; token: number }[] };
  why: string[];
}

export interface Entry {
  seq: number;
  what: string;
  at: string;
  by: string;
  token: number | null;
  session?: string;
  reason?: string;
  status?: { from: string; to: string };
  edge?: { type: string; to?: string };
  from?: { by: string; token: number | null };
}

/** Any success of a lease route. */
export interface Done {
  ok: boolean;
  status: string;
  lease: Lease;
  edge: string;
  node_id: string;
  node: Node;
  hidden: number;
  capped_to_max?: true;
  claim_ttl_max_ms?: number;
  grace_window_ms: number;
}

export interface Refusal {
  error: { code: string; message: string; details: Record<string, unknown> };
  holder?: Lease;
}

export interface Result extends Partial<Done>, Partial<Refusal> {
  id: string;
}

/** `brief` runs out after a second, is parked once it was lost twice; a `note` is no work. */
export const testPolicy = {
  types: {
    task: { statuses: { open: "planned", active: "active", done: "terminal", abandoned: "terminal" } },
    issue: { statuses: { open: "planned", active: "active", resolved: "terminal" } },
    brief: {
      statuses: { open: "planned", active: "active", done: "terminal" },
      claim_ttl_ms: 1000,
      claim_ttl_max_ms: 60_000,
      reserve_grace_ms: 120_000,
      reclaims_max: 1,
    },
    note: { statuses: { kept: "terminal" } },
  },
};

/** A server with that policy in its configuration. */
export async function startGraphServer(options: ServerOptions = {}): Promise<Server> {
  const file = join(temporaryDir("holdfast-policy-"), "policy.json");
  writeFileSync(file, JSON.stringify(testPolicy));
  return startServer({ ...options, env: { HOLDFAST_POLICY_FILE: file, ...options.env } });
}

/** Calls on the work graph, by one who does and one who looks unless said otherwise. */
export class Graph {
  constructor(
    readonly server: () => Target,
    readonly self = one,
    readonly reader = viewer,
  ) {}

  /** Creates a node and returns its id. */
  async create(more: object = {}, token = this.self): Promise<string> {
    const body = { id: fresh("node"), type: "task", title: "a title", ...more };
    return (await ok<Node>(this.server(), "createNode", { token, body })).id;
  }

  /** A call on one node that must succeed. */
  async do<B = Done>(
    route: RouteId,
    id: string,
    body: object = {},
    token = this.self,
    more: Call = {},
  ): Promise<B> {
    return ok<B>(this.server(), route, { token, name: id, body, ...more });
  }

  claim(id: string, body: object = {}, token = this.self): Promise<Done> {
    return this.do("claimNode", id, body, token);
  }

  /** A call on one node that must be refused. */
  async refused(
    route: RouteId,
    id: string,
    body: object,
    status: number,
    code: string,
    token = this.self,
  ): Promise<Refusal> {
    const answered = await call<Refusal>(this.server(), route, { token, name: id, body });
    assert.deepEqual([answered.status, answered.body.error?.code], [status, code], answered.text);
    return answered.body;
  }

  look(id: string, token = this.reader): Promise<Node> {
    return ok<Node>(this.server(), "getNode", { token, name: id });
  }

  async history(id: string): Promise<Entry[]> {
    const page = await ok<{ history: Entry[] }>(this.server(), "nodeHistory", {
      token: this.reader,
      name: id,
    });
    return page.history;
  }

  /** Its history as words: who did what. */
  async story(id: string): Promise<string[]> {
    return (await this.history(id)).map(({ what, by, token }) =>
      [by, what, ...(token === null ? [] : [token])].join(" "),
    );
  }

  next(body: object = {}, token = this.self, more: Call = {}): Promise<Done> {
    return ok<Done>(this.server(), "nextWork", { token, body, ...more });
  }

  async queue(query: Record<string, string>, token = this.self): Promise<{ items: Node[]; hidden?: number }> {
    return ok(this.server(), "listQueue", { token, query });
  }

  /** Resolves once the lease has run out, and somebody saw to it. */
  async lapsed(id: string): Promise<Node> {
    let seen: Node | undefined;
    await eventually(async () => {
      seen = await this.look(id);
      assert.equal(seen.lease, undefined);
    });
    return seen as Node;
  }
}

export interface Crew {
  readonly ann: string;
  readonly bob: string;
  readonly graph: Graph;
}

/** Two people in a space of their own, and the graph as ann sees it. */
export async function crew(server: Server, scopes: readonly string[] = ["*"]): Promise<Crew> {
  const space = fresh("space");
  const make = async (name: string): Promise<string> => {
    const body = { name, space, scopes: name === "bob" ? scopes : ["*"] };
    return (await ok<TokenBody>(server, "createToken", { token: adminToken, body })).token;
  };
  const [ann, bob] = [await make("ann"), await make("bob")];
  return { ann, bob, graph: new Graph(() => server, ann, ann) };
}
