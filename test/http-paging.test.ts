// Lists a page at a time: 2,500 held names, cursors that go on where they stopped while names come and go, filters
// that see only part of them.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Body, ok, refused, type TokenBody } from "./http-api.js";
import { adminToken, type Server, startServer } from "./server.js";

const one = "secret-a";
const two = "secret-b";
const viewer = "secret-v";
const total = 2500;
const names = Array.from({ length: total }, (_, i) => `page/${String(i).padStart(4, "0")}`);
let server: Server;
const leases = new Map<string, string>();

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
  for (let i = 0; i < total; i += 250)
    await Promise.all(names.slice(i, i + 250).map((name, n) => claim(name, (i + n) % 5 === 0 ? two : one)));
});
after(() => server.stop());

async function claim(name: string, token = one): Promise<void> {
  const owner = `agent-${name.slice(-1)}`;
  const { lease_id } = await ok(server, "claimJob", { token, name, body: { owner, ttl_seconds: 3600 } });
  leases.set(name, lease_id);
}

type List = "listLocks" | "listJobs";
const rows = (page: Body): string[] =>
  page.locks?.map(({ name }) => name) ?? page.jobs.map(({ job_id }) => job_id);

/** Follows the cursors to the end; `between` runs after each page. */
async function all(
  id: List,
  query: Record<string, string>,
  token = viewer,
  between: (page: number) => Promise<unknown> = async () => undefined,
): Promise<string[][]> {
  const pages: string[][] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Body = await ok(server, id, {
      token,
      query: { ...query, ...(cursor === "" ? {} : { cursor }) },
    });
    pages.push(rows(page));
    cursor = page.next_cursor;
    assert.ok(pages.length < 200, "the cursor does not come to an end");
    if (cursor !== null) await between(pages.length);
  }
  return pages;
}

for (const id of ["listLocks", "listJobs"] as const)
  describe(id, () => {
    test("2,500 names in pages of 1,000, in order, once each", async () => {
      const pages = await all(id, { limit: "1000" });
      assert.deepEqual(
        pages.map((page) => page.length),
        [1000, 1000, 500],
      );
      assert.deepEqual(pages.flat(), names);
    });

    test("100 a page unless said", async () => {
      const page = await ok(server, id, { token: viewer });
      assert.deepEqual(rows(page), names.slice(0, 100));
      assert.ok(page.next_cursor);
    });

    test("pages of any size end exactly", async () => {
      for (const limit of [1, 7, 100, 511, 512, 513])
        assert.deepEqual(
          (await all(id, { prefix: "page/00", limit: String(limit) })).flat(),
          names.slice(0, 100),
          `pages of ${limit}`,
        );
      const exact = await ok(server, id, { token: viewer, query: { prefix: "page/00", limit: "100" } });
      assert.equal(exact.next_cursor, null, "no cursor to an empty page");
    });

    test("a prefix and a cursor together never leave the prefix", async () => {
      const early = await ok(server, id, { token: viewer, query: { limit: "1" } });
      const within = { prefix: "page/12", limit: "1000", cursor: early.next_cursor ?? "" };
      assert.deepEqual(rows(await ok(server, id, { token: viewer, query: within })), names.slice(1200, 1300));
      const late = await ok(server, id, { token: viewer, query: { prefix: "page/2", limit: "1" } });
      const behind = { prefix: "page/12", cursor: late.next_cursor ?? "" };
      assert.deepEqual(rows(await ok(server, id, { token: viewer, query: behind })), []);
    });

    test("one's own: every page only what this principal holds", async () => {
      const mine = (await all(id, { mine: "true", limit: "200" }, two)).flat();
      assert.deepEqual(
        mine,
        names.filter((_, i) => i % 5 === 0),
      );
      assert.deepEqual((await all(id, { mine: "true", limit: "300" }, viewer)).flat(), []);
    });

    test("is stable while names come and go: no repeats, and all that stayed", async () => {
      const gone = names.filter((_, i) => i % 250 === 3);
      const added: string[] = [];
      const pages = await all(id, { limit: "100" }, viewer, async (page) => {
        const name = gone[page % gone.length] ?? "";
        const token = names.indexOf(name) % 5 === 0 ? two : one;
        const lease_id = leases.get(name);
        if (lease_id !== undefined) await ok(server, "releaseJob", { token, name, body: { lease_id } });
        leases.delete(name);
        const extra = `page/${String((page * 97) % total).padStart(4, "0")}-extra-${id}`;
        await claim(extra);
        added.push(extra);
      });
      const seen = pages.flat();
      assert.equal(new Set(seen).size, seen.length, "no repeats");
      assert.deepEqual(seen, seen.toSorted());
      const stayed = names.filter((name) => !gone.includes(name));
      assert.deepEqual(
        stayed.filter((name) => !seen.includes(name)),
        [],
      );
      for (const name of added)
        await ok(server, "releaseJob", { token: one, name, body: { lease_id: leases.get(name) } });
      for (const name of gone)
        if (!leases.has(name)) await claim(name, names.indexOf(name) % 5 === 0 ? two : one);
    });

    test("a cursor of another space is refused", async () => {
      const { next_cursor } = await ok(server, id, { token: viewer, query: { limit: "1" } });
      const headers = { "holdfast-space": "other" };
      const query = { cursor: next_cursor ?? "" };
      await refused(server, id, { token: adminToken, query, headers }, 422, "invalid_input");
      await refused(
        server,
        id,
        { token: viewer, query: { cursor: `${next_cursor}!` } },
        422,
        "invalid_input",
      ).catch(
        // Base64 readers pass over what is not of their alphabet: then it is the same place.
        async () => ok(server, id, { token: viewer, query: { cursor: `${next_cursor}!` } }),
      );
    });

    test("scopes: pages hold only what the token may see, and still come to an end", async () => {
      const made = await ok<TokenBody>(server, "createToken", {
        token: adminToken,
        body: { name: `scoped-${id}`, role: "observer", scopes: ["page/*7"] },
      });
      const { next_cursor } = await ok(server, id, { token: made.token, query: { limit: "3" } });
      const told = Buffer.from(next_cursor ?? "", "base64url").toString("latin1");
      assert.ok(
        !told.includes("page"),
        `the place is sealed: it may be a name that must not be seen: ${told}`,
      );
      const query = { cursor: `${next_cursor?.slice(0, -4)}AAAA` };
      await refused(server, id, { token: made.token, query }, 422, "invalid_input");
      const seen = (await all(id, { limit: "100" }, made.token)).flat();
      assert.deepEqual(
        seen,
        names.filter((name) => name.endsWith("7")),
      );
      const none = await ok<TokenBody>(server, "createToken", {
        token: adminToken,
        body: { name: `blind-${id}`, role: "observer", scopes: ["nothing"] },
      });
      assert.deepEqual((await all(id, { limit: "1000" }, none.token)).flat(), []);
    });
  });

describe("jobs by owner", () => {
  test("across pages", async () => {
    const seen = (await all("listJobs", { owner: "agent-3", limit: "60" })).flat();
    assert.deepEqual(
      seen,
      names.filter((name) => name.endsWith("3")),
    );
    const both = (await all("listJobs", { owner: "agent-5", mine: "1", limit: "60" }, two)).flat();
    assert.deepEqual(
      both,
      names.filter((name) => name.endsWith("5")),
    );
  });
});
