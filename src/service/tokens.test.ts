// Tokens where others change them, too: a server that missed a revocation does not take the token for good.
import assert from "node:assert/strict";
import { test } from "node:test";
import { quiet } from "../../test/service-work-lab.js";
import { policyDefault } from "../core/limits.js";
import { MemoryData, MemoryStore } from "../engines/memory/store.js";
import { StoreError } from "../store/store.js";
import { Tokens } from "./tokens.js";

const act = { by: "operator", wallAt: 0 };
const root = { name: "root", secret: "secret-root", role: "admin", reentrant: false } as const;

/** A server's handle of shared data that can be cut off from it, and whose lists can be held up. */
class Handle extends MemoryStore {
  isCut = false;
  held = Promise.resolve();

  #check(): void {
    if (this.isCut) throw new StoreError("unavailable", "the database does not answer");
  }

  override async transact<Reply>(...call: Parameters<MemoryStore["transact"]>): Promise<Reply> {
    this.#check();
    return super.transact(...call) as Promise<Reply>;
  }

  override async list(range: Parameters<MemoryStore["list"]>[0]) {
    this.#check();
    const rows = await super.list(range);
    await this.held;
    return rows;
  }
}

class Server {
  readonly store: Handle;
  readonly tokens: Tokens;
  readonly #timers: (() => void)[] = [];

  constructor(data: MemoryData) {
    this.store = new Handle(data);
    this.tokens = new Tokens(this.store, policyDefault, [root], (_, run) => {
      this.#timers.push(run);
      return () => undefined;
    });
  }

  /** What was put off is tried again. */
  async retry(): Promise<void> {
    for (const run of this.#timers.splice(0)) run();
    await quiet();
  }

  knows(token: string): boolean {
    return this.tokens.identify(token) !== null;
  }

  async make(name: string, space = "default") {
    const wish = { name, space, role: "worker", scopes: ["*"], reentrant: false, expiresInMs: null } as const;
    const made = await this.tokens.create(wish, act);
    assert.ok("token" in made, JSON.stringify(made));
    await quiet();
    return { id: made.record.id, token: made.token };
  }
}

/** Two servers on the same data, both with the tokens `kept` and `lost`; the second was cut off when `lost` was revoked. */
async function cutOff() {
  const data = new MemoryData();
  const [one, two] = [new Server(data), new Server(data)];
  for (const { tokens } of [one, two]) await tokens.start(new AbortController().signal, () => undefined);
  const [kept, lost] = [await one.make("kept"), await one.make("lost")];
  two.store.isCut = true;
  await one.tokens.revoke(lost.id, "default", act);
  await quiet();
  two.store.isCut = false;
  assert.ok(two.knows(kept.token) && two.knows(lost.token));
  return { one, two, kept, lost };
}

test("what was revoked while it was cut off is not taken any more once it reads the tokens anew", async () => {
  const { two, kept, lost } = await cutOff();
  const { revoked } = two.tokens.identify(lost.token) ?? assert.fail();
  await two.retry();
  assert.ok(!two.knows(lost.token) && revoked.aborted, "whoever waits with it is sent away");
  assert.ok(two.knows(kept.token) && two.knows(root.secret));
});

test("what is made while it reads the tokens anew stays", async () => {
  const { two, kept, lost } = await cutOff();
  let go = (): void => undefined;
  two.store.held = new Promise((resolve) => {
    go = resolve;
  });
  await two.retry();
  const made = await two.make("made");
  go();
  await quiet();
  assert.deepEqual(
    [lost, kept, made].map(({ token }) => two.knows(token)),
    [false, true, true],
  );
});

test("to revoke it once more where it is still known ends it there, and nothing else", async () => {
  const { two, kept, lost } = await cutOff();
  const revoke = async (id: string, space = "default"): Promise<void> =>
    assert.deepEqual(await two.tokens.revoke(id, space, act), { refused: "token_unknown" });
  await revoke(lost.id, "north");
  assert.ok(two.knows(lost.token), "another space's");
  await revoke(lost.id);
  await revoke(kept.id, "north");
  await revoke("static:root");
  assert.deepEqual(
    [lost, kept, { token: root.secret }].map(({ token }) => two.knows(token)),
    [false, true, true],
  );
});
