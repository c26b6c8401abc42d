// Working under a lease: it is renewed, released, and when it is lost the work is told before another is granted,
// also on the first line after the process was blocked or stopped.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { HeldError, type Lease, LeaseLostError } from "../src/client/entry.js";
import {
  type Clients,
  clientsOf,
  type Holder,
  type Said,
  startHolder,
  until,
  withinMs,
} from "./client-lab.js";
import { TcpProxy } from "./evidence/proxy.js";
import { type Server, startServer } from "./server.js";
import { runToEnd } from "./system-program.js";

let server: Server;
let clients: Clients;

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
  clients = clientsOf(server.url);
});
after(() => server[Symbol.asyncDispose]());

const isFree = async (name: string): Promise<boolean> =>
  (await clients.two.locks.get(name)).status === "free";

/** Whether a rival that asks all the time, until told to stop, was never granted the name. */
async function neverGranted(name: string, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const reply = await clients.two.locks.acquire(name, { ttl: 1 });
    assert.equal(reply.status, "held", `${name} was granted to a rival`);
    await delay(20);
  }
}

function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe("hold", () => {
  test("renews while the work runs, releases at its end, and gives its result", async () => {
    let isDone = false;
    const rival = async (): Promise<void> => {
      await until("it is held", async () => !(await isFree("work")));
      await neverGranted("work", () => isDone);
    };
    const work = clients.one.hold("work", { ttl: 1, metadata: "m" }, async (lease) => {
      const first = lease.safeUntil;
      await delay(3500);
      lease.assertHeld();
      assert.ok(lease.held && !lease.signal.aborted && lease.safeUntil > first);
      assert.deepEqual([lease.name, lease.metadata, lease.token], ["work", "m", 1]);
      isDone = true;
      return "result";
    });
    assert.equal((await Promise.all([work, rival()]))[0], "result");
    assert.ok(await isFree("work"));
  });

  test("releases also on a throw, and by await using", async () => {
    const failure = new Error("the work failed");
    const failing = clients.one.hold("thrown", {}, () => Promise.reject(failure));
    await assert.rejects(failing, failure);
    assert.ok(await isFree("thrown"));
    let kept: Lease | undefined;
    const using = async (): Promise<void> => {
      await using lease = await clients.one.hold("used", { ttl: 60 });
      kept = lease;
      assert.ok(!(await isFree("used")));
      throw failure;
    };
    await assert.rejects(using(), failure);
    assert.ok(await isFree("used"));
    assert.ok(kept?.signal.aborted);
    await kept.release();
  });

  test("work that releases by itself has lost nothing", async () => {
    const result = await clients.one.hold("early", {}, async (lease) => {
      await lease.release();
      assert.throws(() => lease.assertHeld(), /was released/);
      return 1;
    });
    assert.equal(result, 1);
  });

  test("is not begun where another holds it", async () => {
    await using _ = await clients.two.hold("taken");
    await assert.rejects(
      clients.one.hold("taken", { wait: 1 }, () => assert.fail("it ran")),
      (error) => error instanceof HeldError && /waited [12] s, place 1 in line$/.test(error.message),
    );
  });

  test("tells of a force release at the next renewal: who and why", async () => {
    const work = clients.one.hold("forced", { ttl: 3 }, async (lease) => {
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      throw lease.signal.reason;
    });
    await until("it is held", async () => !(await isFree("forced")));
    await clients.admin.locks.forceRelease("forced", "runner-1 is gone, see incident 311");
    await assert.rejects(work, (error) => {
      assert.ok(error instanceof LeaseLostError && error.resource === "forced");
      assert.match(error.message, /ended by operator at .*: runner-1 is gone, see incident 311/);
      return true;
    });
  });

  test("the server out of reach: the signal is aborted before another is granted", async () => {
    await using proxy = await TcpProxy.start(server.port, () => performance.now());
    const lease = await clientsOf(proxy.url).one.hold("apart", { ttl: 3 });
    const rival = clients.two.hold("apart", { wait: "1m" });
    proxy.part();
    const next = await rival;
    const at = new Date();
    assert.ok(lease.signal.aborted, "aborted by the time that another has it");
    assert.ok(lease.safeUntil < at);
    assert.throws(() => lease.assertHeld(), LeaseLostError);
    assert.equal(next.token, lease.token + 1);
    await next.release();
  });

  test("a server that is away for less than the TTL costs nothing", async () => {
    await using own = await startServer();
    const lease = await clientsOf(own.url).one.hold("over", { ttl: 10 });
    await using again = await own.restart();
    const before = lease.safeUntil;
    await until("it was renewed", () => lease.safeUntil > before);
    lease.assertHeld();
    await lease.release();
    assert.equal((await clientsOf(again.url).one.locks.get("over")).previous?.how, "released");
  });

  test("a release that fails can be tried again", async () => {
    await using own = await startServer();
    const { one } = clientsOf(own.url, { retries: 0 });
    const lease = await one.hold("stuck", { ttl: 60 });
    own.kill("SIGKILL");
    await own.exited;
    await assert.rejects(lease.release(), { code: "unreachable" });
    assert.ok(lease.signal.aborted);
    await using again = await own.restart();
    await lease.release();
    assert.equal((await clientsOf(again.url).one.locks.get("stuck")).status, "free");
  });
});

describe("a stalled event loop", () => {
  test("is noticed on the next line, without a turn in between", async () => {
    const lease = await clients.one.hold("stalled", { ttl: 1 });
    block(1500);
    assert.throws(() => lease.assertHeld(), /not renewed in time/);
    assert.ok(lease.signal.aborted);
    const other = await clients.one.hold("stalled-2", { ttl: 1 });
    block(1500);
    assert.throws(() => other.signal.throwIfAborted(), LeaseLostError);
  });

  for (const renewIn of ["worker", "event-loop"] as const)
    test(`for 3 × TTL, renewed in the ${renewIn}`, async () => {
      const name = `blocked-${renewIn}`;
      const task = {
        does: "block",
        url: server.url,
        token: "secret-a",
        name,
        ttl: 2,
        blockMs: 6000,
        renewIn,
      };
      await using holder = startHolder(task);
      const { token } = await holder.next("held");
      let woke: Extract<Said, { said: "woke" }> | null = null;
      const waking = holder.next("woke").then((said) => {
        woke = said;
      });
      if (renewIn === "worker") {
        await neverGranted(name, () => woke !== null || holder.child.exitCode !== null);
        await waking;
        assert.deepEqual(woke, { said: "woke", aborted: false, threw: null });
        return;
      }
      const next = await clients.two.hold(name, { wait: "1m" });
      assert.equal(next.token, token + 1);
      assert.equal(woke, null, "another has it while the first is still blocked");
      await waking;
      assert.match(JSON.stringify(woke), /"aborted":true,"threw":"LeaseLostError: /);
      await next.release();
    });

  test("with a renewing thread, the reason of a loss is known on the next line, too", async () => {
    const lease = await clients.one.hold("told", { ttl: 2, renewIn: "worker" });
    const [forced, lost] = [
      clients.admin.locks.forceRelease("told", "incident 7"),
      until("lost", () => !lease.held),
    ];
    await Promise.all([forced, lost]);
    assert.throws(() => lease.assertHeld(), /ended by operator at .*: incident 7/);
  });

  test("a thread also where the program is text on the command line", async () => {
    const entry = new URL("../src/client/entry.js", import.meta.url).href;
    const text = `import { createClient } from "${entry}";
      const client = createClient({ url: "${server.url}", token: "secret-a" });
      console.log(await client.hold("text", { renewIn: "worker" }, (lease) => lease.token));`;
    const { code, stdout, stderr } = await runToEnd(process.execPath, ["--input-type=module", "-e", text]);
    assert.deepEqual([code, stdout, stderr], [0, "1\n", ""]);
  });

  test("a thread that is needed no more keeps no process alive", async () => {
    const task = { does: "block", url: server.url, token: "secret-a", name: "ends", ttl: 5, blockMs: 0 };
    await using holder = startHolder({ ...task, renewIn: "worker" });
    await holder.next("woke");
    await until("it has ended by itself", () => holder.child.exitCode !== null);
    assert.equal(holder.child.exitCode, 0);
    assert.ok(await isFree("ends"));
  });
});

describe("a stopped process", () => {
  for (const [does, renewIn] of [
    ["tick", "event-loop"],
    ["tick", "worker"],
    ["spin", "worker"],
  ] as const)
    test(`finds its lease lost before it can write (${does}, renewed in the ${renewIn})`, async () => {
      const name = `stopped-${does}-${renewIn}`;
      const task = { does, url: server.url, token: "secret-a", name, ttl: 1, renewIn };
      await using holder = startHolder(task);
      const { token } = await holder.next("held");
      await delay(300);
      holder.signal("SIGSTOP");
      const next = await clients.two.hold(name, { wait: "1m" });
      assert.equal(next.token, token + 1);
      await delay(1200);
      holder.signal("SIGCONT");
      const { aborted, threw } = await holder.next("woke");
      assert.equal(aborted, true);
      assert.match(threw ?? "", /^LeaseLostError: The lease on stopped-/);
      next.assertHeld();
      await next.release();
    });
});

/** A counter that refuses whoever comes with a lower fencing token than it has seen. */
class GuardedCounter {
  value = 0;
  written = 0;
  refused = 0;
  overwritten = 0;
  token = 0;

  answer(said: Extract<Said, { said: "read" | "write" }>): number | null {
    if (said.token < this.token) {
      this.refused++;
      return null;
    }
    this.token = said.token;
    if (said.said === "read") return this.value;
    if (said.value !== this.value + 1) this.overwritten++;
    this.value = said.value;
    this.written++;
    return this.value;
  }
}

describe("fencing", () => {
  const rounds = 1000;
  const strikes = 10;

  test(`a guarded counter loses no update in ${rounds} rounds of two that compete and are stopped`, async () => {
    const counter = new GuardedCounter();
    const seen = { strikes: 0, stoppedThemselves: 0 };
    let isStruck = false;
    /** Stops it between its read and its write, until another has the lease and was there. */
    const strike = async (holder: Holder): Promise<void> => {
      const { token } = counter;
      isStruck = true;
      seen.strikes++;
      holder.signal("SIGSTOP");
      await until("another was there", () => counter.token > token).finally(() => holder.signal("SIGCONT"));
      isStruck = false;
    };
    const hear = (index: number, said: Said): void => {
      const holder = holders[index];
      if (said.said === "stopped-itself") seen.stoppedThemselves++;
      if (holder === undefined || (said.said !== "read" && said.said !== "write")) return;
      const value = counter.answer(said);
      const isDue =
        counter.written >= ((seen.strikes + 1) * rounds) / (strikes + 1) && counter.written < rounds;
      if (said.said === "read" && isDue && !isStruck && index === seen.strikes % 2) void strike(holder);
      holder.child.send({ value }, () => undefined);
    };
    const task = { does: "count", url: server.url, name: "counter", ttl: 1 };
    const holders = ["secret-a", "secret-b"].map((token, index) =>
      startHolder({ ...task, token, isCareful: index === 0 }, (said) => hear(index, said)),
    );
    await using _one = holders[0];
    await using _two = holders[1];
    const isOver = (): boolean =>
      counter.written >= rounds || holders.some(({ child }) => child.exitCode !== null);
    await until("all rounds are over", isOver, 3 * withinMs);
    assert.ok(counter.written >= rounds, `${counter.written} rounds`);
    assert.deepEqual([counter.value, counter.overwritten], [counter.written, 0], "no update is lost");
    assert.equal(seen.strikes, strikes);
    assert.ok(seen.stoppedThemselves > 0, "who looks at its lease does not write");
    assert.ok(counter.refused > 0, "who does not look is refused");
  });
});
