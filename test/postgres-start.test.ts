// What a server on PostgreSQL refuses to start with, each in one sentence that says what to do; and how tables come to be.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { openData, openPostgres } from "../src/engines/postgres/open.js";
import { StoreError } from "../src/store/store.js";
import { startEtcd } from "./etcd-lab.js";
import { Postgres, password } from "./postgres-lab.js";
import { startServer } from "./server.js";
import { bump, tokenOf } from "./store-lab.js";

let server: Postgres;
let url: string;

before(async () => {
  server = await Postgres.start();
  url = await server.database();
});
after(() => server.stop());

/** Opening is refused with a sentence that matches, and that does not tell the password. */
async function refused(place: string, kind: StoreError["kind"], said: RegExp): Promise<void> {
  await assert.rejects(openPostgres(place), (error) => {
    assert.ok(error instanceof StoreError, String(error));
    assert.match(error.message, said);
    assert.equal(error.kind, kind, error.message);
    assert.ok(!error.message.includes(password));
    return true;
  });
}

describe("a URL", () => {
  const rows: [string, RegExp][] = [
    ["postgres://a@h/x?listn=postgres://b/x", /listn is no setting of a postgres URL: there are .*listen/],
    ["postgres://a@h/x?options=-csearch_path", /options is no setting/],
    ["postgres://a@h/x?schema=Bad", /schema=Bad: use small letters/],
    ["postgres://a@h/x?connections=1", /connections=1 is not a whole number from 2 to 100/],
    ["postgres://a@h/x?deadline_ms=5s", /deadline_ms=5s is not a whole number/],
    ["postgres://a@h1,h2/x", /names one host/],
    ["postgres://a:b@h1:5432,h2:5432/x?schema=a", /names one host/],
    ["postgres://a:p#ss@h/x", /user or password has a character .*: write # as %23/],
    ["postgres://a:p/ss@h/x", /user or password has a character .*\/ as %2F/],
    ["postgres://a:12/ss@h/x", /user or password has a character/],
    ["postgres://a:p?ss@h/x", /user or password has a character .*\? as %3F/],
    ["postgres://a:p%ss@h/x", /user or password has a character .*% as %25/],
    ["postgres://a@h:port/x", /looks like postgres:/],
    ["postgres://a@h/x#y", /looks like postgres:/],
    ["postgres://a@h/x?sslmode=verify_full", /sslmode=verify_full: use verify-full/],
    [
      "postgres://a@h/x?sslrootcert=/no/such/file",
      /the file \/no\/such\/file \(sslrootcert\) cannot be read/,
    ],
    ["postgres://a@h/x?listen=nonsense", /looks like postgres:/],
  ];
  for (const [text, said] of rows) test(`${text} is refused`, () => refused(text, "unsupported", said));
});

describe("a start is refused", () => {
  test("with a wrong password", () =>
    refused(
      url.replace(password, "wrong"),
      "unavailable",
      /refused the password: correct user and password/,
    ));

  test("on a host that nobody knows", () =>
    refused("postgres://a@nowhere.invalid/x", "unavailable", /host whose name is unknown/));

  test("without a password", () =>
    refused(url.replace(`:${password}`, ""), "unavailable", /asks for a password: write it .* PGPASSWORD/));

  test("where nothing listens", () =>
    refused("postgres://a@127.0.0.1:1/x", "unavailable", /cannot be reached: is it running/));

  test("where another program listens: one that closes, and one that says nothing", async (t) => {
    await using other = await startServer();
    await refused(
      `postgres://a:b@127.0.0.1:${other.port}/x`,
      "unavailable",
      /closed the connection: is it PostgreSQL, and are host and port/,
    );
    const etcd = await startEtcd();
    t.after(() => etcd.stop());
    await refused(
      `postgres://a:b@${etcd.endpoints}/x?deadline_ms=500`,
      "unavailable",
      /did not answer in time: is it PostgreSQL, and are host and port/,
    );
  });

  test("with TLS where the database has none", () =>
    refused(
      `${url}?sslmode=verify-full`,
      "unavailable",
      /does not speak TLS: turn it on there .* or take sslmode out/,
    ));

  test("on a database that does not exist", () =>
    refused(server.url("no_such"), "unavailable", /does not exist on that server: create it/));

  test("without the right to make tables", async () => {
    await server.sql("CREATE DATABASE closed");
    await refused(server.url("closed"), "unavailable", /does not allow this user what is needed/);
  });

  test("on a database with another encoding", async () => {
    await server.sql(
      "CREATE DATABASE ascii OWNER holdfast ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    await refused(server.url("ascii"), "unsupported", /has the encoding SQL_ASCII: create one with/);
  });

  const settings: [string, string, RegExp][] = [
    ["default_transaction_read_only", "on", /only reads \(default_transaction_read_only\)/],
    ["synchronous_commit", "off", /has synchronous_commit off for this user/],
    ["default_transaction_isolation", "serializable", /commits need read committed/],
  ];
  for (const [name, value, said] of settings)
    test(`with ${name} = ${value}`, async () => {
      await server.sql(`ALTER ROLE holdfast SET ${name} = '${value}'`);
      try {
        await refused(url, "unsupported", said);
      } finally {
        await server.sql(`ALTER ROLE holdfast RESET ${name}`);
      }
    });

  test("with fsync off, and one that runs takes nothing more until it is on again", async () => {
    const store = await openPostgres(`${url}?schema=durable`);
    const setFsync = async (value: string): Promise<void> => {
      await server.sql(`ALTER SYSTEM SET fsync = ${value}`);
      await server.sql("SELECT pg_reload_conf()");
      while ((await server.sql("SHOW fsync"))[0]?.fsync !== value);
    };
    await setFsync("off");
    try {
      await refused(url, "unsupported", /has fsync off and would lose what it has confirmed/);
      const isRefused = (error: unknown) => error instanceof StoreError && error.kind === "unavailable";
      // Each connection notices a reload at its next statement.
      await assert.rejects(async () => {
        for (;;) await bump(store, "a");
      }, isRefused);
    } finally {
      await setFsync("on");
    }
    const before = await tokenOf(store, "a");
    for (let i = 0; i < 20; i++) await bump(store, "a").catch(() => undefined);
    assert.ok((await tokenOf(store, "a")) > before);
    await store.close();
  });

  test("on a standby that only follows", async () => {
    await openPostgres(url).then((store) => store.close());
    const standby = await Postgres.start({ follows: server });
    try {
      await refused(
        url.replace(String(server.port), String(standby.port)),
        "unsupported",
        /is a standby that only follows/,
      );
    } finally {
      await standby.stop();
    }
  });

  test("and the program says so and ends", async () => {
    const args = ["--store", url.replace(password, "wrong")];
    await assert.rejects(startServer({ args, readyWithinMs: 10_000 }), /refused the password/);
  });
});

describe("tables", () => {
  test("are made once, however many servers start at once", async () => {
    const place = `${await server.database()}?schema=made`;
    const stores = await Promise.all(Array.from({ length: 8 }, () => openPostgres(place)));
    for (const [i, store] of stores.entries()) assert.equal(await bump(store, "a"), i + 1);
    await Promise.all(stores.map((store) => store.close()));
  });

  test("of a newer program are left alone", async () => {
    const place = await server.database();
    await openPostgres(place).then((store) => store.close());
    const name = new URL(place).pathname.slice(1);
    await server.sql("UPDATE holdfast.schema_version SET version = 99", [], name);
    await refused(
      place,
      "unsupported",
      /are of version 99, made by a newer Holdfast; this one knows version 1/,
    );
  });

  test("may lie in a schema that somebody else made for this user", async () => {
    await server.sql("CREATE DATABASE given");
    await server.sql("CREATE SCHEMA holdfast AUTHORIZATION holdfast", [], "given");
    const store = await openPostgres(server.url("given"));
    assert.equal(await bump(store, "a"), 1);
    await store.close();
  });

  test("that were moved send whoever uses them elsewhere", async () => {
    const place = `${url}?schema=moved`;
    const store = await openPostgres(place);
    await bump(store, "a");
    const data = await openData(place);
    assert.equal(await data.seal("sqlite:/new"), "sqlite:/new");
    assert.equal(await data.seal("elsewhere"), "sqlite:/new", "the first word counts");
    const isMoved = (error: unknown) =>
      error instanceof StoreError &&
      error.kind === "unavailable" &&
      /was moved to sqlite:\/new/.test(error.message);
    await assert.rejects(bump(store, "a"), isMoved);
    await assert.rejects(store.ping(), isMoved);
    await assert.rejects(openPostgres(place), isMoved);
    await data.close();
    await store.close();
  });
});

test("a socket in a folder, on a port that is not the usual one", async () => {
  const place = `postgres://holdfast:${password}@localhost:${server.port}/test_1?host=${server.dir}`;
  const store = await openPostgres(`${place}&schema=socket`);
  assert.equal(await bump(store, "a"), 1);
  await store.close();
});

test("a server that makes its own operator token says that others will not know it", async () => {
  const args = ["--store", `${url.replace(`:${password}`, "")}?schema=own_token`];
  const env = { PGPASSWORD: password, HOLDFAST_ADMIN_TOKEN: undefined };
  const warning = /set HOLDFAST_ADMIN_TOKEN to the same value on all/;
  for (const [tokens, store, isWarned] of [
    ["", args, true],
    ["a:b", args, false],
    ["", [], false],
  ] as const) {
    await using one = await startServer({ args: store, env, tokens });
    assert.equal(warning.test(one.stderr()), isWarned, one.stderr());
    assert.equal(await one.stop(), 0);
  }
});

test("where the data is, is told without the password", async () => {
  const store = await openPostgres(`${url}?schema=shown&deadline_ms=4000`);
  assert.equal(store.facts.location, `postgres://holdfast@127.0.0.1:${server.port}/test_1 (schema shown)`);
  const gauges = await store.gauges();
  assert.ok(gauges["pool_connections"]);
  const page = readFileSync(new URL("../../docs/postgres.md", import.meta.url), "utf8");
  assert.deepEqual(
    Object.keys(gauges).filter((name) => !page.includes(`\`${name}\``)),
    [],
    "not in the docs",
  );
  await store.close();
});
