// Five agents run the same skill on the same issue. One owns it; the others see who does. The owner is killed without
// warning; when its claim runs out another takes over, with a higher fencing token.
//   HOLDFAST_URL=http://127.0.0.1:4280 HOLDFAST_TOKEN=… node examples/five-agents.mjs
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "holdfast/client";

const job = process.env.JOB ?? "issue-1842";
const ttl = "3s";
const client = createClient({
  url: process.env.HOLDFAST_URL ?? "http://127.0.0.1:4280",
  token: process.env.HOLDFAST_TOKEN,
});

if (process.argv[2] === "agent") await agent(process.argv[3]);
else await conduct();

/** One agent: claims the job or waits until it can, then works and heartbeats until it is told to finish. */
async function agent(name) {
  let finish = false;
  process.on("message", () => {
    finish = true;
  });
  for (;;) {
    const claim = await client.claimJob(job, {
      owner: name,
      ttl,
      metadata: { agent: name, skill: "triage" },
    });
    if (!claim.claimed) {
      process.send({ name, sees: claim.owner });
      await sleep(Math.min(claim.retryAfterMs, 500));
      continue;
    }
    process.send({ name, owns: claim.token });
    while (!finish) {
      await sleep(200);
      await client.heartbeatJob(job, claim.leaseId, { progress: `${name} is at it` });
    }
    await client.releaseJob(job, claim.leaseId, { outcome: "done" });
    process.send({ name, done: claim.token });
    process.disconnect();
    return;
  }
}

/** Starts them, kills the first owner, lets the second finish. */
async function conduct() {
  const agents = new Map();
  const heard = [];
  const hear = (message) => heard.push(message);
  for (let number = 1; number <= 5; number++) {
    const name = `agent-${number}`;
    const child = fork(fileURLToPath(import.meta.url), ["agent", name]);
    child.on("message", hear);
    agents.set(name, child);
  }
  try {
    const first = await until(() => heard.find((message) => message.owns !== undefined));
    console.log(`${first.name} owns ${job}, token ${first.owns}`);
    const others = [...agents.keys()].filter((name) => name !== first.name);
    await until(() => others.every((name) => heard.some((m) => m.name === name && m.sees === first.name)));
    console.log(`${others.join(", ")} see that ${first.name} owns it`);

    agents.get(first.name).kill("SIGKILL");
    console.log(`${first.name} was killed`);
    const second = await until(() => heard.find((message) => message.owns > first.owns));
    console.log(`${second.name} took over, token ${second.owns}`);

    agents.get(second.name).send("finish");
    await until(() => heard.find((message) => message.done === second.owns));
    const { lastOutcome } = await client.getJobOwner(job);
    console.log(`${second.name} finished: ${lastOutcome?.outcome}`);
  } finally {
    for (const child of agents.values()) {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    }
  }
}

async function until(condition) {
  for (let tries = 0; tries < 600; tries++) {
    const found = condition();
    if (found) return found;
    await sleep(100);
  }
  throw new Error("it did not happen within a minute");
}
