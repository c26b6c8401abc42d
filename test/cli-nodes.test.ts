// `holdfast node` against a server: a graph is made, drained and looked at from scripts; who is refused learns who has it
// and until when; a loop over `next` ends where there is nothing to do.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { createClient } from "../src/client/entry.js";
import { eventually, jsonOf, type Lab, openLab } from "./cli-lab.js";
import { adminToken, mainFile, temporaryDir } from "./server.js";
import type { Ended } from "./system-program.js";

interface Lease {
  readonly node_id: string;
  readonly by: string;
  readonly session: string | null;
  readonly token: number;
  readonly expires_at: string;
  readonly reserved?: boolean;
}

interface Node {
  readonly id: string;
  readonly status: string;
  readonly blocked_by: readonly string[];
  readonly lease?: Lease;
}

const instant = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`;
const two = { HOLDFAST_TOKEN: "secret-b" };

describe("holdfast node", () => {
  let lab: Lab;
  before(async () => {
    lab = await openLab();
  });
  after(() => lab[Symbol.asyncDispose]());

  const node = (line: string, env: Record<string, string | undefined> = {}): Promise<Ended> =>
    lab.holdfast(["node", ...line.split(" ")], env);

  /** What it prints as JSON; it must succeed. */
  async function dataOf<Data>(line: string, env: Record<string, string | undefined> = {}): Promise<Data> {
    const ended = await node(`${line} --json`, env);
    assert.equal(ended.code, 0, ended.text);
    return jsonOf<Data>(ended).data;
  }

  const made = (id: string, more = ""): Promise<unknown> => dataOf(`create ${id} --title ${id}${more}`);
  const shown = async (id: string): Promise<Node> => (await dataOf<{ node: Node }>(`show ${id}`)).node;

  test("a script makes a graph, takes what is next, and says how it ended", async () => {
    const text = await lab.script(`
export HOLDFAST_SESSION=agent-7
holdfast node create story-schema --type issue --title "The schema" --priority p1
holdfast node create story-api --type issue --title "The API" --summary "after the schema"
holdfast node link story-schema blocks story-api
holdfast node queue --type issue
holdfast node next --type issue
holdfast node renew story-schema
holdfast node list --type issue
holdfast node status story-schema resolved
holdfast node next --type issue --json | jq -r .data.node.id
holdfast node show story-api
holdfast node release story-api
holdfast node history story-schema
`);
    assert.equal(text.code, 0, text.text);
    assert.match(
      text.stdout,
      new RegExp(
        [
          "^Node created\n  Node: story-schema\n  Type: issue\n  Status: open",
          "Node created\n  Node: story-api\n  Type: issue\n  Status: open",
          "Edge added\n  story-schema blocks story-api",
          "NODE          TYPE   STATUS  HOLDER  EXPIRES IN  WHY                  .*TITLE",
          "story-schema  issue  open                        p1, blocks 1, .*The schema",
          `Node claimed\n  Node: story-schema\n  Type: issue\n  Title: The schema\n  Session: agent-7\n  Token: 1\n  Expires: ${instant}`,
          `Claim renewed\n  Node: story-schema\n  Session: agent-7\n  Token: 1\n  Expires: ${instant}`,
          "NODE .*TITLE",
          "story-api     issue  open .*story-schema +The API",
          String.raw`story-schema  issue  open    p1        runner-1 \(agent-7\)  44m +The schema`,
          "Status set\n  Node: story-schema\n  Status: resolved",
          "story-api",
          "story-api\n  Title: The API\n  Type: issue\n  Status: open\n  Summary: after the schema",
          String.raw`  Claimed by: runner-1 \(agent-7\) since ${instant} until ${instant}, token 1`,
          `  Assigned to: runner-1 since ${instant}\n  Revision: \\d+, ${instant}`,
          "Node released\n  Node: story-api",
          String.raw`TIME \(UTC\) +WHAT +BY +TOKEN +DETAILS`,
          String.raw`\S+ \S+  created     runner-1`,
          String.raw`\S+ \S+  edge_added  runner-1         blocks story-api`,
          String.raw`\S+ \S+  claimed     runner-1  1      session agent-7`,
          String.raw`\S+ \S+  status      runner-1  1      open → resolved\n$`,
        ].join("\n"),
      ),
    );
  });

  test("who is refused learns who has it and until when, with exit code 4", async () => {
    await made("taken");
    await dataOf("claim taken --session run-1");
    const held = new RegExp(`^holdfast: taken is claimed by runner-1, run "run-1" until ${instant} `);
    for (const line of ["claim taken", "renew taken", "release taken", "status taken done"]) {
      const refused = await node(line, two);
      assert.equal(refused.code, 4, refused.text);
      assert.match(refused.stderr, held);
    }
    const json = await node("claim taken --json", two);
    const { code, details } = jsonOf(json).error;
    assert.deepEqual([json.code, code], [4, "already_claimed"]);
    const holder = details["holder"] as Lease;
    assert.deepEqual([holder.by, holder.session, holder.token], ["runner-1", "run-1", 1]);
    assert.match(holder.expires_at, /^\d{4}-.*Z$/);
    const lost = await node("renew taken --json", two);
    assert.deepEqual([lost.code, jsonOf(lost).error.code], [4, "lease_lost"]);

    const other = await node("claim taken --session run-2");
    assert.equal(other.code, 4);
    assert.match(other.stderr, /your own claim, bound to another run: claim it with --rebind/);
    const moved = await dataOf<{ lease: Lease }>("claim taken --session run-2 --rebind");
    assert.equal(moved.lease.session, "run-2");
    assert.equal((await node("renew taken --fencing-token 7")).code, 4);
    assert.equal((await node("renew taken --fencing-token 1")).code, 0);
  });

  test("an active status that another's claim stands against is written, and is no claim: exit code 4", async () => {
    await made("busy");
    await dataOf("claim busy");
    const denied = await node("status busy active --json", two);
    const { code, message, details } = jsonOf(denied).error;
    assert.deepEqual([denied.code, code, details["status"]], [4, "already_claimed", "active"]);
    assert.match(
      message,
      new RegExp(`^busy is active now, but not yours: busy is claimed by runner-1 until ${instant}`),
    );
    assert.equal((await shown("busy")).status, "active");
    const mine = await node("status busy active");
    assert.match(
      mine.stdout,
      new RegExp(`^Status set\n  Node: busy\n  Status: active\n  Token: 1\n  Expires: ${instant}\n$`),
    );
  });

  test("extend says when it is cut short, reserve keeps it, release gives it back", async () => {
    await made("long");
    await dataOf("claim long");
    assert.match((await node("extend long --by 10m")).stdout, /^Claim extended\n/);
    assert.match(
      (await node("extend long --by 90d")).stdout,
      /^Claim extended, as far as the policy allows \(8h\)\n/,
    );
    const { lease } = await dataOf<{ lease: Lease; grace_window_ms: number }>("reserve long");
    assert.equal(lease.reserved, true);
    assert.match((await node("queue --assignee me")).stdout, /long .*runner-1 reserved +1d /);
    assert.equal((await dataOf<{ edge: string }>("release long")).edge, "removed");
    assert.match((await node("release long")).stdout, /^Nothing to release\n {2}Node: long\n$/);
  });

  test("what is wrong is told before and by the server: 2 wrong use, 3 no such node, 4 not ready", async () => {
    await made("first");
    await made("second");
    await dataOf("link first blocks second");
    for (const [line, code, says] of [
      ["show nothing", 3, /There is no node nothing .*holdfast node create/],
      ["create No_Id --title x", 2, /"No_Id" is no node's id/],
      ["create x --title x --priority p9", 2, /priority/],
      ["create x", 2, /--title/],
      [
        "create first --title x",
        4,
        /There is a node first already.*holdfast node show first.*node update first/,
      ],
      ["create x --title x --type tsak", 2, /no type tsak, did you mean task\?.*holdfast node policy tells/],
      ["list --type tsak", 2, /no type tsak, did you mean task\?/],
      ["list --status opne", 2, /no status opne here, did you mean open\?/],
      ["queue --type tsak", 2, /no type tsak/],
      ["update first", 2, /say what changes: --title/],
      ["policy --set nothing.json", 2, /--set nothing.json cannot be read/],
      ["status first dnoe", 2, /did you mean done/],
      ["extend first --by soon", 2, /--by "soon": give a duration/],
      ["renew first --fencing-token x", 2, /--fencing-token x: give the number/],
      ["claim first --session ", 2, /--session must not be empty/],
      ["queue --limit 0", 2, /--limit 0: give a number/],
      ["link first stops second", 2, /stops is no edge: use blocks/],
      ["link second blocks first", 4, /circle/],
      ["claim second", 4, /blocked by first.*holdfast node next/],
      ["unpark first --reason x", 4, /not parked/],
    ] as const) {
      const ended = await node(line);
      assert.equal(ended.code, code, `${line}: ${ended.text}`);
      assert.match(ended.stderr, says, line);
    }
    await dataOf("unlink first blocks second");
    assert.deepEqual((await shown("second")).blocked_by, []);
    assert.equal((await node("show first", { HOLDFAST_TOKEN: "hf_wrong" })).code, 1);
  });

  test("an error for programs says each thing once", async () => {
    const { code, message, details } = jsonOf(await node("show nothing --json")).error;
    assert.equal(code, "not_found");
    assert.match(message, /There is no node nothing/);
    assert.deepEqual(Object.keys(details), ["request_id"]);
  });

  test("a release after the end keeps who carried it; another's stale token is lost work", async () => {
    await made("over");
    await dataOf("claim over");
    assert.equal((await node("release over --fencing-token 9", two)).code, 4);
    const stale = await node("release over --fencing-token 9 --json", two);
    assert.equal(jsonOf(stale).error.code, "lease_lost");
    await dataOf("status over done");
    assert.match((await node("release over")).stdout, /^Nothing to release\n/);
    assert.match((await node("show over")).stdout, /\n {2}Assigned to: runner-1 since /);
  });

  test("what is held up says by what; an empty queue says where to look", async () => {
    await made("held-1", " --type question");
    await made("held-2", " --type question");
    await dataOf("link held-1 blocks held-2");
    await dataOf("claim held-1");
    assert.match((await node("list --prefix held-2")).stdout, /\nheld-2 +question +open +held-1 +held-2\n$/);
    assert.match(
      (await node("queue --type question")).stdout,
      /^Nothing to do\. What is blocked, parked or claimed: holdfast node list\n$/,
    );
    await dataOf("reserve held-1");
    assert.match(
      (await node("show held-1")).stdout,
      new RegExp(`Claimed by: runner-1 since ${instant}, reserved until ${instant}, token 1\\n`),
    );
    await dataOf("status held-1 answered");
    await dataOf("status held-2 answered");
  });

  test("update changes what is said, and removes what is said to be none", async () => {
    await made("words", " --priority p1 --project one");
    const { node: changed } = await dataOf<{ node: Record<string, unknown> }>(
      "update words --title new --priority none --project ",
    );
    assert.deepEqual(
      ["title", "priority", "project", "revision"].map((field) => changed[field]),
      ["new", undefined, undefined, 2],
    );
    assert.match((await node("update words --priority p2")).stdout, /^Node changed\n {2}Node: words\n/);
    await dataOf("status words done");
  });

  test("policy shows the rules, and an admin sets them from a file", async () => {
    const shown = await node("policy");
    assert.match(shown.stdout, /^Policy\n {2}Revision: 0 \(as the server's.*\n {2}Claims last: 45m\n/);
    assert.match(shown.stdout, /\n {2}question: open \(planned\), answered \(terminal\)\n/);
    const file = join(temporaryDir("holdfast-policy-"), "policy.json");
    const admin = { HOLDFAST_TOKEN: adminToken, HOLDFAST_SPACE: "rules" };
    writeFileSync(file, '{"claim_ttl": 3000}');
    const wrong = await node(`policy --set ${file}`, admin);
    assert.equal(wrong.code, 2, wrong.text);
    assert.match(wrong.stderr, /"claim_ttl", did you mean claim_ttl_ms\?/);
    writeFileSync(file, '{"claim_ttl_ms": 3000}');
    assert.equal((await node(`policy --set ${file}`)).code, 1, "not by a worker");
    const set = await dataOf<{ revision: number; claim_ttl_ms: number }>(`policy --set ${file}`, admin);
    assert.deepEqual([set.revision, set.claim_ttl_ms], [1, 3000]);
  });

  test("queue --limit says that there is more", async () => {
    for (const id of ["many-1", "many-2", "many-3"]) await made(id, " --type question");
    const cut = await node("queue --type question --limit 2");
    assert.match(cut.stdout, /many-1[\s\S]*many-2[\s\S]*\nThere are more: --limit 4\n$/);
    const all = await dataOf<{ items: Node[]; more: boolean }>("queue --type question");
    assert.deepEqual([all.items.map(({ id }) => id), all.more], [["many-1", "many-2", "many-3"], false]);
  });
});

describe("holdfast node next", () => {
  let lab: Lab;
  before(async () => {
    const file = join(temporaryDir("holdfast-policy-"), "policy.json");
    const statuses = { open: "planned", active: "active", done: "terminal" };
    // Parked as soon as it was lost once.
    const types = { task: { statuses }, poison: { statuses, claim_ttl_ms: 1000, reclaims_max: 0 } };
    writeFileSync(file, JSON.stringify({ types }));
    lab = await openLab({ env: { HOLDFAST_POLICY_FILE: file } });
  });
  after(() => lab[Symbol.asyncDispose]());

  const nodesOf = () => createClient({ url: lab.server.url, token: "secret-a" }).nodes;

  test("nothing to do is exit code 75, at once or after the wait; the message says what others are on", async () => {
    await nodesOf().create({ id: "theirs", type: "task", title: "t" });
    await createClient({ url: lab.server.url, token: "secret-b" }).nodes.claim("theirs");
    const now = await lab.holdfast(["node", "next"]);
    assert.deepEqual([now.code, now.stdout], [75, ""]);
    assert.equal(now.stderr, "holdfast: Nothing to do: no node was free. Others are on 1.\n");
    const waited = await lab.holdfast(["node", "next", "--type", "task", "--wait", "1s", "--json"]);
    const { code, message, details } = jsonOf(waited).error;
    assert.deepEqual([waited.code, code, details], [75, "empty", { hidden: 1 }]);
    assert.equal(message, "Nothing to do: no task was free within 1s. Others are on 1.");
    await createClient({ url: lab.server.url, token: "secret-b" }).nodes.setStatus("theirs", "done");
  });

  /** Started, and known to wait. */
  async function waiting(...args: string[]) {
    const child = spawn(process.execPath, [mainFile, "node", "next", "--wait", "10m", ...args], {
      env: { ...process.env, ...lab.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const said = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const)
      child[stream].setEncoding("utf8").on("data", (text: string) => {
        said[stream] += text;
      });
    await eventually("it waits", () => said.stderr === "Waiting for work: nothing is free.\n");
    return { child, said };
  }

  test("waits for work, and takes it as soon as there is some", async () => {
    const { child, said } = await waiting("--session", "agent-7", "--json");
    await nodesOf().create({ id: "fresh", type: "task", title: "t" });
    assert.deepEqual(await once(child, "close"), [0, null], said.stderr);
    const { node, lease } = (JSON.parse(said.stdout) as { data: { node: Node; lease: Lease } }).data;
    assert.deepEqual([node.id, lease.session], ["fresh", "agent-7"]);
    await nodesOf().setStatus("fresh", "done");
  });

  test("interrupted while it waits it takes nothing, and exits as the signal says", async () => {
    const { child, said } = await waiting();
    child.kill("SIGINT");
    assert.deepEqual(await once(child, "close"), [130, null]);
    assert.match(said.stderr, /interrupted while asking for work/);
    await nodesOf().create({ id: "after", type: "task", title: "t" });
    assert.equal((await nodesOf().get("after")).lease, undefined);
    await nodesOf().setStatus("after", "done");
  });

  test("work that lost its carriers is parked, listed with the reason, and put back by hand", async () => {
    await nodesOf().create({ id: "bad", type: "poison", title: "eats workers" });
    await nodesOf().claim("bad");
    await eventually("its claim ran out", async () => (await nodesOf().get("bad")).lease === undefined);
    assert.equal((await lab.holdfast(["node", "next", "--type", "poison"])).code, 75);
    const parked = await lab.holdfast(["node", "queue", "--parked"]);
    assert.match(
      parked.stdout,
      /\nbad +poison +open +lost once without a clean release: runner-1 \(token 1\) +eats workers\n$/,
    );
    const shown = await lab.holdfast(["node", "show", "bad"]);
    assert.match(shown.stdout, /\n {2}Parked: lost once without a clean release: runner-1 \(token 1\), at /);
    assert.match(shown.stdout, /\n {2}Lost: once since its last clean release\n/);
    const refused = await lab.holdfast(["node", "claim", "bad"]);
    assert.equal(refused.code, 4);
    assert.match(
      refused.stderr,
      /bad is parked since .* UTC: lost once.*holdfast node unpark bad with a reason/,
    );
    const back = await lab.holdfast(["node", "unpark", "bad", "--reason", "mended"]);
    assert.match(back.stdout, /^Back in the queue\n {2}Node: bad\n {2}Title: eats workers\n/);
    assert.match((await lab.holdfast(["node", "queue", "--parked"])).stdout, /^Nothing is parked\.\n$/);
    const history = await lab.holdfast(["node", "history", "bad"]);
    assert.match(
      history.stdout,
      / lapsed +runner-1 +1\n.* parked +runner-1 +1 +lost once .*\n.* unparked +runner-1 +mended\n$/,
    );
    await nodesOf().setStatus("bad", "done");
  });

  test("a loop over it drains the queue", async () => {
    for (const nth of [1, 2, 3]) await nodesOf().create({ id: `drain-${nth}`, type: "task", title: "t" });
    const ended = await lab.script(`
export HOLDFAST_SESSION=agent-7
while holdfast node next --json > item; do
  id=$(jq -r .data.node.id item)
  echo "$id"
  holdfast node status "$id" done > /dev/null
done
echo drained
`);
    assert.equal(ended.stdout, "drain-1\ndrain-2\ndrain-3\ndrained\n", ended.text);
  });
});
