// What the client must do wherever there is `fetch`: one small suite without anything of a particular runtime, given
// a server and told where to report. Each case uses names of its own.
import { createClient, HeldError, HoldfastError, LeaseLostError } from "../../src/client/entry.js";

export interface Given {
  readonly url: string;
  /** Of two workers that compete. */
  readonly token: string;
  readonly rivalToken: string;
  /** Put before every name, so that several runtimes can share a server. */
  readonly prefix: string;
  /** Whether a thread can renew here. */
  readonly hasThreads: boolean;
}

export interface Result {
  readonly name: string;
  /** null: it passed. */
  readonly problem: string | null;
}

function check(isTrue: boolean, what: string): asserts isTrue {
  if (!isTrue) throw new Error(`not so: ${what}`);
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** No turn of the event loop happens meanwhile. A page may not wait, so it is busy. */
function block(ms: number, isPage: boolean): void {
  if (!isPage) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  else for (const until = performance.now() + ms; performance.now() < until; );
}

async function failure(call: Promise<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new Error("not so: it fails");
}

type Case = (given: Given & { readonly name: string }) => Promise<void>;

const clientsOf = ({ url, token, rivalToken }: Given) => ({
  mine: createClient({ url, token }),
  rival: createClient({ url, token: rivalToken }),
});

const cases: Readonly<Record<string, Case>> = {
  "acquire, held, renew, release": async (given) => {
    const { mine, rival } = clientsOf(given);
    const name = `${given.name}/[a] b`.replace(/^/, "path:");
    const lease = await mine.locks.acquire(name, { ttl: 60, metadata: "größer" });
    check(lease.status === "acquired", "granted");
    const held = await rival.locks.acquire(name);
    check(held.status === "held" && held.metadata === "größer", "held, with its metadata");
    check(held.holder.since instanceof Date, "a date");
    const renewed = await mine.locks.renew(name, lease.leaseId, { ttl: 90 });
    check(renewed.expiresInMs > 60_000 && renewed.fencingToken === lease.fencingToken, "renewed");
    await mine.locks.release(name, lease.leaseId);
    check((await rival.locks.get(name)).status === "free", "free");
  },
  "errors are typed": async (given) => {
    const { mine, rival } = clientsOf(given);
    const lease = await mine.hold(given.name, { ttl: 60 });
    const held = await failure(rival.hold(given.name));
    check(held instanceof HeldError && held.by.expiresAt instanceof Date, "who, and until when");
    const wrong = await failure(createClient({ url: given.url, token: "wrong" }).whoami());
    check(wrong instanceof HoldfastError && wrong.code === "authentication_failed", "a code");
    check(wrong.requestId?.startsWith("req_") === true, "the trace id");
    await lease.release();
    await using next = await rival.hold(given.name, { ttl: 60 });
    const lost = await failure(mine.locks.renew(given.name, lease.leaseId));
    check(lost instanceof LeaseLostError && lost.by?.expiresAt instanceof Date && next.held, "lost, to whom");
    const odd = { tll: 60 } as object;
    check((await failure(mine.hold(given.name, odd))) instanceof TypeError, "an option that is none");
  },
  "hold renews, and releases at the end": async (given) => {
    const { mine, rival } = clientsOf(given);
    const result = await mine.hold(given.name, { ttl: 1 }, async (lease) => {
      for (let nth = 0; nth < 5; nth++) {
        await sleep(400);
        lease.assertHeld();
        check((await rival.locks.acquire(given.name)).status === "held", "nobody else gets it");
      }
      return lease.token;
    });
    check(result === 1 && (await rival.locks.get(given.name)).status === "free", "released");
    await using lease = await rival.hold(given.name);
    check(lease.token === 2, "the next token");
  },
  "a stall is noticed on the next line": async (given) => {
    const { mine, rival } = clientsOf(given);
    const lease = await mine.hold(given.name, { ttl: 1 });
    block(1300, !given.hasThreads);
    check(lease.signal.aborted, "aborted");
    try {
      lease.assertHeld();
    } catch (error) {
      check(error instanceof LeaseLostError, "lost");
      const next = await rival.hold(given.name, { wait: "1m" });
      return next.release();
    }
    throw new Error("not so: assertHeld throws");
  },
  "a renewing thread where there are threads": async (given) => {
    const { mine } = clientsOf(given);
    const holding = mine.hold(given.name, { ttl: 2, renewIn: "worker" });
    if (!given.hasThreads) {
      const refused = await failure(holding);
      check(refused instanceof TypeError && refused.message.includes("needs Node"), "refused in words");
      return;
    }
    const lease = await holding;
    block(6000, false);
    lease.assertHeld();
    check(!lease.signal.aborted, "kept while nothing else could run");
    await lease.release();
  },
  "waiting in line, and leaving it": async (given) => {
    const { mine, rival } = clientsOf(given);
    const lease = await mine.hold(given.name, { ttl: 60 });
    const leaving = new AbortController();
    const left = failure(rival.hold(given.name, { wait: "1m", signal: leaving.signal }));
    const waiting = rival.hold(given.name, { ttl: 60, wait: "1m" });
    const areWaiting = async (count: number): Promise<void> => {
      while ((await mine.locks.get(given.name)).waiters !== count) await sleep(20);
    };
    await areWaiting(2);
    leaving.abort(new Error("enough"));
    check(String(await left).includes("enough"), "the signal's reason");
    await areWaiting(1);
    await lease.release();
    const next = await waiting;
    check(next.token === lease.token + 1, "next in line");
    await next.release();
  },
  jobs: async (given) => {
    const { mine, rival } = clientsOf(given);
    const claimed = await mine.claimJob(given.name, { owner: "agent-7", metadata: { a: 1 } });
    check(claimed.claimed, "claimed");
    const refused = await rival.claimJob(given.name);
    check(!refused.claimed && refused.owner === "agent-7", "who owns it");
    await mine.heartbeatJob(given.name, claimed.leaseId, { progress: "half" });
    check((await rival.getJobOwner(given.name)).progress === "half", "how far it is");
    check((await rival.listClaimedJobs({ prefix: given.name })).jobs.length === 1, "in the list");
    await mine.releaseJob(given.name, claimed.leaseId, { outcome: "done" });
    check(!(await rival.getJobOwner(given.name)).claimed, "released");
  },
  sessions: async (given) => {
    const { mine } = clientsOf(given);
    const { sessionId } = await mine.sessions.create({ ttl: 30 });
    const lease = await mine.locks.acquire(given.name, { sessionId });
    check(lease.status === "acquired", "granted");
    check((await mine.sessions.keepalive(sessionId)).leases === 1, "kept");
    await mine.sessions.end(sessionId);
    check((await mine.locks.get(given.name)).status === "free", "ended with it");
  },
  watch: async (given) => {
    const { mine, rival } = clientsOf(given);
    const stop = new AbortController();
    const told: string[] = [];
    for await (const event of rival.watch({ prefix: given.name, signal: stop.signal })) {
      told.push(event.event);
      if (event.event === "synced") void mine.hold(given.name, { ttl: 60 }, () => sleep(50));
      if (event.event === "released") stop.abort();
    }
    check(told.join() === "synced,acquired,released", told.join());
  },
};

export async function runSuite(given: Given): Promise<Result[]> {
  const results: Result[] = [];
  for (const [index, [name, run]] of Object.entries(cases).entries()) {
    try {
      await run({ ...given, name: `${given.prefix}-${index}` });
      results.push({ name, problem: null });
    } catch (error) {
      results.push({ name, problem: error instanceof Error ? `${error}\n${error.stack}` : String(error) });
    }
  }
  return results;
}
