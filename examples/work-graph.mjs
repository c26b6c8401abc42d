// A crew of workers drains a graph of work: each takes the best free node, works under its claim, and says how it ended.
// What a node blocks comes after it. One worker dies in the middle of a node: its claim runs out, and another takes the
// node over, with a higher fencing token.
//   HOLDFAST_URL=http://127.0.0.1:4280 HOLDFAST_TOKEN=… node examples/work-graph.mjs
// Claims last as long as the policy says, 45 minutes by default: to see the takeover sooner, start the server with
//   HOLDFAST_POLICY_FILE=policy.json, where policy.json is {"claim_ttl_ms": 2000}
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "holdfast/client";

const prefix = process.env.PREFIX ?? "house";
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
  while ((await nodes.work({ type: "task", session: name, wait: "10s" }, task)) !== null);
  process.disconnect();
}

async function conduct() {
  for (const step of Object.keys(plan)) await nodes.create({ id: idOf(step), type: "task", title: step });
  for (const [step, before] of Object.entries(plan))
    for (const earlier of before) await nodes.addEdge(idOf(earlier), "blocks", idOf(step));
  const begun = [];
  await once(startWorker("dan", begun, "dies"), "exit");
  const [lost] = begun;
  console.log(`dan took ${lost.id}, token ${lost.token}, and died`);

  const crew = ["ann", "ben", "cleo"].map((name) => startWorker(name, begun, "lives"));
  await Promise.all(crew.map((worker) => once(worker, "exit")));
  const again = begun.find(({ id, token }) => id === lost.id && token > lost.token);
  console.log(again ? `another took it over, token ${again.token}` : "nobody could take it over yet");
  const order = begun.slice(1).map(({ id }) => id.slice(prefix.length + 1));
  console.log(
    `${order.length} of ${Object.keys(plan).length} nodes done, ${order[0]} first, ${order.at(-1)} last`,
  );
}

function startWorker(name, begun, fate) {
  const worker = fork(fileURLToPath(import.meta.url), ["worker", name, fate]);
  worker.on("message", (message) => begun.push(message));
  return worker;
}

function idOf(step) {
  return `${prefix}-${step}`;
}
