// The authorization matrix: every operation of the served API document, asked for by every kind of caller in every
// way to name what belongs to another. Who may not, gets the refusal that the row says, learns nothing, and has
// changed nothing; and the same requests succeed for who may, so that no refusal is for another reason.
import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { after, before, describe, test } from "node:test";
import { routeIds } from "../../src/wire/route.js";
import {
  type Answered,
  assertReply,
  type Body,
  type Call,
  codeOf,
  fresh,
  ok,
  pathOf,
  routeOf,
  send,
} from "../http-api.js";
import { adminToken as operator, type Server, startServer } from "../server.js";
import {
  type Outcome,
  type Outcomes,
  type Row,
  rows,
  showing,
  type Way,
  ways,
} from "./authorization-rows.js";
import { type Caller, type Role, type Scene, Stage } from "./authorization-scene.js";
import { assertQuietLog, assertSound, staticSecrets } from "./soundness.js";

interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly access: string;
  readonly isSecured: boolean;
}

interface Documented {
  readonly operationId: string;
  readonly "x-access": string;
  readonly security: readonly object[];
}

let server: Server;
let stage: Stage;
let operations: readonly Operation[] = [];

before(async () => {
  // A refusal because this machine is busy would say nothing about who may do what.
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: "off" } });
  stage = new Stage(server);
  await stage.prepare();
  const { body } = await send(server, "GET", "/openapi.json");
  const { paths } = body as unknown as { paths: Record<string, Record<string, Documented>> };
  operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, documented]) => ({
      id: documented.operationId,
      method: method.toUpperCase(),
      path,
      access: documented["x-access"],
      isSecured: documented.security.length > 0,
    })),
  );
});
after(async () => {
  await server.stop();
  assertQuietLog(server);
});

const operationOf = (id: string): Operation =>
  operations.find((each) => each.id === id) ?? assert.fail(`the document has no operation ${id}`);

/** Whose things they are. */
const itself = "the owner";

const rank: Record<Role, number> = { open: -1, observer: 0, worker: 1, admin: 2, operator: 3 };

/** What the contract says this caller gets. */
function expected(id: string, row: Row, way: Way, caller: Caller): Outcome {
  const at = (column: keyof Outcomes): Outcome => way[column] ?? row[column];
  if (row.role === "open") return row.owner;
  const unauthorized = (code: string): Outcome =>
    `401 ${operationOf(id).path.startsWith("/v1/") ? "unauthorized" : code}`;
  if (caller.token === undefined && caller.headers === undefined)
    return id === "metrics" ? "200" : unauthorized("authentication_required");
  if (caller.role === undefined) return unauthorized("authentication_failed");
  if (rank[caller.role] < rank[row.role] || caller.reaches) return "403 forbidden";
  if (caller.otherScope) return at("outOfScope");
  if (!caller.isElsewhere) return at("stranger");
  return (caller.role === "operator" ? way.operatorElsewhere : undefined) ?? at("elsewhere");
}

/** The caller that must succeed, lest all others be refused for another reason. */
function owner(row: Row): Caller {
  if (row.role === "operator") return { token: operator };
  if (row.role === "admin") return stage.callers["an admin"] ?? {};
  return { token: stage.victim };
}

async function ask(operation: Operation, { call }: Way, caller: Caller): Promise<Answered> {
  const full: Call = { ...call, token: caller.token, headers: { ...caller.headers, ...call.headers } };
  const path = pathOf(routeOf(operation.id as (typeof routeIds)[number]), full);
  const reply = await (operation.path.endsWith("/watch")
    ? glance(path, full)
    : send(server, operation.method, path, full));
  const isText = reply.headers["content-type"]?.startsWith("application/json") || reply.status >= 400;
  if (isText || reply.text === "") assertReply(routeOf(operation.id as (typeof routeIds)[number]), reply);
  return reply;
}

/** A stream never ends by itself: what is told up to the end of its snapshot. */
function glance(path: string, { token, headers = {} }: Call): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options = { host: "127.0.0.1", port: server.port, path, headers: { ...authorization, ...headers } };
    const sent = httpRequest({ ...options, agent: false }, (response) => {
      let text = "";
      const done = (): void => {
        const isJson = /json/.test(response.headers["content-type"] ?? "");
        const { headers: received, statusCode: status = 0 } = response;
        resolve({ status, headers: received, text, body: isJson ? JSON.parse(text) : text });
        sent.destroy();
      };
      response.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        if (text.includes("event: synced")) done();
      });
      response.once("end", done);
    });
    sent.on("error", reject).end();
  });
}

/** What a bulk call on nodes says of one of them. */
interface Result {
  readonly status?: string;
  readonly error?: { readonly code: string };
}

/** Status and word of a reply, as outcomes are written. */
function told(reply: Answered): string {
  const { status, body } = reply;
  const bulk = body?.renewed === undefined ? undefined : body.renewed.length > 0 ? "renewed" : "lost";
  const [first] = (body as unknown as { results?: Result[] })?.results ?? [];
  const word = codeOf(reply) ?? bulk ?? first?.error?.code ?? first?.status ?? body?.status;
  return `${status}${typeof word === "string" ? ` ${word}` : ""}`;
}

function assertOutcome(outcome: Outcome, reply: Answered, what: string): void {
  const wanted = outcome.replace("+", "");
  const got = told(reply);
  assert.ok(
    got === wanted || got.startsWith(`${wanted} `),
    `${what}: ${got}, not ${wanted}: ${reply.text.slice(0, 400)}`,
  );
}

const bearersOf = ({ bearers }: Scene): string[] => [...staticSecrets, ...bearers];
const secretsOf = (scene: Scene): string[] => [...bearersOf(scene), ...scene.proofs];

/** Whoever is not the owner learns no secret; who must not see the victim's things sees none of them. */
function assertBlind(reply: Answered, way: Way, caller: Caller, scene: Scene, what: string): void {
  const asked = JSON.stringify(way.call);
  // A backup holds the leases, so it is the operator's; bearer tokens are not even there.
  const isBackup = reply.headers["content-type"] === "application/octet-stream";
  assertSound(reply, asked, isBackup ? bearersOf(scene) : secretsOf(scene));
  if (isBackup) return;
  const isRefused = [401, 403, 404].includes(reply.status);
  const isHidden = isRefused || caller.otherScope || caller.isElsewhere || caller.role === undefined;
  if (isHidden && !asked.includes(scene.marker))
    assert.ok(!reply.text.includes(scene.marker), `${what} shows it: ${reply.text}`);
  if (caller.isElsewhere && caller.role !== "operator")
    assert.ok(!reply.text.includes('"victim"'), `${what} shows the victim: ${reply.text}`);
}

/** Those who may change nothing come all at once, upon one scene; then each of the others upon its own. */
async function tryWay(id: string, row: Row, nth: number): Promise<void> {
  const operation = operationOf(id);
  const wayIn = (scene: Scene): Way => ways[id]?.(scene)[nth] ?? assert.fail(`${id} has no way ${nth}`);
  const outcomeOf = (way: Way, who: string, caller: Caller): Outcome =>
    who === itself ? (way.owner ?? row.owner) : expected(id, row, way, caller);
  const knock = async (scene: Scene, [who, caller]: readonly [string, Caller]): Promise<void> => {
    const way = wayIn(scene);
    const what = `${who}: ${operation.method} ${operation.path} by ${way.way}`;
    const reply = await ask(operation, way, caller);
    assertOutcome(outcomeOf(way, who, caller), reply, what);
    if (who !== itself) assertBlind(reply, way, caller, scene, what);
    else if (showing.has(id)) assert.ok(reply.text.includes(scene.marker), `${what} shows nothing`);
  };
  const shared = await stage.scene();
  // Who has no good token is stopped before anything is named: one way is tried by all of them, the others by two.
  const stopped = Object.keys(stage.callers).filter((who) => stage.callers[who]?.role === undefined);
  const left = nth === 0 ? [] : stopped.slice(2);
  const comers = Object.entries(stage.callers).filter(([who]) => !left.includes(who));
  const all = [...comers, [itself, owner(row)] as const];
  const isDoing = ([who, caller]: readonly [string, Caller]): boolean =>
    outcomeOf(wayIn(shared), who, caller).startsWith("+");
  const world = await stage.world(shared);
  await Promise.all(all.filter((each) => !isDoing(each)).map((each) => knock(shared, each)));
  assert.equal(await stage.world(shared), world, `${id} by ${wayIn(shared).way} changed something`);
  await Promise.all(all.filter(isDoing).map(async (each) => knock(await stage.scene(), each)));
}

describe("the document and the table", () => {
  test("every operation has a row, and every row an operation", () => {
    const documented = operations.map(({ id }) => id).toSorted();
    assert.deepEqual(documented, Object.keys(rows).toSorted());
    assert.deepEqual(documented, Object.keys(ways).toSorted());
    assert.deepEqual(documented, [...routeIds].toSorted());
  });

  test("the document says who may call, as the rows do", () => {
    for (const { id, access, isSecured } of operations) {
      assert.equal(access, rows[id]?.role, id);
      assert.equal(isSecured, rows[id]?.role !== "open", id);
    }
  });
});

describe("every operation, every caller, every way to name what is another's", () => {
  for (const [id, row] of Object.entries(rows))
    test(`${id} (${row.role})`, async () => {
      const { length } = ways[id]?.(await stage.scene()) ?? [];
      for (let nth = 0; nth < length; nth++) await tryWay(id, row, nth);
    });
});

describe("around the table", () => {
  const spellings: readonly (readonly [string, (path: string) => string])[] = [
    ["a slash before it", (path) => `/${path}`],
    ["a slash behind it", (path) => `${path}/`],
    ["its first letter encoded", (path) => `/%${path.charCodeAt(1).toString(16)}${path.slice(2)}`],
    ["capitals", (path) => path.toUpperCase()],
    ["a dot segment", (path) => `/.${path}`],
    ["a detour", (path) => `/health/..${path}`],
    ["a parameter", (path) => `${path};role=admin`],
    ["a whole URL", (path) => `http://127.0.0.1${path}`],
  ];

  test("another spelling of an operation's path opens nothing", async () => {
    const scene = await stage.scene();
    const world = await stage.world(scene);
    for (const { id, method, path } of operations.filter(({ isSecured }) => isSecured))
      for (const [what, spell] of spellings) {
        const target = spell(path.replace(/\{\w+\}/, encodeURIComponent(scene.lock.name)));
        const reply = await send(server, method, target, { body: { lease_id: scene.lock.lease_id } });
        const isOpen = id === "metrics" && reply.status === 200;
        assert.ok(
          isOpen || [400, 401, 404, 405].includes(reply.status),
          `${what}: ${method} ${target}: ${reply.status}`,
        );
        assertSound(reply, target, secretsOf(scene));
      }
    assert.equal(await stage.world(scene), world);
  });

  test("nor does another method, or a header that claims to be one", async () => {
    const scene = await stage.scene();
    const world = await stage.world(scene);
    const claims = {
      "x-http-method-override": "DELETE",
      "x-original-url": "/tokens",
      "x-rewrite-url": "/tokens",
      "x-forwarded-user": "operator",
      "x-principal": "victim",
      cookie: `token=${operator}`,
    };
    for (const { path } of operations)
      for (const method of ["HEAD", "PUT", "PATCH", "OPTIONS", "TRACE"]) {
        const target = path.replace(/\{\w+\}/, encodeURIComponent(scene.lock.name));
        const reply = await send(server, method, target, { headers: claims });
        assertSound(reply, JSON.stringify(claims));
        const { isSecured } = operations.find((each) => each.path === path && each.method === "GET") ?? {};
        if (isSecured && path !== "/metrics")
          assert.ok(reply.status >= 400, `${method} ${path}: ${reply.status}`);
      }
    const token = stage.callers["a worker"]?.token;
    const reply = await send(server, "GET", `/tokens?access_token=${operator}`, { token, headers: claims });
    assert.deepEqual([reply.status, reply.body.code], [403, "forbidden"]);
    assert.equal(await stage.world(scene), world);
  });

  test("a cursor tells no name that its caller may not see", async () => {
    const stem = fresh("cursor");
    const names = ["a-open", "b-hidden", "c-open", "d-hidden", "e-hidden", "f-open"].map(
      (end) => `${stem}-${end}`,
    );
    for (const name of names) await ok(server, "acquireLock", { token: stage.victim, name });
    const { token } = await stage.make({ role: "observer", scopes: [`${stem}-*-open`] });
    for (const id of ["listLocks", "listJobs"] as const) {
      const seen: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const page: Body = await ok(server, id, { token, query: { prefix: stem, limit: "1", cursor } });
        seen.push(...(page.locks ?? page.jobs).map(({ name, job_id }) => name ?? job_id));
        cursor = page.next_cursor;
        assert.doesNotMatch(Buffer.from(cursor ?? "", "base64url").toString(), /hidden/);
      }
      assert.deepEqual(
        seen,
        names.filter((name) => name.endsWith("open")),
      );
    }
  });
});
