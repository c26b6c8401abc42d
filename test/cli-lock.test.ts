// `holdfast lock` against a server: whose a lock is, from one shell to the next, when processes end or are killed, and
// what is said when something is wrong.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually, jsonOf, type Lab, openLab } from "./cli-lab.js";
import { call, freePort, mainFile } from "./server.js";

interface Acquired {
  readonly lock: { readonly nonce: string; readonly token: number; readonly expires_unix_ms: number };
}

let lab: Lab;
before(async () => {
  lab = await openLab();
});
after(() => lab[Symbol.asyncDispose]());

const acquired = async (name: string, ...more: string[]): Promise<Acquired["lock"]> => {
  const ended = await lab.holdfast(["lock", "acquire", name, "--json", ...more]);
  assert.equal(ended.code, 0, ended.text);
  return jsonOf<Acquired>(ended).data.lock;
};

describe("whose a lock is", () => {
  test("fresh shells with one HOLDFAST_SESSION are one owner; without it they are not", async () => {
    const env = { HOLDFAST_SESSION: "agent-7" };
    const took = await lab.script("holdfast lock acquire shells --ttl 10m --json", env);
    const { nonce, token } = jsonOf<Acquired>(took).data.lock;
    const stranger = await lab.script("holdfast lock release shells");
    assert.equal(stranger.code, 4, stranger.text);
    assert.match(
      stranger.stderr,
      /^holdfast: shells is held by runner-1 until .*HOLDFAST_SESSION=NAME holdfast lock release --resource shells.*\n$/,
    );
    const other = await lab.script("holdfast lock renew shells", { HOLDFAST_SESSION: "agent-8" });
    assert.equal(other.code, 4, other.text);
    const adopt = await lab.script("holdfast lock release shells --adopt");
    assert.equal(adopt.code, 4, "a named session outlives its shells");
    const renewed = await lab.script("holdfast lock renew shells --ttl 1h --json", env);
    const lock = jsonOf<Acquired>(renewed).data.lock;
    assert.deepEqual([lock.nonce, lock.token], [nonce, token]);
    const again = await lab.script("holdfast lock acquire shells --json", env);
    assert.equal(jsonOf<Acquired>(again).data.lock.nonce, nonce, "its own lease again");
    const released = await lab.script("holdfast lock release --resource shells --session agent-7");
    assert.equal(released.code, 0, released.text);
    assert.equal(await lab.holderOf("shells"), null);
  });

  test("without a named session an acquire is never given twice, and says if it is the caller's own", async () => {
    const ended = await lab.script("holdfast lock acquire twice >/dev/null; holdfast lock acquire twice");
    assert.equal(ended.code, 4, ended.text);
    assert.match(
      ended.stderr,
      /\n {2}Yours: this session holds it; holdfast lock renew --resource twice extends it\n$/,
    );
  });

  test("npx does not stand between a script and its locks", async () => {
    const ended = await lab.script(`
mkdir -p node_modules/.bin && echo '{}' > package.json && cp bin/holdfast node_modules/.bin/
npx holdfast lock acquire by-npx >/dev/null && holdfast lock renew by-npx >/dev/null && npx holdfast lock release by-npx
`);
    assert.equal(ended.code, 0, ended.text);
    assert.match(ended.stdout, /^Lock released\n/);
  });

  test("the jobs of a CI are one owner each", async () => {
    const job = { GITHUB_RUN_ID: "1", GITHUB_JOB: "deploy", RUNNER_NAME: "r1" };
    await lab.script("holdfast lock acquire in-ci", job);
    const other = await lab.script("holdfast lock release in-ci", { ...job, RUNNER_NAME: "r2" });
    assert.equal(other.code, 4, other.text);
    const own = await lab.script("holdfast lock release in-ci", job);
    assert.equal(own.code, 0, own.text);
  });

  test("a nonce proves it, by flag and by HOLDFAST_LEASE_ID; a wrong one changes nothing", async () => {
    const { nonce } = await acquired("proved");
    const wrong = await lab.script("holdfast lock release proved --nonce ls_wrong");
    assert.equal(wrong.code, 4, wrong.text);
    const elsewhere = { HOLDFAST_LEASE_ID: nonce, HOLDFAST_NAME: "other" };
    assert.equal((await lab.script("holdfast lock renew proved", elsewhere)).code, 4, "it is another's");
    const renewed = await lab.script("holdfast lock renew proved", { HOLDFAST_LEASE_ID: nonce });
    assert.equal(renewed.code, 0, renewed.text);
    const released = await lab.script(`holdfast lock release proved --nonce ${nonce}`);
    assert.equal(released.code, 0, released.text);
    const twice = await lab.script(`holdfast lock release proved --nonce ${nonce}`);
    assert.equal(twice.code, 3, twice.text);
    const lost = await lab.holdfast(["lock", "release", "proved", "--json"]);
    assert.deepEqual([lost.code, jsonOf(lost).error.code], [4, "lease_lost"], "what was kept here is over");
    assert.equal((await lab.holdfast(["lock", "release", "proved"])).code, 3);
  });

  test("--adopt takes over from a process that has ended, never from one that lives", async () => {
    await lab.script("holdfast lock acquire orphan");
    const refused = await lab.script("holdfast lock renew orphan --json");
    assert.equal(refused.code, 4);
    assert.equal(jsonOf(refused).error.details["next"], "holdfast lock renew --resource orphan --adopt");
    const adopted = await lab.script(
      "holdfast lock renew orphan --adopt && holdfast lock renew orphan && holdfast lock release orphan",
    );
    assert.equal(adopted.code, 0, adopted.text);
    await acquired("living");
    const living = await lab.script("holdfast lock release living --adopt");
    assert.equal(living.code, 4, "this process lives");
    assert.equal((await lab.holdfast(["lock", "release", "living"])).code, 0);
  });

  test("release --mine --all ends what this session holds and nothing else", async () => {
    await lab.script("holdfast lock acquire all-other");
    const ended = await lab.script(`
for name in all-1 all-2 path:all/3; do holdfast lock acquire $name >/dev/null; done
holdfast lock status --mine --json
holdfast lock release --mine --all --json
`);
    const [mine, released] = ended.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).data);
    assert.deepEqual(
      mine.locks.map((lock: { resource: string }) => lock.resource),
      ["all-1", "all-2", "path:all/3"],
    );
    assert.deepEqual([...released.released].sort(), ["all-1", "all-2", "path:all/3"]);
    assert.equal(await lab.holderOf("all-other"), "runner-1");
    const rest = await lab.script("holdfast lock release --mine --all --adopt --json");
    assert.ok((jsonOf(rest).data["released"] as string[]).includes("all-other"), rest.text);
    assert.equal((await lab.script("holdfast lock release --all")).code, 2);
    assert.equal((await lab.script("holdfast lock release --mine --all x")).code, 2);
  });

  test("a lease that ended is lost: exit 4, who has it now, and an acquire starts anew", async () => {
    const { token } = await acquired("expiring", "--ttl", "1s");
    await eventually("it is over", async () => (await lab.holderOf("expiring")) === null);
    const lost = await lab.holdfast(["lock", "renew", "expiring", "--json"]);
    assert.deepEqual([lost.code, jsonOf(lost).error.code], [4, "lease_lost"], lost.text);
    assert.match(lost.stderr, /expired/);
    assert.equal((await acquired("expiring")).token, token + 1);
  });
});

describe("what is kept", () => {
  test("only its user can read it, it goes with the release, and a loser leaves none", async () => {
    const before = lab.kept();
    await acquired("kept");
    const [file = "", ...more] = lab.kept().filter((one) => !before.includes(one));
    assert.deepEqual(more, []);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(join(file, "..")).mode & 0o777, 0o700);
    await lab.script("holdfast lock acquire kept");
    assert.deepEqual(lab.kept(), [...before, file].sort(), "the loser's attempt is gone");
    assert.equal((await lab.holdfast(["lock", "release", "kept"])).code, 0);
    assert.deepEqual(lab.kept(), before);
  });

  test("names that mean the same path are the same lock", async () => {
    await acquired("path:./src//kept.ts");
    assert.equal((await lab.holdfast(["lock", "release", "path:src/kept.ts"])).code, 0);
  });

  test("where nothing can be kept nothing is taken", async () => {
    const dir = join(lab.dir, "not-a-directory");
    await lab.script(`: > '${dir}'`);
    const ended = await lab.holdfast(["lock", "acquire", "unkept"], { XDG_STATE_HOME: dir });
    assert.equal(ended.code, 5, ended.text);
    assert.match(ended.stderr, /^holdfast: cannot keep the lease id in .*XDG_STATE_HOME.*\n$/);
    assert.equal(await lab.holderOf("unkept"), null);
  });

  test("gc removes the files of leases that are over, and no other", async () => {
    const state = join(lab.dir, "gc-state");
    mkdirSync(state);
    const env = { XDG_STATE_HOME: state };
    await lab.holdfast(["lock", "acquire", "gc-over", "--ttl", "1s"], env);
    await lab.holdfast(["lock", "acquire", "gc-held"], env);
    await eventually("it is over", async () => (await lab.holderOf("gc-over")) === null);
    const { data } = jsonOf(await lab.holdfast(["lock", "gc", "--json"], env));
    assert.deepEqual([data["removed"], data["local_files_removed"]], [0, 1]);
    assert.equal((await lab.holdfast(["lock", "release", "gc-held"], env)).code, 0);
  });
});

describe("a command that is killed", () => {
  test("after the server's commit: the next command of its session finds the lease, no other does", async () => {
    await using front = await killingFront(lab.server.url);
    const env = { HOLDFAST_URL: front.url };
    for (const verb of ["release", "acquire"]) {
      front.kills = true;
      const killed = await runKillable(["lock", "acquire", "crashed", "--ttl", "10m"], env, front);
      assert.equal(killed, "SIGKILL");
      front.kills = false;
      assert.equal(await lab.holderOf("crashed"), "runner-1", "granted, and never told");
      const stranger = await lab.script(
        "holdfast lock acquire crashed || holdfast lock release crashed",
        env,
      );
      assert.equal(stranger.code, 4, stranger.text);
      const next = await lab.holdfast(["lock", verb, "crashed", "--json"], env);
      assert.equal(next.code, 0, next.text);
      assert.equal(await lab.holderOf("crashed"), verb === "release" ? null : "runner-1");
      const attempts = lab.kept().filter((file) => file.endsWith(".attempt"));
      assert.deepEqual(attempts, []);
    }
    const twice = await lab.holdfast(["lock", "acquire", "crashed"], env);
    assert.equal(twice.code, 4, "recovered once, not again and again");
    assert.equal((await lab.holdfast(["lock", "release", "crashed"], env)).code, 0);
  });

  test("after the server's commit of one job of several: it is found under its own name", async () => {
    await using front = await killingFront(lab.server.url);
    const env = { HOLDFAST_URL: front.url };
    await lab.script("holdfast job claim crashed-1");
    front.kills = true;
    assert.equal(await runKillable(["job", "claim", "crashed-1", "crashed-2"], env, front), "SIGKILL");
    front.kills = false;
    assert.equal((await lab.holdfast(["job", "heartbeat", "crashed-1"], env)).code, 4, "another's");
    const beat = await lab.holdfast(["job", "heartbeat", "crashed-2"], env);
    assert.equal(beat.code, 0, beat.text);
    assert.equal((await lab.holdfast(["job", "release", "crashed-2"], env)).code, 0);
  });

  test("while it waits: Ctrl-C ends it with 130 and one line, and nothing is left behind", async () => {
    await acquired("waited");
    const child = start(["lock", "acquire", "waited", "--wait", "10m"], { HOLDFAST_SESSION: "impatient" });
    await eventually("it waits", () => child.stderr().includes("Waiting for waited: held by runner-1"));
    child.process.kill("SIGINT");
    assert.equal(await child.exited, 130, child.stderr());
    assert.match(child.stderr(), /\nholdfast: interrupted while asking for waited: nothing was taken\n$/);
    assert.deepEqual(
      lab.kept().filter((file) => file.endsWith(".attempt")),
      [],
    );
    assert.equal((await lab.holdfast(["lock", "release", "waited"])).code, 0);
    assert.equal(await lab.holderOf("waited"), null);
  });
});

describe("waiting and looking", () => {
  test("scripts that wait in line with a trap run one at a time, and every one of them runs", async () => {
    const one = `
trap 'holdfast lock release --resource turns >/dev/null' EXIT
holdfast lock acquire --resource turns --wait 5m --ttl 5m >/dev/null 2>&1 || exit
mkdir inside || exit 9
echo turn >> turns.log
rmdir inside
`;
    const ended = await Promise.all(Array.from({ length: 5 }, () => lab.script(one)));
    assert.deepEqual(
      ended.map(({ code }) => code),
      [0, 0, 0, 0, 0],
      ended.map(({ text }) => text).join(""),
    );
    assert.equal(readFileSync(join(lab.dir, "turns.log"), "utf8"), "turn\n".repeat(5));
    assert.equal(await lab.holderOf("turns"), null);
  });

  test("--wait shows who is in the way, and takes it over when it is released", async () => {
    await acquired("line");
    const child = start(["lock", "acquire", "line", "--wait", "5m", "--reason", "next"], {
      HOLDFAST_SESSION: "second",
      HOLDFAST_TOKEN: "secret-b",
    });
    await eventually("it waits", () => child.stderr().includes("place 1 of 1 in line"));
    assert.equal((await lab.holdfast(["lock", "release", "line"])).code, 0);
    assert.equal(await child.exited, 0, child.stderr());
    assert.equal(await lab.holderOf("line"), "runner-2");
    const conflict = await lab.holdfast(["lock", "acquire", "line", "--wait", "1s", "--json"]);
    assert.equal(conflict.code, 4, conflict.text);
    const { error } = jsonOf(conflict);
    assert.deepEqual([error.details["owner"], error.details["metadata"]], ["runner-2", "next"]);
  });

  test("status shows all pages, one name, a prefix", async () => {
    const names = Array.from({ length: 230 }, (_, i) => `many:${String(i).padStart(3, "0")}`);
    for (let at = 0; at < names.length; at += 20)
      await Promise.all(
        names.slice(at, at + 20).map((name) =>
          call(lab.server, "POST", `/locks/${name}/acquire`, {
            token: "secret-b",
            body: { ttl_seconds: 600 },
          }),
        ),
      );
    const all = await lab.holdfast(["lock", "status", "--prefix", "many:", "--json"]);
    const { data } = jsonOf<{ locks: { resource: string }[]; total: number }>(all);
    assert.equal(data.total, 230);
    assert.deepEqual(
      data.locks.map(({ resource }) => resource),
      names,
    );
    const one = await lab.holdfast(["lock", "status", "many:007"]);
    assert.match(one.stdout, /^Active Locks:\n {2}many:007 {2}runner-2 {2}expires in \d+m\n$/);
    const free = await lab.holdfast(["lock", "status", "--resource", "nobody-has-it"]);
    assert.deepEqual([free.code, free.stdout], [0, "No active locks\n"]);
    const closed = await lab.script("set -o pipefail; holdfast lock status | head -0; echo $?");
    assert.deepEqual([closed.stdout, closed.stderr], ["0\n", ""]);
  });

  test("an overlapping path is named", async () => {
    await lab.script("holdfast lock acquire path:overlap/dir");
    const ended = await lab.holdfast(["lock", "acquire", "path:overlap/dir/file"]);
    assert.equal(ended.code, 4);
    assert.match(ended.stderr, /\n {2}Overlaps: path:overlap\/dir\n$/);
  });
});

describe("what goes wrong", () => {
  const failure = async (args: string[], code: number, words: RegExp, env = {}): Promise<void> => {
    const [text, json] = await Promise.all([lab.holdfast(args, env), lab.holdfast([...args, "--json"], env)]);
    assert.equal(text.code, code, text.text);
    assert.match(text.stderr, words);
    assert.equal(text.stderr.trimEnd().split("\n").length, 1, "one line");
    assert.equal(json.code, code);
    assert.equal(jsonOf(json).ok, false);
  };

  test("wrong use is exit 2 with one line that says what to do", async () => {
    await failure(["lock", "acquire"], 2, /name the resource: holdfast lock acquire --resource/);
    await failure(["lock", "acquire", "a", "--resource", "b"], 2, /two names/);
    await failure(["lock", "acquire", "a", "--ttl", "soon"], 2, /30s, 15m, 1h/);
    await failure(["lock", "acquire", "a", "--wait", "-5"], 2, /--wait/);
    await failure(["lock", "acquire", "a", "--reason", "x", "--metadata", "y"], 2, /give one/);
    await failure(["lock", "acquire", "a", "--tll", "5m"], 2, /Did you mean --ttl/);
    await failure(["lock", "aquire", "a"], 2, /Did you mean acquire/);
    await failure(["lock", "acquire", "a", "--ttl", "2d"], 2, /ttl/i);
    await failure(["lock", "renew", "a", "--session", ""], 2, /--session/);
  });

  test("hostile names are refused and shown harmless", async () => {
    for (const name of ["bad\x1b[31mname", "path:a\u202eb", "path:../x", "", "a b", "\x07"])
      await failure(["lock", "acquire", "--resource", name], 2, /^[^\p{Cc}\p{Cf}]+\n$/u);
  });

  test("what others wrote is shown harmless", async () => {
    const body = { ttl_seconds: 60, owner: "evil\x1b[2J\u202eowner" };
    await call(lab.server, "POST", "/jobs/hostile/claim", { token: "secret-b", body });
    for (const args of [
      ["job", "claim", "hostile"],
      ["job", "owner", "hostile"],
      ["job", "list"],
    ]) {
      const ended = await lab.holdfast(args);
      assert.match(ended.text, /evil\\u\{1b\}/);
      assert.doesNotMatch(ended.text.replaceAll("\n", ""), /[\p{Cc}\p{Cf}]/u);
    }
  });

  test("an unreachable server is 5, a wrong token 1, no rights 1, and nothing is left behind", async () => {
    const before = lab.kept();
    const nowhere = { HOLDFAST_URL: `http://127.0.0.1:${await freePort()}` };
    await failure(["lock", "acquire", "a"], 5, /No reply from .*Is it running/, nowhere);
    await failure(["lock", "status"], 5, /No reply from/, nowhere);
    await failure(["lock", "acquire", "a"], 1, /token/, { HOLDFAST_TOKEN: "wrong" });
    await failure(["lock", "acquire", "a"], 1, /observer|role|may/, { HOLDFAST_TOKEN: "secret-v" });
    await failure(["lock", "acquire", "node:task"], 1, /work graph/);
    assert.deepEqual(lab.kept(), before);
  });
});

function start(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [mainFile, ...args], {
    env: { ...process.env, ...lab.env, ...env },
    cwd: lab.dir,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const exited = once(child, "close").then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  return { process: child, stderr: () => stderr, exited };
}

/** Stands before the server. While it `kills`, the reply to an acquire is not passed on: its command is killed. */
async function killingFront(url: string) {
  const front = { url: "", kills: false, victim: (): void => undefined };
  const listener = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = {
      authorization: request.headers.authorization ?? "",
      "content-type": "application/json",
    };
    const method = request.method ?? "GET";
    const body = method === "GET" ? {} : { body: Buffer.concat(chunks) };
    const reply = await fetch(`${url}${request.url}`, { method, headers, ...body });
    const text = await reply.text();
    if (front.kills && /\/(?:acquire|claim)$/.test(request.url ?? "")) {
      front.victim();
      return void response.destroy();
    }
    response.writeHead(reply.status, { "content-type": "application/json" }).end(text);
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  front.url = `http://127.0.0.1:${(listener.address() as { port: number }).port}`;
  return Object.assign(front, {
    [Symbol.asyncDispose]: async () => {
      listener.closeAllConnections();
      listener.close();
    },
  });
}

async function runKillable(
  args: readonly string[],
  env: Record<string, string>,
  front: { victim: () => void },
): Promise<number | NodeJS.Signals> {
  const child = start(args, env);
  front.victim = () => child.process.kill("SIGKILL");
  return child.exited;
}
