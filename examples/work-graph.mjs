// A crew of workers drains a graph of work: each takes the best free node, works under its claim, and says how it ended.
// What a node blocks comes after it. One worker dies in the middle of a node: its claim runs out, and another takes the
// node over, with a higher fencing token.
//   HOLDFAST_URL=http://127.0.0.1:4280 HOLDFAST_TOKEN=… node examples/work-graph.mjs
// The crew takes any task there is: use a server, or a space, without work of others. PREFIX=… names the nodes.
// Claims last as long as the policy says, 45 minutes by default, and nobody waits that long here: then no worker dies.
// To see the takeover, start the server with HOLDFAST_POLICY_FILE=policy.json, where policy.json is {"claim_ttl_ms": 2000}
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "holdfast/client";

// Nodes stay when the work is over, so each run has names of its own.
const prefix = process.env.PREFIX ?? `house-${Date.now().toString(36)}`;
/** How long a worker waits for work. A claim that is left must run out within that time. */
const waitMs = 10_000;
const { nodes } = createClient({
  url: process.env.HOLDFAST_URL ?? "http://127.0.0.1:4280",
  token: process.env.HOLDFAST_TOKEN,
});

/** Each with what it must wait for. */
const plan = {
  ground: [],
  walls: ["ground"],
  roof: ["walls"],
  windows: ["walls"],
  wires: ["walls"],
  paint: ["roof", "windows", "wires"],
};

if (process.argv[2] === "worker") await work(process.argv[3], process.argv[4] === "dies");
else await conduct();

/** Takes one node after the other, and ends where nothing came for a while. */
async function work(name, dies) {
  const task = async ({ node, token, signal }) => {
    await new Promise((sent) => process.send({ id: node.id, token }, sent));
    if (dies) process.kill(process.pid, "SIGKILL");
    await sleep(50, undefined, { signal }); // the work; it stops where the claim is lost
    return "done";
  };
  const options = { type: "task", session: name, wait: waitMs / 1000 };
  while ((await nodes.work(options, task)) !== null);
  process.disconnect();
}

async function conduct() {
  const { claimTtlMs } = await nodes.policy();
  for (const step of Object.keys(plan)) await nodes.create({ id: idOf(step), type: "task", title: step });
  for (const [step, before] of Object.entries(plan))
    for (const earlier of before) await nodes.addEdge(idOf(earlier), "blocks", idOf(step));
  const begun = [];
  if (claimTtlMs < waitMs) await loseOne(begun);
  else
    console.log(`nobody dies: a claim lasts ${Math.round(claimTtlMs / 1000)} s here, too long to wait for`);

  const [lost] = begun;
  const crew = ["ann", "ben", "cleo"].map((name) => startWorker(name, begun, "lives"));
  await Promise.all(crew.map((worker) => once(worker, "exit")));
  if (lost) {
    const again = begun.find(({ id, token }) => id === lost.id && token > lost.token);
    console.log(again ? `another took it over, token ${again.token}` : "nobody took it over");
  }
  const order = begun.slice(lost ? 1 : 0).map(({ id }) => id.slice(prefix.length + 1));
  const steps = Object.keys(plan);
  console.log(`${order.length} of ${steps.length} nodes done, ${order[0]} first, ${order.at(-1)} last`);
  process.exitCode = order.length === steps.length ? 0 : 1;
}

async function loseOne(begun) {
  await once(startWorker("dan", begun, "dies"), "exit");
  console.log(`dan took ${begun[0].id}, token ${begun[0].token}, and died`);
}

function startWorker(name, begun, fate) {
  const worker = fork(fileURLToPath(import.meta.url), ["worker", name, fate], {
    env: { ...process.env, PREFIX: prefix },
  });
  worker.on("message", (message) => begun.push(message));
  return worker;
}

function idOf(step) {
  return `${prefix}-${step}`;
}
